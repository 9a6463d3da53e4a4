package record

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"scalewm/dataset/cell"
)

// A cell whose names are none is a problem of the folder, whatever it would do to
// a path, a table or a page.
func TestLoadRefusesNames(t *testing.T) {
	dir := t.TempDir()
	cells := filepath.Join(dir, CellsDir)
	for _, s := range []Spec{{Method: "../../../../tmp/x"}, {Task: "=cmd|' /C calc'!A0"}, {Tier: "<script>"}, {Set: "s 1"}} {
		save(t, cells, s)
	}
	if err := os.Mkdir(filepath.Join(dir, GatesDir), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, GatesDir, "x.json"), `{"task":"<script>"}`)
	f, err := Load(t.Context(), dir)
	if err != nil || len(f.Cells) != 0 || len(f.Gates) != 0 || len(f.Torn) != 4 || len(f.Problems) != 1 {
		t.Errorf("%d cells, %d gates, problems %q, %q, %v; want four and one", len(f.Cells), len(f.Gates), f.Torn, f.Problems, err)
	}
	for _, p := range append(f.Torn, f.Problems...) {
		if !strings.Contains(p, "is no name (hint: ") {
			t.Errorf("problem %q", p)
		}
	}
}

// What may not be read is told of, and takes nothing else away.
func TestLoadWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	cells := filepath.Join(dir, CellsDir)
	save(t, cells, Spec{Task: "tworoom", Set: "s101"})
	closed := filepath.Join(cells, save(t, cells, Spec{Task: "tworoom", Set: "s102"})+".json")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	shut := []string{filepath.Join(dir, "lost+found"), filepath.Join(dir, "other", CellsDir)}
	for _, folder := range shut {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(folder, 0o777)
	}
	if os.Geteuid() == 0 { // may read everything, so that this thread becomes somebody else
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	}
	f, err := Load(t.Context(), dir)
	if err != nil || len(f.Cells) != 1 || len(f.Torn) != 1 || len(f.Problems) != 2 {
		t.Fatalf("%d cells, %q, %q, %v; want one cell, one torn and two folders", len(f.Cells), f.Torn, f.Problems, err)
	}
	if !strings.Contains(f.Torn[0], filepath.Base(closed)+": open: permission denied") || !strings.Contains(f.Problems[0], "lost+found may not be read") || !strings.Contains(f.Problems[1], "other/cells may not be read") {
		t.Errorf("%q, %q", f.Torn, f.Problems)
	}
}

// A spec that is read has names alone, however it is spelled in JSON.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"schema":1,"task":"tworoom","method":"scale@w=0.3","set":"s101"}`))
	f.Add([]byte(`{"task":"\u002e\u002e/x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Spec
		if json.Unmarshal(b, &s) == nil && (cell.CheckName(s.Task) != nil || cell.CheckName(s.Method) != nil || cell.CheckName(s.Set) != nil) {
			t.Errorf("%q has the names %q, %q, %q", b, s.Task, s.Method, s.Set)
		}
	})
}

// Whoever is told to stop while it reads cells stops.
func TestLoadStops(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, CellsDir), Spec{Task: "tworoom", Set: "s101"})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Load(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the interruption", err)
	}
}
