package replay

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
)

// fakeRecording moves the fake task by hand: place += 10 action + momentum, with the
// momentum 1, 2, 3.
func fakeRecording() *memory {
	nan := math.NaN()
	return &memory{
		attrs:    map[string]string{"env": "fake", "unknown": "ignored"},
		episodes: []dataset.Episode{{Offset: 0, Len: 4}},
		columns: []envs.Column{{Name: "action", DType: "float32", Width: 1}, {Name: "pose", DType: "float64", Width: 2},
			{Name: "sim_ctrl", DType: "float64", Width: 1}, {Name: "restart_momentum", DType: "float64", Width: 1},
			{Name: "substeps", DType: "int32", Width: 1}, {Name: "goal_pose", DType: "float64", Width: 2},
			{Name: "terminated", DType: "uint8", Width: 1}},
		data: map[string][]float64{
			"action":           {1, 2, 3, nan},
			"pose":             {0, math.Pi, 11, -math.Pi, 33, 3 * math.Pi, 66, math.Pi},
			"sim_ctrl":         {nan, 10, 20, 30},
			"restart_momentum": {0, 1, 2, 3},
			"substeps":         {7, 2, 2, 2},
			"goal_pose":        {33, 0, 33, 0, 33, 0, 33, 0},
			"terminated":       {1, 0, 1, 0},
		},
	}
}

func without(m *memory, name string) *memory {
	m.columns = slices.DeleteFunc(m.columns, func(c envs.Column) bool { return c.Name == name })
	return m
}

// tiny is more than the rounding error of an angle that goes around the circle.
const tiny = 1e-15

func TestHiddenState(t *testing.T) {
	for name, opt := range map[string]Options{"whole": {}, "one step": {OneStep: true},
		"controls": {FromControl: true}, "controls, one step": {FromControl: true, OneStep: true}} {
		r := replay(t, fakeRecording(), opt)
		c := r.Columns["pose"]
		if r.Rows != 4 || c.Rows != 4 || c.MaxAbs > tiny || r.Terminated != (FlagDiff{3, 0}) {
			t.Errorf("%s: %+v", name, r)
		}
		if s := r.Columns["substeps"]; s.Rows != 3 || s.MaxAbs != 0 {
			t.Errorf("%s: substeps %+v; row 0 has none", name, s)
		}
	}
	// Without the hidden state, an episode still starts at row 0, but no row inside
	// it can be restarted.
	r := replay(t, without(fakeRecording(), "restart_momentum"), Options{})
	if c := r.Columns["pose"]; c.Rows != 4 || c.MaxAbs > tiny {
		t.Errorf("whole, no hidden state: %+v", c)
	}
	r = replay(t, without(fakeRecording(), "restart_momentum"), Options{OneStep: true})
	if r.Rows != 2 || *r.LeftOut != 2 || r.Columns["pose"].Rows != 2 || r.Columns["pose"].MaxAbs > tiny {
		t.Errorf("one step, no hidden state: %+v, left out %d", r, *r.LeftOut)
	}
	bad := fakeRecording()
	bad.data["restart_momentum"][0] = -1
	if _, err := Run(context.Background(), bad, Options{}); err == nil {
		t.Error("the task's own error is lost")
	}
}

// A success whose goal the file does not say ended the reference simulator's step
// early (docs/sources.md#replay-alignment): that row is not compared.
func TestStoppedEarly(t *testing.T) {
	m := without(fakeRecording(), "goal_pose")
	m.data["terminated"] = []float64{1, 0, 0, 1}
	m.data["pose"][6], m.data["substeps"][3] = 55, 1
	r := replay(t, m, Options{})
	if c := r.Columns["pose"]; r.Rows != 4 || c.Rows != 3 || c.MaxAbs > tiny || r.Columns["substeps"].Rows != 2 {
		t.Errorf("%+v", r)
	}
	m.data["terminated"][3] = 0
	if c := replay(t, m, Options{}).Columns["pose"]; c.Rows != 4 || c.MaxAbs != 11 {
		t.Errorf("no success: %+v", c)
	}
}

func TestNotANumber(t *testing.T) {
	m := fakeRecording()
	m.columns = append(m.columns, envs.Column{Name: "broken", DType: "float64", Width: 1})
	m.data["broken"] = []float64{math.NaN(), 1, math.NaN(), 3}
	if c := replay(t, m, Options{}).Columns["broken"]; !reflect.DeepEqual(c, ColumnDiff{notANumber, 0, 2, Place{0, 1}, &Place{0, 1}}) {
		t.Errorf("%+v", c)
	}
}

