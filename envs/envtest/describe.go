package envtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"scalewm/envs"
)

// dtypes are the types that a task's columns may have.
var dtypes = []string{"float32", "float64", "int32", "int64", "uint8"}

// spec checks the task's description.
func (s suite) spec(t *testing.T) {
	// Register has filled in the defaults, so none of these may be empty.
	for what, v := range map[string]string{"Name": s.s.Name, "ID": s.s.ID, "Title": s.s.Title,
		"Success": s.s.Success, "Source": s.s.Source, "ActionDType": s.s.ActionDType} {
		if v == "" {
			t.Errorf("%s is empty", what)
		}
	}
	if n := s.s.ActionDim; n < 1 || len(s.s.ActionLow) != n || len(s.s.ActionHigh) != n {
		t.Fatalf("%d actions with %d lower and %d upper bounds", n, len(s.s.ActionLow), len(s.s.ActionHigh))
	}
	for i := range s.s.ActionLow {
		if !(s.s.ActionLow[i] < s.s.ActionHigh[i]) {
			t.Errorf("action %d has bounds %g, %g", i, s.s.ActionLow[i], s.s.ActionHigh[i])
		}
	}
	if s.s.MaxSteps < 1 {
		t.Errorf("MaxSteps is %d", s.s.MaxSteps)
	}
	s.columns(t)
	s.qs(t)
}

// columns checks the columns: names, types, widths.
func (s suite) columns(t *testing.T) {
	// The columns that a data set adds itself.
	seen := map[string]bool{"action": true, "pixels": true, "step_idx": true}
	for _, c := range s.s.Columns {
		if seen[c.Name] || c.Name == "" {
			t.Errorf("column %q is a duplicate, empty, or reserved for files", c.Name)
		}
		seen[c.Name] = true
		if c.Width < 1 || !slices.Contains(dtypes, c.DType) || c.Doc == "" {
			t.Errorf("column %+v: width, dtype or doc", c)
		}
		for _, a := range c.Angle {
			if a < 0 || a >= c.Width {
				t.Errorf("column %s has no entry %d", c.Name, a)
			}
		}
	}
	if len(s.s.StateColumns) == 0 || len(s.s.GoalColumns) == 0 {
		t.Error("StateColumns or GoalColumns is empty")
	}
	// State and goal are set from recorded rows, so they must be recorded.
	for _, n := range slices.Concat(s.s.StateColumns, s.s.GoalColumns) {
		if _, ok := s.s.Column(n); !ok {
			t.Errorf("state or goal column %s is not a column", n)
		}
	}
	for n, at := range s.s.Velocities {
		if c, _ := s.s.Column(n); !slices.Contains(s.s.StateColumns, n) || at[0] < 0 || at[0] >= at[1] || at[1] > c.Width {
			t.Errorf("velocities at %v of %s", at, n)
		}
	}
}

// qs checks that every task state can be computed from the task's own columns.
func (s suite) qs(t *testing.T) {
	if len(s.s.Qs) == 0 {
		t.Fatal("no q")
	}
	row, err := s.row(s.started(t, 1))
	must(t, err)
	for _, q := range s.s.Qs {
		only := envs.Row{}
		for _, c := range q.Columns {
			if _, ok := row[c]; !ok {
				t.Fatalf("q %s reads %s, which is not a column", q.Name, c)
			}
			// Only the declared columns are passed, so that reading another one fails.
			only[c] = row[c]
		}
		dst := make([]float64, len(q.Parts))
		for i := range dst {
			dst[i] = math.NaN()
		}
		// dst was filled with NaN, so an entry that is not written is detected.
		q.Of(only, dst)
		for i, v := range dst {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("q %s: %s is %g", q.Name, q.Parts[i], v)
			}
		}
	}
}

