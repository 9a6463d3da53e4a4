package replay

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	_ "scalewm/envs/tworoom"
)

// record makes a recording of Two-Room with our own simulator, which replays without
// a difference. Tests then change numbers in it.
func record(t *testing.T, episodes, rows int, frames bool) *memory {
	t.Helper()
	task, err := envs.Lookup("tworoom")
	if err != nil {
		t.Fatal(err)
	}
	e, err := task.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{data: map[string][]float64{}, attrs: map[string]string{"env": "tworoom"}}
	m.columns = append(m.columns, envs.Column{Name: "action", DType: "float32", Width: 2})
	for _, c := range task.Spec.Columns {
		m.columns = append(m.columns, envs.Column{Name: c.Name, DType: c.DType, Width: c.Width})
	}
	r := rand.New(rand.NewPCG(1, 1))
	for ep := range episodes {
		m.episodes = append(m.episodes, dataset.Episode{Offset: ep * rows, Len: rows})
		must(t, e.Reset(r))
		for i := range rows {
			for _, c := range task.Spec.Columns {
				v := make([]float64, c.Width)
				must(t, e.Observe(c.Name, v))
				m.data[c.Name] = append(m.data[c.Name], v...)
			}
			if frames {
				f := make([]byte, envs.FrameBytes)
				must(t, e.Frame(f))
				m.frames = append(m.frames, f)
			}
			a := []float64{r.Float64(), 2*r.Float64() - 1}
			if i == rows-1 {
				a = []float64{math.NaN(), math.NaN()}
			}
			m.data["action"] = append(m.data["action"], a...)
			if i < rows-1 {
				_, err := e.Step(a)
				must(t, err)
			}
		}
	}
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func replay(t *testing.T, m *memory, opt Options) *Report {
	t.Helper()
	opt.File = "F.h5"
	r, err := Run(context.Background(), m, opt)
	must(t, err)
	return r
}

func TestOwnRecordingIsEqual(t *testing.T) {
	m := record(t, 3, 7, true)
	for _, opt := range []Options{{}, {Pixels: true}, {OneStep: true}, {OneStep: true, Pixels: true}} {
		r := replay(t, m, opt)
		if r.Env != "tworoom" || r.File != "F.h5" || r.Episodes != 3 || r.Rows != 21 {
			t.Errorf("%+v: head %+v", opt, r)
		}
		for name, c := range r.Columns {
			want := 21
			// It belongs to the step into the row.
			if name == "reward" {
				want = 18
			}
			if c.MaxAbs != 0 || c.Rows != want || c.RowsEqual != want {
				t.Errorf("%+v: %s: %+v, want %d equal rows", opt, name, c, want)
			}
		}
		if len(r.Columns) != 8 {
			t.Errorf("%d columns compared", len(r.Columns))
		}
		if r.Terminated != (FlagDiff{18, 0}) {
			t.Errorf("flags %+v", r.Terminated)
		}
		frames := FrameDiff{}
		if opt.Pixels {
			frames.Count = 21
		}
		if r.Frames != frames {
			t.Errorf("frames %+v", r.Frames)
		}
		if (r.LeftOut != nil) != opt.OneStep || r.LeftOut != nil && *r.LeftOut != 0 {
			t.Errorf("left out %v", r.LeftOut)
		}
		if !slices.Equal(r.NotCompared, []string{"action"}) {
			t.Errorf("not compared %v", r.NotCompared)
		}
	}
}

func TestDifferencesAreFound(t *testing.T) {
	m := record(t, 3, 7, false)
	row := 1*7 + 4 // episode 1, row 4
	m.data["state"][2*row+1] += 0.25
	m.data["state"][2*(row+1)] = math.NaN() // not compared; the other entry still is
	for i := range m.data["proprio"] {
		m.data["proprio"][i] = math.NaN()
	}
	m.data["terminated"][row] = 1 - m.data["terminated"][row]
	m.data["terminated"][2*7] = 1 // row 0: not compared
	m.columns = append(m.columns, envs.Column{Name: "humidity", DType: "float32", Width: 1},
		envs.Column{Name: "picture", DType: "uint8", Width: 224 * 224 * 3})
	m.data["humidity"] = make([]float64, 21)

	r := replay(t, m, Options{PerEpisode: true})
	if want := (ColumnDiff{MaxAbs: 0.25, RowsEqual: 20, Rows: 21, Worst: Place{1, 4}, First: &Place{1, 4}}); !reflect.DeepEqual(r.Columns["state"], want) {
		t.Errorf("state %+v, want %+v", r.Columns["state"], want)
	}
	if r.Terminated != (FlagDiff{18, 1}) {
		t.Errorf("flags %+v", r.Terminated)
	}
	if want := []string{"action", "humidity", "picture", "proprio"}; !slices.Equal(r.NotCompared, want) {
		t.Errorf("not compared %v, want %v", r.NotCompared, want)
	}
	for i, e := range r.PerEpisode {
		want, flags := 0.0, FlagDiff{6, 0}
		if i == 1 {
			want, flags = 0.25, FlagDiff{6, 1}
		}
		if e.Index != i || e.Columns["state"].MaxAbs != want || e.Terminated != flags {
			t.Errorf("episode %d: %+v", i, e)
		}
	}
	if r := replay(t, m, Options{Episodes: 1}); r.Episodes != 1 || r.Rows != 7 || r.Columns["state"].MaxAbs != 0 {
		t.Errorf("first episode only: %+v", r)
	}
}

// A wrong row spoils the start of its episode when that is replayed in full. With
// OneStep it spoils only itself and the step out of it.
func TestOneStepDoesNotAddUp(t *testing.T) {
	m := record(t, 1, 8, false)
	// Shift row 3 in all columns that have the place.
	for i := range 8 {
		for _, n := range []string{"state", "proprio", "pos_agent", "observation"} {
			w := len(m.data[n]) / 8
			if i == 3 {
				m.data[n][i*w+1]++
			}
		}
	}
	whole, one := replay(t, m, Options{}), replay(t, m, Options{OneStep: true})
	if c := whole.Columns["state"]; c.RowsEqual != 7 || c.Worst.Row != 3 {
		t.Errorf("whole: %+v", c)
	}
	if c := one.Columns["state"]; c.RowsEqual != 6 {
		t.Errorf("one step: %+v", c)
	}
}

func TestGoal(t *testing.T) {
	m := record(t, 2, 5, false)
	drop := func(names ...string) {
		m.columns = slices.DeleteFunc(m.columns, func(c envs.Column) bool { return slices.Contains(names, c.Name) })
	}
	// The column pos_target has the goal too.
	drop("goal_state")
	if r := replay(t, m, Options{}); r.Terminated.Compared != 8 || r.Columns["distance_to_target"].RowsEqual != 10 {
		t.Errorf("goal from pos_target: %+v", r)
	}
	// Episode 0 does not have its goal.
	for i := range 2 {
		m.data["pos_target"][i] = math.NaN()
	}
	if r := replay(t, m, Options{}); r.Terminated.Compared != 4 || r.Columns["distance_to_target"].Rows != 5 {
		t.Errorf("goal of one episode: %+v", r)
	}
	drop("pos_target")
	r := replay(t, m, Options{})
	if r.Terminated.Compared != 0 || r.Columns["state"].RowsEqual != 10 {
		t.Errorf("no goal: %+v", r)
	}
	if want := []string{"action", "distance_to_target", "observation", "terminated"}; !slices.Equal(r.NotCompared, want) {
		t.Errorf("not compared %v, want %v", r.NotCompared, want)
	}
}

func TestFrames(t *testing.T) {
	m := record(t, 2, 3, true)
	same := replay(t, m, Options{Pixels: true})
	m.frames[4] = slices.Clone(m.frames[4])
	m.frames[4][0] -= 3 // a corner: white in all frames but this
	m.frames[4][1] -= 1
	r := replay(t, m, Options{Pixels: true, PerEpisode: true})
	if r.Frames.Count != 6 || r.Frames.Max != 3 || r.Frames.WorstBytes != 2 {
		t.Errorf("%+v", r.Frames)
	}
	if want := 4.0 / (6 * envs.FrameBytes); r.Frames.Mean != want || !(r.Frames.Moving > want) || same.Frames.Moving != 0 {
		t.Errorf("mean %g (want %g), moving %g", r.Frames.Mean, want, r.Frames.Moving)
	}
	if a, b := r.PerEpisode[0].Frames, r.PerEpisode[1].Frames; a.Max != 0 || a.Count != 3 || b.Max != 3 || b.Count != 3 {
		t.Errorf("by episode: %+v, %+v", a, b)
	}
	m.frames = nil
	if r := replay(t, m, Options{Pixels: true}); r.Frames.Count != 0 {
		t.Errorf("a file without frames: %+v", r.Frames)
	}
}

func TestJSON(t *testing.T) {
	m := record(t, 1, 2, false)
	m.columns = m.columns[:2] // action, state
	m.attrs["sampler"] = "free"
	b, err := json.Marshal(replay(t, m, Options{OneStep: true, PerEpisode: true}))
	must(t, err)
	want := `{"env":"tworoom","file":"F.h5","episodes":1,"rows":2,"left_out":0,` +
		`"columns":{"state":{"max_abs":0,"rows_equal":2,"rows":2,"worst":{"episode":0,"row":0}}},` +
		`"frames":{"count":0,"mean":0,"max":0,"worst_bytes":0,"moving":0},"terminated":{"compared":0,"wrong":0},"not_compared":["action"],` +
		`"per_episode":[{"index":0,"columns":{"state":{"max_abs":0}},"frames":{"count":0,"mean":0,"max":0,"worst_bytes":0,"moving":0},"terminated":{"compared":0,"wrong":0}}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestBadInput(t *testing.T) {
	without := func(name string) func(*memory) {
		return func(m *memory) {
			m.columns = slices.DeleteFunc(m.columns, func(c envs.Column) bool { return c.Name == name })
		}
	}
	for _, c := range []struct {
		name   string
		change func(*memory)
		opt    Options
		want   string
	}{
		{"no task named", func(m *memory) { delete(m.attrs, "env") }, Options{}, "hint: --task"},
		{"unknown task", func(m *memory) { m.attrs["env"] = "pong" }, Options{}, `"pong"`},
		{"unknown task asked for", nil, Options{Task: "pong"}, `"pong"`},
		{"another task asked for", nil, Options{Task: "fake"}, "task tworoom, not of fake (hint: leave --task out)"},
		{"switch with a wrong value", func(m *memory) { m.attrs["sampler"] = "dice" }, Options{}, "dice"},
		{"no actions", without("action"), Options{}, `no column "action"`},
		{"actions of another task", func(m *memory) { m.columns[0].Width = 1 }, Options{}, "actions have 1 numbers"},
		{"no state", func(m *memory) { m.columns = m.columns[:1] }, Options{}, "none of the columns state, proprio, pos_agent"},
		{"state of another width", func(m *memory) { m.columns[1].Width = 1 }, Options{}, "state has 1 numbers, not 2"},
		{"action NaN in the middle", func(m *memory) { m.data["action"][2*6+1] = math.NaN() }, Options{}, "episode 1, towards row 2: applying action of row 1: task tworoom: action[1] is NaN"},
		{"start NaN", func(m *memory) { m.data["state"][0] = math.NaN() }, Options{}, "episode 0"},
		{"no controller", nil, Options{FromControl: true}, "no controller"},
		{"no episode", func(m *memory) { m.episodes = nil }, Options{}, "no episode"},
	} {
		m := record(t, 2, 5, false)
		if c.change != nil {
			c.change(m)
		}
		c.opt.File = "F.h5"
		_, err := Run(context.Background(), m, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "F.h5") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.name, err, c.want)
		}
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := record(t, 2, 5, false)
	seen := int64(0)
	_, err := Run(ctx, m, Options{Progress: func(done, total int64, _ string) {
		if seen = done; done == 3 {
			cancel()
		}
		if total != 10 {
			t.Errorf("%d rows in total", total)
		}
	}})
	if !errors.Is(err, context.Canceled) || seen != 3 {
		t.Errorf("%v after %d rows", err, seen)
	}
}