// If rows differ more and more, the first difference is not the largest.
func TestFirst(t *testing.T) {
	var c ColumnDiff
	for i, d := range []float64{0, 0.5, 0, 2, 1} {
		c.add(d, Place{0, i})
	}
	if want := (ColumnDiff{2, 2, 5, Place{0, 3}, &Place{0, 1}}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, first %v", c, c.First)
	}
}

func TestDifference(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		ours, theirs float64
		circle       bool
		want         float64
	}{
		{1, 1, false, 0}, {1, 3, false, 2}, {3, 1, false, 2}, {0, math.Copysign(0, -1), false, 0},
		{nan, 1, false, 1e300}, {inf, 1, false, 1e300}, {1, -inf, false, 1e300}, {inf, inf, false, 0}, {-1.7e308, 1.7e308, false, 1e300},
		{0.25, 2*math.Pi - 0.25, true, 0.5}, {2*math.Pi - 0.25, 0.25, true, 0.5}, {math.Pi, -math.Pi, true, 0}, {0, 3, true, 3}, {nan, 0, true, 1e300},
	} {
		if d := difference(c.ours, c.theirs, c.circle); math.Abs(d-c.want) > 1e-14 {
			t.Errorf("%v: %g", c, d)
		}
	}
}

// Three frames of four bytes: byte 0 never moves, and byte 3 moves and is always
// right.
func TestFrameDiffs(t *testing.T) {
	var f frameDiffs
	f.compare([]byte{10, 20, 30, 1}, []byte{10, 20, 30, 1})
	f.compare([]byte{12, 20, 39, 2}, []byte{10, 20, 30, 2})
	f.compare([]byte{10, 25, 30, 3}, []byte{10, 28, 31, 3})
	// The differences are 2+9 in frame 1 and 3+1 in frame 2; the moving bytes are 1,
	// 2 and 3: 9+3+1
	want := FrameDiff{Count: 3, Mean: 15.0 / 12, Max: 9, WorstBytes: 2, Moving: 13.0 / 9}
	if d := f.diff(); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

// tape is a Recorder in memory.
type tape struct {
	columns []envs.Column
	attrs   map[string]string
	rows    []map[string][]float64
	frames  [][][]byte
	fail    error
}

func (r *tape) Start(c []envs.Column, _ bool, attrs map[string]string) error {
	r.columns, r.attrs = c, attrs
	return nil
}

func (r *tape) Episode(c map[string][]float64, frames [][]byte) error {
	r.rows, r.frames = append(r.rows, c), append(r.frames, frames)
	return r.fail
}

func TestOut(t *testing.T) {
	m := record(t, 2, 5, true)
	// Row 3 of episode 0; the simulated value must be recorded.
	m.data["state"][2*3] += 7
	out := &tape{}
	replay(t, m, Options{Out: out, Pixels: true})
	again := &memory{episodes: m.episodes, columns: out.columns, attrs: out.attrs, data: map[string][]float64{}}
	for i, ep := range out.rows {
		for name, v := range ep {
			again.data[name] = append(again.data[name], v...)
		}
		again.frames = append(again.frames, out.frames[i]...)
	}
	r := replay(t, again, Options{Pixels: true})
	if r.Rows != 10 || r.Columns["state"].RowsEqual != 10 || r.Frames.Max != 0 || r.Frames.Count != 10 || r.Terminated.Wrong != 0 {
		t.Errorf("what we wrote does not replay: %+v", r)
	}
	if again.attrs["env"] != "tworoom" {
		t.Errorf("attributes %v", again.attrs)
	}
	out.fail = errors.New("disk full")
	if _, err := Run(context.Background(), m, Options{Out: out}); !errors.Is(err, out.fail) {
		t.Errorf("writing failed, replay says %v", err)
	}
}

func TestOutLeavesRowsOut(t *testing.T) {
	out := &tape{}
	replay(t, without(fakeRecording(), "restart_momentum"), Options{Out: out, OneStep: true, Pixels: true})
	ep := out.rows[0]
	if pose := ep["pose"]; pose[2] != 11 || !math.IsNaN(pose[4]) || !math.IsNaN(pose[7]) || len(pose) != 8 {
		t.Errorf("pose %v", pose)
	}
	if s := ep["substeps"]; !slices.Equal(s, []float64{2, 2, 0, 0}) {
		t.Errorf("substeps %v", s)
	}
	if !slices.Equal(ep["sim_ctrl"][1:], []float64{10, 20, 30}) || len(out.frames[0]) != 4 {
		t.Errorf("inputs %v, %d frames", ep["sim_ctrl"], len(out.frames[0]))
	}
}
