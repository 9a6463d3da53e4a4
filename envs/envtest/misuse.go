package envtest

import (
	"bytes"
	"math"
	"testing"

	"scalewm/envs"
)

// badInput checks that wrong names, sizes and values are errors and change nothing.
func (s suite) badInput(t *testing.T) {
	e := s.started(t, 40)
	c := s.s.Columns[0]
	bad := envs.Row{}
	short := envs.Row{}
	for _, name := range append(append([]string{}, s.s.StateColumns...), s.s.GoalColumns...) {
		col, _ := s.s.Column(name)
		bad[name], short[name] = make([]float64, col.Width), make([]float64, col.Width+1)
		for i := range bad[name] {
			bad[name][i] = math.NaN()
		}
	}
	// A trace without actions is the current state.
	before := s.mustTrace(t, e, nil)
	// All calls happen while the map is built; their order does not matter, since each must fail.
	for what, err := range map[string]error{
		"observing an unknown column":             e.Observe("no such column", make([]float64, 1)),
		"observing into a wrong length":           e.Observe(c.Name, make([]float64, c.Width+1)),
		"drawing into a buffer that is too small": e.Frame(make([]byte, envs.FrameBytes-1)),
		"drawing into a buffer that is too large": e.Frame(make([]byte, envs.FrameBytes+1)),
		"a state from an empty row":               e.SetState(envs.Row{}),
		"a goal from an empty row":                e.SetGoal(envs.Row{}),
		"a state of a wrong length":               e.SetState(short),
		"a goal of a wrong length":                e.SetGoal(short),
		"a state of NaN":                          e.SetState(bad),
		"a goal of NaN":                           e.SetGoal(bad),
	} {
		if err == nil {
			t.Errorf("%s is no error", what)
		}
	}
	same(t, "before and after rejected input", before, s.mustTrace(t, e, nil))
}

// badAction checks that a rejected action leaves the world unchanged.
func (s suite) badAction(t *testing.T) {
	// Two equal worlds, of which only one receives invalid actions.
	e, untouched := s.started(t, 42), s.started(t, 42)
	for _, a := range s.actions(41, steps/2) {
		for _, wrong := range s.wrongActions() {
			if _, err := e.Step(wrong); err == nil {
				t.Errorf("action %v is accepted", wrong)
			}
		}
		// Rejected actions must not change hidden state either, so both worlds step on.
		one := [][]float64{a}
		same(t, "with and without rejected actions", s.mustTrace(t, untouched, one), s.mustTrace(t, e, one))
	}
}

// wrongActions returns actions of wrong lengths, and with NaN or infinite entries.
func (s suite) wrongActions() [][]float64 {
	n := s.s.ActionDim
	// Wrong lengths, then one non-finite entry at each position.
	wrong := [][]float64{nil, make([]float64, n-1), make([]float64, n+1)}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for i := range n {
			a := make([]float64, n)
			a[i] = v
			wrong = append(wrong, a)
		}
	}
	return wrong
}

// frameWhole checks that a frame overwrites every byte of its buffer.
func (s suite) frameWhole(t *testing.T) {
	e := s.started(t, 43)
	// Two buffers with different contents before the frame.
	a, b := make([]byte, envs.FrameBytes), bytes.Repeat([]byte{0x5a}, envs.FrameBytes)
	for _, f := range [][]byte{a, b} {
		must(t, e.Frame(f))
	}
	if !bytes.Equal(a, b) {
		t.Error("a frame depends on the previous contents of the buffer, or drawing changes the world")
	}
	// A frame of one byte value would pass the comparison above.
	if bytes.Count(a, a[:1]) == len(a) {
		t.Error("the frame is empty")
	}
}

// allocations checks that stepping, observing and drawing do not allocate.
func (s suite) allocations(t *testing.T) {
	e := s.started(t, 44)
	acts := s.actions(45, steps)
	frame := make([]byte, envs.FrameBytes)
	cols := make([][]float64, len(s.s.Columns))
	for i, c := range s.s.Columns {
		cols[i] = make([]float64, c.Width)
	}
	i := 0
	var err error
	// The closures must not allocate themselves, so errors are stored and checked at the end.
	keep := func(e error) {
		if e != nil {
			err = e
		}
	}
	for what, f := range map[string]func(){
		"Step": func() {
			_, e := e.Step(acts[i%steps])
			keep(e)
			i++
		},
		"Frame": func() { keep(e.Frame(frame)) },
		"Observe": func() {
			for j, c := range s.s.Columns {
				keep(e.Observe(c.Name, cols[j]))
			}
		},
	} {
		// AllocsPerRun does a warm-up run first, which may fill caches.
		if n := testing.AllocsPerRun(steps, f); n != 0 {
			t.Errorf("%s allocates %g times", what, n)
		}
	}
	must(t, err)
}
