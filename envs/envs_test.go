package envs

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

var testSpec = &Spec{Name: "zz-test", ActionDim: 2, Columns: []Column{{Name: "state", Width: 2}},
	Switches: []Switch{{Name: "mode", Values: []string{"plain", "fancy"}}}}

func TestRegistry(t *testing.T) {
	Register(Task{Spec: testSpec})
	Register(Task{Spec: &Spec{Name: "aa-test"}})
	if names := Names(); !slices.IsSorted(names) || !slices.Contains(names, "zz-test") {
		t.Errorf("names %v", names)
	}
	if task, err := Lookup("zz-test"); err != nil || task.Spec != testSpec {
		t.Errorf("%v, %v", task, err)
	}
	if _, err := Lookup("pong"); err == nil || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("an unknown task: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("registering a name twice does not panic")
		}
	}()
	Register(Task{Spec: testSpec})
}

// Omitted fields of a Spec have the documented defaults.
func TestSpecIsFilledIn(t *testing.T) {
	s := &Spec{Name: "ff-test", ActionDim: 2, Title: "Own"}
	Register(Task{Spec: s})
	if s.ID != "ff-test" || s.Title != "Own" || s.ActionDType != "float32" || s.MaxSteps != 200 ||
		!slices.Equal(s.ActionLow, []float64{-1, -1}) || !slices.Equal(s.ActionHigh, []float64{1, 1}) {
		t.Errorf("%+v", s)
	}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		in   Options
		want string // value of mode, "" for an error
	}{{nil, "plain"}, {Options{"mode": "fancy"}, "fancy"}, {Options{"mode": "odd"}, ""}, {Options{"model": "plain"}, ""}} {
		got, err := testSpec.Resolve(c.in)
		if (err != nil) != (c.want == "") || got["mode"] != c.want {
			t.Errorf("%v: %v, %v", c.in, got, err)
		}
	}
}

// The default of an implied switch is left out, whether it was given or not.
func TestResolveImplied(t *testing.T) {
	s := &Spec{Name: "implied", Switches: []Switch{{Name: "old", Values: []string{"a", "b"}}, {Name: "new", Values: []string{"c", "d"}, Implied: true}}}
	for _, c := range []struct{ in, want Options }{
		{nil, Options{"old": "a"}}, {Options{"new": "c"}, Options{"old": "a"}}, {Options{"new": "d", "old": "b"}, Options{"new": "d", "old": "b"}},
	} {
		if got, err := s.Resolve(c.in); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func TestColumn(t *testing.T) {
	if c, ok := testSpec.Column("state"); !ok || c.Width != 2 {
		t.Errorf("%v, %v", c, ok)
	}
	if _, ok := testSpec.Column("colour"); ok {
		t.Error("found a column that is not there")
	}
}

func TestCheckAction(t *testing.T) {
	for _, c := range []struct {
		action []float64
		says   string
	}{
		{[]float64{0, 1e9}, ""}, {[]float64{0}, "2 numbers, not 1"}, {nil, "2 numbers, not 0"},
		{[]float64{0, math.NaN()}, "action[1] is NaN"}, {[]float64{math.Inf(-1), 0}, "action[0] is -Inf"},
	} {
		err := CheckAction(testSpec, c.action)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.action, err, c.says)
		}
	}
}

func TestRowFirst(t *testing.T) {
	row := Row{"b": {1, 2}, "c": {3, 4}, "d": {5}}
	for _, c := range []struct {
		columns []string
		name    string // "" for an error
	}{{[]string{"a", "b", "c"}, "b"}, {[]string{"c", "b"}, "c"}, {[]string{"a"}, ""}, {[]string{"d", "b"}, ""}, {nil, ""}} {
		v, name, err := row.First(c.columns, 2)
		if c.name == "" {
			if err == nil {
				t.Errorf("%v: found %s", c.columns, name)
			}
			continue
		}
		if err != nil || name != c.name || !slices.Equal(v, row[c.name]) {
			t.Errorf("%v: %s %v, %v", c.columns, name, v, err)
		}
	}
}
