package safefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fillOne returns a function for FillFolder that writes one file, and then returns an
// error.
func fillOne(err error) func(string) error {
	return func(dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("text"), 0o666); err != nil {
			return err
		}
		return err
	}
}

func TestFillFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "set")
	// What a killed writer left does not show up in the result.
	if err := os.MkdirAll(filepath.Join(Aside(path), "old"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := FillFolder(path+"/", fillOne(nil)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(path, "sub", "f")); string(b) != "text" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(path, "old")); err == nil {
		t.Error("the killed writer's folder is in the result")
	}
	onlyFile(t, path)
	err := FillFolder(path, fillOne(nil))
	if err == nil || !strings.Contains(err.Error(), "already exists (hint: ") {
		t.Errorf("an existing folder: %v", err)
	}
	onlyFile(t, path)
}

func TestFillFolderLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set")
	if err := FillFolder(path, fillOne(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the writer's own with the path", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("%v left, %v", left, err)
	}
}

// A second writer of the same folder gets an error, and does not disturb the first.
func TestFillFolderTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set")
	err := FillFolder(path, func(dir string) error {
		if err := FillFolder(path, fillOne(nil)); err == nil || !strings.Contains(err.Error(), "another process is writing it (hint: ") {
			t.Errorf("the second writer: %v", err)
		}
		return fillOne(nil)(dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
}

// Nothing is written or removed through a link at the temporary name.
func TestFillFolderLink(t *testing.T) {
	path, precious := filepath.Join(t.TempDir(), "set"), t.TempDir()
	if err := fillOne(nil)(precious); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, Aside(path)); err != nil {
		t.Fatal(err)
	}
	if err := FillFolder(path, fillOne(nil)); err == nil {
		t.Error("it was written through a link")
	}
	if _, err := os.Stat(filepath.Join(precious, "sub", "f")); err != nil {
		t.Error(err)
	}
}
