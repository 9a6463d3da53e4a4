package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A walk follows links, starts at a link to a folder too, visits each folder once,
// and names a link that leads back to itself.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"real/b/x", "real/a/y", "elsewhere/z"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("real", "root")
	link(filepath.Join(dir, "elsewhere"), "real/a/out")
	link("../real", "real/again")
	link("b", "real/latest")
	link("nowhere", "real/lost")
	var got []string
	walk := func() error {
		got = nil
		_, err := Walk(t.Context(), filepath.Join(dir, "root"), func(path string, folder bool) error {
			name := strings.TrimPrefix(path, dir+"/root")
			if folder {
				name += "/"
			}
			got = append(got, name)
			return nil
		})
		return err
	}
	want := []string{"/", "/a/", "/a/y", "/b/", "/b/x", "/a/out/", "/a/out/z", "/lost"}
	if err := walk(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
	link("self", "real/self")
	if err := walk(); err == nil || !strings.Contains(err.Error(), "root/self leads back to itself (hint: ") {
		t.Errorf("%v", err)
	}
	if _, err := Walk(t.Context(), filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}
