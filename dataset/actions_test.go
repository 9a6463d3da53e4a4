package dataset

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"scalewm/envs"
)

// typed is a recording whose actions have a type.
type typed struct {
	*recording
	dtype string
}

func (t typed) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: t.dtype, Width: len(t.action[0])}}
}

// actionsOf is a data set of one episode with the given actions.
func actionsOf(dtype string, n int, f func(i int) []float64) typed {
	r := &recording{episodes: []Episode{{0, n}}}
	for i := range n {
		r.action = append(r.action, f(i))
	}
	return typed{r, dtype}
}

func TestCheckActions(t *testing.T) {
	one, two := []float64{1}, []float64{1, 1}
	low := func(high []float64) (v []float64) {
		for _, x := range high {
			v = append(v, -x)
		}
		return v
	}
	for _, c := range []struct {
		name string
		src  typed
		high []float64 // of the task; nil if there is none
		want string    // "" if the actions are fine
	}{
		{"integers", actionsOf("int64", 90, func(i int) []float64 { return []float64{float64(i % 4)} }), nil, "np.eye(4, dtype=np.float32)[action.ravel().astype(int)]"},
		{"two choices", actionsOf("uint8", 90, func(i int) []float64 { return []float64{float64(i % 2)} }), one, "numbers of choices, 0 to 1"},
		{"several integers", actionsOf("int32", 90, func(i int) []float64 { return []float64{float64(i % 2), float64(i % 3)} }), nil, "numbers of choices, 0 to 2"},
		{"choices as floats, NaN last", actionsOf("float32", 90, func(i int) []float64 {
			if i == 89 {
				return []float64{math.NaN()}
			}
			return []float64{float64(i % 18)}
		}), nil, "numbers of choices, 0 to 17"},
		{"one-hot bytes", actionsOf("uint8", 90, func(i int) []float64 { return []float64{float64(i % 2), float64(1 - i%2)} }), nil, ""},
		{"a gripper", actionsOf("float32", 90, func(i int) []float64 { return []float64{float64(i % 2)} }), one, ""},
		{"three directions", actionsOf("float32", 90, func(i int) []float64 { return []float64{float64(i%3 - 1)} }), one, ""},
		{"integer quantities", actionsOf("int16", 90, func(i int) []float64 { return []float64{float64(i - 40)} }), nil, ""},
		{"many values", actionsOf("int16", 90, func(i int) []float64 { return []float64{float64(i)} }), nil, ""},
		{"whole pixels", actionsOf("float32", 90, func(i int) []float64 { return []float64{float64(i % 5), float64(i % 7)} }), nil, ""},
		// lerobot/pusht: targets of 0 to 512 pixels; DINO-WM: rel_actions before the division.
		{"absolute pixels", actionsOf("float32", 90, func(i int) []float64 { return []float64{float64(5*i) + .5, 300} }), two, "range from 0.5 to 445.5, and those of the task from -1 to 1 (hint: "},
		{"absolute pixels without a task", actionsOf("float32", 90, func(i int) []float64 { return []float64{float64(5*i) + .5, 300} }), nil, ""},
		{"relative pixels", actionsOf("float32", 90, func(i int) []float64 { return []float64{20 * math.Sin(float64(i)), 20 * math.Cos(float64(i))} }), two, "--task none"},
		// The published Push-T actions have a deviation of .2 (docs/sources.md) and few beyond 1.
		{"a little beyond", actionsOf("float32", 90, func(i int) []float64 { return []float64{1.4 * math.Sin(float64(i)), 2.9} }), two, ""},
		{"one outlier in 200", actionsOf("float32", 100, func(i int) []float64 { return []float64{.5, float64(i/99) * 40} }), two, ""},
		{"other bounds", actionsOf("float32", 90, func(i int) []float64 { return []float64{5.5 * math.Sin(float64(i))} }), []float64{2}, ""},
	} {
		err := CheckActions(c.src, low(c.high), c.high)
		if (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) && c.want != "" {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// data check has a note on discrete actions.
func TestCheckNotesChoices(t *testing.T) {
	src := actionsOf("int64", 90, func(i int) []float64 { return []float64{float64(i % 4)} })
	if r, err := Check(t.Context(), src, nil); err != nil || !strings.Contains(strings.Join(r.Notes, "\n"), "actions are numbers of choices, 0 to 3") {
		t.Errorf("%+v, %v", r, err)
	}
}
