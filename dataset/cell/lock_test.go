package cell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder has one owner at a time; a second one waits, or gives up when it is
// told to; nothing is left in the folder.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	release, err := Lock(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Lock(stopped, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a taken folder, and told to stop: %v", err)
	}
	second := make(chan error)
	go func() {
		release, err := Lock(context.Background(), dir)
		if err == nil {
			release()
		}
		second <- err
	}()
	release()
	if err := <-second; err != nil {
		t.Errorf("after its release: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(context.Background(), file); err == nil {
		t.Error("a file was locked as a folder")
	}
}
