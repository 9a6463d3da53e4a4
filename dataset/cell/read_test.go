package cell

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever is no regular file of its kind's size is refused at once.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("0123456789"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("unix", at("socket")); err != nil {
		t.Fatal(err)
	} else {
		defer l.Close()
	}
	if err := os.Symlink(at("file"), at("link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		if b, err := ReadFile(at(name), 10); err != nil || string(b) != "0123456789" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for path, want := range map[string]string{at("pipe"): "named pipe", at("socket"): "a socket", dir: "a folder", "/dev/zero": "a device", at("file"): "has 0.0 MB"} {
		if _, err := ReadFile(path, 9); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it refused as %q", path, err, want)
		}
	}
	if _, err := ReadFile(at("none"), 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if b, err := ReadFile("/proc/self/status", MaxRecord); err != nil || !bytes.Contains(b, []byte("VmHWM")) {
		t.Errorf("a file of the kernel, which says no size: %d bytes, %v", len(b), err)
	}
}

// A pipe, a folder or a file of half a gigabyte in place of a cell is a torn cell.
func TestUnfitCells(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := syscall.Mkfifo(s.Path("pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("big"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.Path("big"), 540<<20); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"pipe": "named pipe", "big": "540.0 MB"} {
		if err := s.Load(id, nil, nil); !errors.Is(err, ErrTorn) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want a torn cell, %q and a hint", id, err, want)
		}
	}
	if all := sums(t, s); len(all) != 0 {
		t.Errorf("visited %v", all)
	}
}

// What would not be read is not written.
func TestSaveRefusesWhatIsTooLarge(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id, err := ID("test", someSpec)
	if err == nil {
		err = s.Save(id, "test", someSpec, strings.Repeat("x", int(MaxCell)))
	}
	if left, _ := os.ReadDir(s.Dir); err == nil || !strings.Contains(err.Error(), "16.0 MB") || len(left) != 0 {
		t.Errorf("%v, left %v", err, left)
	}
}
