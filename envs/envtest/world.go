package envtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"scalewm/envs"
	"scalewm/envs/vector"
)

// finite checks that all reported values are finite, except those of Into columns without a
// step, and that float32 columns contain float32 numbers.
func (s suite) finite(t *testing.T) {
	e := s.started(t, 4)
	for i, a := range s.actions(5, steps) {
		row, err := s.row(e)
		must(t, err)
		for _, c := range s.s.Columns {
			for _, v := range row[c.Name] {
				// Into columns may be NaN in the row of the reset.
				if (math.IsNaN(v) || math.IsInf(v, 0)) && !(c.Into && i == 0) {
					t.Errorf("step %d: column %s holds %g", i, c.Name, v)
				}
				// A file would round the value, and a restart from it would then differ.
				if c.DType == "float32" && v == v && v != float64(float32(v)) {
					t.Errorf("step %d: column %s holds %v, which is no float32", i, c.Name, v)
				}
			}
		}
		if _, err := e.Step(a); err != nil {
			t.Fatal(err)
		}
	}
}

// sameStream checks that a world is a function of its stream and actions, even if it was used
// before, and that another stream gives another start.
func (s suite) sameStream(t *testing.T) {
	acts := s.actions(6, steps)
	// A world that has been used must behave like a new one.
	used := s.started(t, 7)
	s.mustTrace(t, used, acts)
	must(t, used.Reset(stream(8)))
	a := s.mustTrace(t, used, acts)
	same(t, "a used and a new world", a, s.mustTrace(t, s.started(t, 8), acts))
	// Without this check, an implementation that ignores the stream would pass.
	if a[0] == s.mustTrace(t, s.started(t, 9), nil)[0] {
		t.Error("two streams give the same start")
	}
}

// snapshot checks that Restore continues exactly, any number of times, in any world of the
// task.
func (s suite) snapshot(t *testing.T) {
	before, after := s.actions(10, steps), s.actions(11, steps)
	e := s.started(t, 12)
	s.mustTrace(t, e, before)
	// The world steps on after the snapshot, which must not change it.
	snap := e.Snapshot()
	want := s.mustTrace(t, e, after)
	// Twice in the same world, since Restore must not consume the snapshot, and once in a world
	// with another history.
	for i, w := range []envs.Env{e, e, s.started(t, 13)} {
		must(t, w.Restore(snap))
		same(t, []string{"restored", "restored again", "restored elsewhere"}[i], want, s.mustTrace(t, w, after))
	}
	if err := e.Restore("no snapshot"); err == nil {
		t.Error("a foreign snapshot is accepted")
	}
}

// setState checks that a new world can be set, without a reset, from a row of another. If it
// has no hidden state (no Restarter), it must report that state and continue exactly. A
// Restarter must continue exactly or return ErrNotExact.
func (s suite) setState(t *testing.T) {
	e := s.started(t, 14)
	s.mustTrace(t, e, s.actions(15, steps))
	row, err := s.row(e)
	must(t, err)
	w := s.open(t)
	must(t, w.SetState(row))
	// Read before a Restart, which would replace what SetState has set.
	shown, err := s.row(w)
	must(t, err)
	r, hidden := w.(envs.Restarter)
	if hidden {
		if err := r.Restart(row, false); errors.Is(err, envs.ErrNotExact) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	} else if name := s.s.StateColumns[0]; !slices.Equal(shown[name], row[name]) {
		t.Errorf("set to %s %v, shows %v", name, row[name], shown[name])
	}
	// From here on both worlds must be indistinguishable.
	after := s.actions(16, steps)
	want, got := s.mustStates(t, e, after), s.mustStates(t, w, after)
	for i := range want {
		if !slices.Equal(want[i], got[i]) {
			t.Fatalf("%d steps after the restart: %v, the first world %v", i, got[i], want[i])
		}
	}
}

// mustStates steps a world and returns the values of its first state column.
func (s suite) mustStates(t *testing.T, e envs.Env, actions [][]float64) [][]float64 {
	t.Helper()
	var out [][]float64
	for _, a := range actions {
		if _, err := e.Step(a); err != nil {
			t.Fatal(err)
		}
		row, err := s.row(e)
		must(t, err)
		out = append(out, row[s.s.StateColumns[0]])
	}
	return out
}

// goal checks, for every goal column, that a world solves a goal equal to its state.
func (s suite) goal(t *testing.T) {
	e := s.started(t, 17)
	s.mustTrace(t, e, s.actions(18, steps))
	row, err := s.row(e)
	must(t, err)
	for _, name := range s.s.GoalColumns {
		w := s.started(t, 19)
		// Restore copies the exact state, so that the goal is met exactly.
		must(t, w.Restore(e.Snapshot()))
		must(t, w.SetGoal(envs.Row{name: row[name]}))
		if !w.Solved() {
			t.Errorf("the goal %s equals the state, but the world is not solved", name)
		}
	}
}

// terminated checks that the flag of a step equals that of its column.
func (s suite) terminated(t *testing.T) {
	e := s.started(t, 20)
	if _, ok := s.s.Column("terminated"); !ok {
		t.Fatal("no column terminated")
	}
	flag := make([]float64, 1)
	check := func(want bool) {
		t.Helper()
		must(t, e.Observe("terminated", flag))
		if (flag[0] != 0) != want {
			t.Errorf("terminated is %g, the step says %v", flag[0], want)
		}
	}
	// After a reset there was no step, so the flag must be false.
	check(false)
	for _, a := range s.actions(21, steps) {
		st, err := e.Step(a)
		must(t, err)
		check(st.Terminated)
	}
}

// concurrent checks that worlds that run in parallel compute the same as alone.
func (s suite) concurrent(t *testing.T) {
	const n = 4
	acts := s.actions(22, steps)
	var want, got [n][]string
	var made []envs.Env
	for i := range n {
		want[i] = s.mustTrace(t, s.started(t, uint64(30+i)), acts)
		made = append(made, s.started(t, uint64(30+i)))
	}
	// Worlds of a task may share caches, which this runs concurrently; see also -race.
	must(t, vector.New(made, n).Each("tracing", 0, n, func(i int) (err error) {
		got[i], err = s.trace(made[i], acts)
		return err
	}))
	for i := range n {
		same(t, "alone and side by side", want[i], got[i])
	}
}
