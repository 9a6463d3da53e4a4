package safefile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestWriteKeepsTheOldOneOnFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error { io.WriteString(w, s); return err }
	}
	if err := Write(path, text("old", nil)); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, text("new", io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the writer's own with the path", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("the file holds %q, want the old text", b)
	}
	onlyFile(t, path)
}

// onlyFile fails the test if the folder of path contains anything but path.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if left = append(left, hidden...); err != nil || len(left) != 1 || left[0] != path {
		t.Errorf("the folder holds %v, %v; want only %s", left, err, path)
	}
}

// A longer temporary file of a killed writer must not show through in the new
// content.
func TestLeftoverOfAKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".f"+tempSuffix), []byte("half of something long"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "new" {
		t.Errorf("the file holds %q", b)
	}
	onlyFile(t, path)
}

// Tidy removes the temporary file of a file that exists, unless a writer has it
// locked. The temporary file of a missing file is left for the next writer.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"f", ".f" + tempSuffix, "busy", ".busy" + tempSuffix, ".missing" + tempSuffix, tempSuffix, "f" + tempSuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openTemp(Aside(filepath.Join(dir, "busy")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	Tidy(dir)
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{tempSuffix, ".busy" + tempSuffix, ".missing" + tempSuffix, "busy", "f", "f" + tempSuffix}
	if slices.Sort(want); !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

func TestErrorsCarryHints(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	under := Write(filepath.Join(dir, "file", "f"), func(io.Writer) error { return nil })
	full := Write(filepath.Join(dir, "g"), func(io.Writer) error {
		return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	})
	for want, err := range map[string]error{"free space": full, "compete": under} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with a hint %q", err, want)
		}
	}
	if got := Explain(fs.ErrPermission).Error(); !strings.Contains(got, "may read and write") {
		t.Errorf("hint for a refused write: %q", got)
	}
}

// /dev/full returns ENOSPC for every write, so this is the kernel's own error. Only
// Linux has it.
func TestFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer f.Close()
	path := filepath.Join(t.TempDir(), "f")
	err = Write(path, func(io.Writer) error { _, err := f.Write([]byte("x")); return err })
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("error %v, want a full disk with its hint", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was left")
	}
}

func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				line := bytes.Repeat([]byte{byte('a' + i)}, 1000*(i+1))
				if err := Write(path, func(w io.Writer) error { _, err := w.Write(line); return err }); err != nil {
					t.Error(err)
				}
				if b, err := os.ReadFile(path); err != nil || len(b) != 1000*(int(b[0]-'a')+1) || len(bytes.Trim(b, string(b[:1]))) != 0 {
					t.Errorf("a reader saw %d mixed bytes, %v", len(b), err)
				}
			}
		})
	}
	wg.Wait()
	onlyFile(t, path)
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for _, name := range []string{path, Aside(path)} {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// The second time there is nothing to remove.
	for range 2 {
		if err := Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("%v left, %v", left, err)
	}
}

// RemoveParts removes parts, their temporary files and the lock. Other files and then
// the folder stay.
func TestRemoveParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x.h5.parts")
	make := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := Write(filepath.Join(dir, name), func(io.Writer) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	make("a.part", ".b.part.host.aside", ".lock", "notes.txt", "folder.part/inside")
	if err := RemoveParts(dir, ".part"); err != nil {
		t.Fatal(err)
	}
	var left []string
	there, _ := os.ReadDir(dir)
	for _, e := range there {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != "folder.part notes.txt" {
		t.Errorf("left: %s", got)
	}
	os.RemoveAll(dir)
	make("a.part")
	// The second time the folder is missing, which is not an error.
	for range 2 {
		if err := RemoveParts(dir, ".part"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}

// Nothing is written through a symbolic link or into a pipe at a path that the
// program writes.
func TestOpenOurs(t *testing.T) {
	dir := t.TempDir()
	path, precious := filepath.Join(dir, "out.json"), filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, Aside(path)); err != nil {
		t.Fatal(err)
	}
	err := Write(path, func(w io.Writer) error { _, err := w.Write([]byte("{}")); return err })
	if err == nil || !strings.Contains(err.Error(), "it is a link, and nothing is written through links (hint: ") {
		t.Errorf("writing where a link is: %v", err)
	}
	if b, _ := os.ReadFile(precious); string(b) != "mine" {
		t.Errorf("the file behind the link holds %q", b)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOurs(pipe, os.O_CREATE); !errors.Is(err, ErrUnfit) {
		t.Errorf("opening a pipe: %v", err)
	}
}
