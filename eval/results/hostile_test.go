package results

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/dataset/safefile/fuzztest"
)

// A cell with invalid names, which could do harm in a path, table or page, is listed as
// a problem of the folder.
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
		if !strings.Contains(p, "is not a valid name (hint: ") {
			t.Errorf("problem %q", p)
		}
	}
}

// Files and folders without permission are reported, and the others are read.
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

// A cell whose rows cannot result from its spec is rejected by every reader, and its
// file is named.
func TestReadRefusesRows(t *testing.T) {
	spec := Spec{Schema: Schema, Task: "tworoom", Method: "lewm", Set: "s101", Episodes: 2, Candidates: 10, Iterations: 3, Rules: Rules{Budget: 50}}
	good := []Row{{Episode: 0, Steps: 50, Replans: 2, NaNCosts: 60}, {Episode: 1, Steps: 7, Replans: 1, Success: true}}
	for _, c := range []struct {
		name, want string
		spec       func(s *Spec)
		rows       func(r []Row) []Row
	}{
		{name: "as it should be"},
		{name: "diverged", rows: func(r []Row) []Row { r[0].Diverged = "NaN in qpos"; return r }},
		{name: "without a budget", spec: func(s *Spec) { s.Budget = 0 }, rows: func(r []Row) []Row { r[0].Steps = 0; return r }},
		{name: "no rows", want: "rows of 0 episodes", rows: func([]Row) []Row { return nil }},
		{name: "no rows of no episodes", want: "rows of 0 episodes", spec: func(s *Spec) { s.Episodes = 0 }, rows: func([]Row) []Row { return nil }},
		{name: "too few", want: "rows of 1 episodes, and its set has 2", rows: func(r []Row) []Row { return r[:1] }},
		{name: "too many", want: "rows of 3 episodes, and its set has 2", rows: func(r []Row) []Row { return append(r, Row{Episode: 2, Steps: 50}) }},
		{name: "double", want: "episode 0 occurs twice", rows: func(r []Row) []Row { r[1].Episode = 0; return r }},
		{name: "outside the set", want: "episode 2 is not one of the set's 2", rows: func(r []Row) []Row { r[1].Episode = 2; return r }},
		{name: "beyond the budget", want: "episode 1 has 51 steps", rows: func(r []Row) []Row { r[1].Steps = 51; return r }},
		{name: "no step", want: "episode 1 has 0 steps", rows: func(r []Row) []Row { r[1].Steps = 0; return r }},
		{name: "unknown route", want: "has the unknown route \"shortcut\"", rows: func(r []Row) []Row { r[1].Route = "shortcut"; return r }},
		{name: "success that diverged", want: "succeeded and diverged", rows: func(r []Row) []Row { r[1].Diverged = "NaN"; return r }},
		{name: "negative steps", want: "a negative number", rows: func(r []Row) []Row { r[1].Steps = -1; return r }},
		{name: "negative episode", want: "a negative number", rows: func(r []Row) []Row { r[1].Episode = -1; return r }},
		{name: "negative start", want: "a negative number", rows: func(r []Row) []Row { r[1].Start = -1; return r }},
		{name: "negative trajectory", want: "a negative number", rows: func(r []Row) []Row { r[1].Trajectory = -1; return r }},
		{name: "negative plans", want: "a negative number", rows: func(r []Row) []Row { r[1].Replans = -1; return r }},
		{name: "negative calls", want: "a negative number", rows: func(r []Row) []Row { r[1].PredictorCalls = -1; return r }},
		{name: "negative costs", want: "a negative number", rows: func(r []Row) []Row { r[1].NaNCosts = -1; return r }},
		{name: "more bad costs than costs", want: "61 costs that are not finite, of 60", rows: func(r []Row) []Row { r[0].NaNCosts = 61; return r }},
		{name: "negative budget", want: "its spec has a negative number", spec: func(s *Spec) { s.Budget = -50 }},
		{name: "negative candidates", want: "its spec has a negative number", spec: func(s *Spec) { s.Candidates = -10 }},
	} {
		s, rows := spec, slices.Clone(good)
		if c.spec != nil {
			c.spec(&s)
		}
		if c.rows != nil {
			rows = c.rows(rows)
		}
		dir := t.TempDir()
		store := cell.Store{Dir: filepath.Join(dir, CellsDir)}
		id, err := cell.ID(Kind, s)
		if err == nil {
			err = store.Save(id, Kind, s, Result{Device: "test", Rows: rows})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Read(store, id)
		f, failed := Load(t.Context(), dir)
		if failed != nil {
			t.Fatal(failed)
		}
		if c.want == "" {
			if err != nil || len(f.Cells) != 1 {
				t.Errorf("%s: %v, %q", c.name, err, f.Torn)
			}
			continue
		}
		if err == nil || !errors.Is(err, cell.ErrTorn) || len(f.Cells) != 0 || len(f.Torn) != 1 || f.Torn[0] != err.Error() ||
			!strings.Contains(err.Error(), store.Path(id)) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, %d cells, %q; want %q", c.name, err, len(f.Cells), f.Torn, c.want)
		}
	}
}

// A cell that is accepted has rates and shares between 0 and 100 %, and as many rows as
// episodes.
func FuzzCell(f *testing.F) {
	f.Add([]byte(`{"schema":2,"episodes":1,"budget":50,"candidates":10,"iterations":3}`), []byte(`{"rows":[{"episode":0,"steps":50,"replans":2,"nan_costs":60}]}`))
	f.Add([]byte(`{"schema":2,"budget":50}`), []byte(`{"rows":[{"success":true,"steps":51}]}`))
	f.Add([]byte(`{"schema":2,"candidates":9223372036854775807,"iterations":2}`), []byte(`{"rows":[{"nan_costs":1}]}`))
	f.Add([]byte(`{"schema":2}`), []byte(`{"rows":[]}`))
	f.Fuzz(func(t *testing.T, spec, result []byte) {
		var c Cell
		fuzztest.Read(t, len(spec)+len(result), func() {
			if json.Unmarshal(spec, &c.Spec) != nil || json.Unmarshal(result, &c.Result) != nil || c.Check() != nil {
				return
			}
			if n := len(c.Result.Rows); n == 0 || c.Spec.Episodes != 0 && n != c.Spec.Episodes || !(c.Result.Rate() >= 0 && c.Result.Rate() <= 100) {
				t.Errorf("%s with %s is accepted", spec, result)
			}
			for _, r := range c.Result.Rows {
				if r.Steps < 0 || c.Spec.Budget > 0 && r.Steps > c.Spec.Budget || r.NaNCosts < 0 {
					t.Errorf("%s with %s is accepted", spec, result)
				}
			}
		})
	})
}

// A spec that is accepted has valid names only, however its JSON is written.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"schema":2,"task":"tworoom","method":"scale@w=0.3","set":"s101"}`))
	f.Add([]byte(`{"schema":2,"task":"\u002e\u002e/x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Spec
		if json.Unmarshal(b, &s) == nil && (safefile.CheckName(s.Task) != nil || safefile.CheckName(s.Method) != nil || safefile.CheckName(s.Set) != nil) {
			t.Errorf("%q has the names %q, %q, %q", b, s.Task, s.Method, s.Set)
		}
	})
}

// Loading stops when its context is cancelled.
func TestLoadStops(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, CellsDir), Spec{Task: "tworoom", Set: "s101"})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Load(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the interruption", err)
	}
}