// options checks that worlds can be created with every value of every switch, and not with
// unknown values.
func (s suite) options(t *testing.T) {
	for _, sw := range s.s.Switches {
		if len(sw.Values) < 2 || sw.Doc == "" {
			t.Errorf("switch %+v: values or doc", sw)
		}
		for _, v := range sw.Values {
			e, err := s.New(envs.Options{sw.Name: v})
			if err != nil {
				t.Fatalf("%s=%s: %v", sw.Name, v, err)
			}
			if err := e.Reset(stream(1)); err != nil {
				t.Errorf("%s=%s: %v", sw.Name, v, err)
			}
			if err := e.Close(); err != nil {
				t.Errorf("%s=%s: %v", sw.Name, v, err)
			}
		}
		// A misspelt value must not silently select the default.
		if _, err := s.New(envs.Options{sw.Name: "no such value"}); err == nil {
			t.Errorf("switch %s accepts any value", sw.Name)
		}
	}
	for _, f := range s.s.Factors {
		s.factor(t, f)
	}
	if _, err := s.New(envs.Options{"no such switch": "1"}); err == nil {
		t.Error("an unknown switch is accepted")
	}
}

// factor checks that a factor starts at its initial value and that resets draw it.
func (s suite) factor(t *testing.T, f envs.Factor) {
	e, err := s.New(envs.Options{f.Name: envs.Sample})
	if err != nil {
		t.Fatalf("%s=%s: %v", f.Name, envs.Sample, err)
	}
	defer e.Close()
	// Before the first reset, a factor has its initial value even if resets draw it.
	first, drawn := make([]float64, len(f.Init)), make([]float64, len(f.Init))
	if err := e.Observe(f.Column().Name, first); err != nil || !slices.Equal(first, f.Init) {
		t.Errorf("factor %s starts at %v, not %v (%v)", f.Name, first, f.Init, err)
	}
	moved := f.Sampled // then other columns report it
	// A small integer factor may draw its initial value by chance, hence up to ten resets.
	for i := uint64(0); i == 0 || i < 10 && !moved; i++ {
		if err := errors.Join(e.Reset(stream(i)), e.Observe(f.Column().Name, drawn)); err != nil {
			t.Fatalf("factor %s: %v", f.Name, err)
		}
		moved = moved || !slices.Equal(first, drawn)
	}
	if !moved {
		t.Errorf("factor %s is never drawn", f.Name)
	}
	// Low and High must cover the ranges of all numbers, of which there is one range each.
	for _, ends := range f.Ranges {
		if ends[0] < f.Low || ends[1] > f.High || len(f.Ranges) != len(f.Init) {
			t.Errorf("factor %s is from %g to %g, of its numbers from %v", f.Name, f.Low, f.High, f.Ranges)
		}
	}
	if _, err := s.New(envs.Options{f.Name: "no such value"}); err == nil || f.Doc == "" {
		t.Errorf("factor %s accepts any value, or has no doc", f.Name)
	}
}

// policies checks that the actions of every policy are in bounds, and the same for the same
// stream.
func (s suite) policies(t *testing.T) {
	if _, err := s.Policy("no such policy"); err == nil {
		t.Error("an unknown policy is found")
	}
	if len(s.s.Policies) == 0 {
		t.Error("no policy")
	}
	for _, name := range s.s.Policies {
		// Two runs with equal streams, each in a new world.
		a, b := s.acts(t, name), s.acts(t, name)
		if !slices.EqualFunc(a, b, slices.Equal) {
			t.Errorf("policy %s acts differently from the same stream", name)
		}
		for i, act := range a {
			for j, v := range act {
				// The negation also catches NaN.
				if !(v >= s.s.ActionLow[j] && v <= s.s.ActionHigh[j]) {
					t.Errorf("policy %s, step %d: action %d is %g", name, i, j, v)
				}
			}
		}
	}
}

// acts returns the actions of a policy over some steps.
func (s suite) acts(t *testing.T, name string) [][]float64 {
	t.Helper()
	p, err := s.Policy(name)
	must(t, err)
	e := s.started(t, 2)
	must(t, p.Reset(e, stream(3)))
	var out [][]float64
	for range steps {
		a := make([]float64, s.s.ActionDim)
		for i := range a {
			a[i] = math.NaN()
		}
		// a was filled with NaN, so an entry that is not written is detected.
		must(t, p.Act(e, a))
		if _, err := e.Step(a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}
