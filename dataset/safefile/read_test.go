package safefile

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

// Everything but a regular file within the limit is refused without blocking.
func TestRead(t *testing.T) {
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
		if b, err := Read(at(name), 10); err != nil || string(b) != "0123456789" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for path, want := range map[string]string{at("pipe"): "named pipe", at("socket"): "a socket", dir: "a folder", "/dev/zero": "a device", at("file"): "has 0.0 MB"} {
		if _, err := Read(path, 9); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it refused as %q", path, err, want)
		}
	}
	if _, err := Read(at("none"), 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if b, err := Read("/proc/self/status", MaxRecord); err != nil || !bytes.Contains(b, []byte("VmHWM")) {
		t.Errorf("a file of the kernel, which says no size: %d bytes, %v", len(b), err)
	}
}
