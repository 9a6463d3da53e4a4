package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Shards that find the same damaged file do not disturb each other, and the file is
// kept under another name, whatever its size.
func TestKeepSetsAside(t *testing.T) {
	want := []byte("whole")
	for _, there := range [][]byte{[]byte("torn"), bytes.Repeat([]byte("mine"), 5<<20)} {
		for range 50 {
			path := filepath.Join(t.TempDir(), "set.json")
			if err := os.WriteFile(path, there, 0o666); err != nil {
				t.Fatal(err)
			}
			var shards sync.WaitGroup
			for range 2 {
				shards.Go(func() {
					if err := writeUnlessSame(path, want, func(string) {}, func(b []byte) bool { return bytes.Equal(b, want) }); err != nil {
						t.Error(err)
					}
				})
			}
			shards.Wait()
			kept, _ := os.ReadFile(path + ".damaged")
			now, _ := os.ReadFile(path)
			if _, err := os.Stat(path + ".damaged-2"); !bytes.Equal(kept, there) || !bytes.Equal(now, want) || err == nil {
				t.Fatalf("%d bytes kept of %d, %d in place, a second one aside: %v", len(kept), len(there), len(now), err == nil)
			}
			if len(there) > 100 {
				break
			}
		}
	}
}
