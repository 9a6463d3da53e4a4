package success

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// All rules that have a name.
var named = []string{Upstream, Moderate, Strict}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rule(t testing.TB, name, task string) Rule {
	t.Helper()
	r, err := Named(name, task)
	must(t, err)
	return r
}

// Rules whose values are upstream's are the zero Rule. Every other one is valid, survives JSON,
// and has texts that can be part of a cell.
func TestNamedRules(t *testing.T) {
	for task := range rules {
		for _, name := range named {
			r := rule(t, name, task)
			// Moderate changes Reacher's rule only; PointMaze has none but upstream.
			if zero := name == Upstream || name == Moderate && task != "reacher" || task == "pointmaze"; (r == Rule{}) != zero || (r.String() == "") != zero {
				t.Errorf("%s of %s is %+v, %q", name, task, r, r)
			}
			must(t, r.Check(task))
			must(t, Explicit(r, task).Check(task))
			must(t, safefile.CheckNames(Explicit(r, task)))
			if Explicit(r, task).Normal(task) != r {
				t.Errorf("%s of %s is not normal", name, task)
			}
			b, err := json.Marshal(r)
			must(t, err)
			var back Rule
			must(t, json.Unmarshal(b, &back))
			if back != r {
				t.Errorf("%s reads as %+v", b, back)
			}
		}
	}
	for _, c := range []struct{ name, task, says string }{
		{"strict", "cube", "hint: one of upstream"}, {Strict, "pendulum", "hint: upstream"},
	} {
		if _, err := Named(c.name, c.task); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %s: %v", c.name, c.task, err)
		}
	}
	if r, err := Named(Upstream, "pendulum"); err != nil || r != (Rule{}) || r.Check("pendulum") != nil || r.Columns("pendulum") != nil {
		t.Errorf("the rule of an unknown task: %+v, %v", r, err)
	}
}

func TestString(t *testing.T) {
	for task, want := range map[string]string{
		"tworoom": "agent within 8 px in the goal's room by a valid route", "pusht": "block within 10 px and 10 degrees for 3 steps",
		"reacher": "finger within 0.01 m for 2 steps", "cube": "cube within 0.03 m and 15 degrees up to the cube's symmetry for 3 steps",
	} {
		if got := rule(t, Strict, task).String(); got != want {
			t.Errorf("%s: %q, want %q", task, got, want)
		}
	}
	if got, want := rule(t, Moderate, "reacher").String(), "joints within 0.05 rad with the shoulder modulo a full turn"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		task   string
		change func(r *Rule)
		says   string
	}{
		{"tworoom", func(r *Rule) { r.Of = Block }, "hint: agent)"},
		{"reacher", func(r *Rule) { r.Of = "wrist" }, "hint: finger or joints)"},
		{"pusht", func(r *Rule) { r.Distance = 0 }, "in px"},
		{"pusht", func(r *Rule) { r.Distance = math.NaN() }, "distance is NaN"},
		{"pusht", func(r *Rule) { r.Distance = math.Inf(1) }, "distance is +Inf"},
		{"pusht", func(r *Rule) { r.Hold = 0 }, "hold is 0"},
		{"pusht", func(r *Rule) { r.Turn = 181 }, "turn is 181"},
		{"pusht", func(r *Rule) { r.Turn = math.NaN() }, "turn is NaN"},
		{"pusht", func(r *Rule) { r.Symmetric = true }, "symmetric"},
		{"pusht", func(r *Rule) { r.Route = true }, "route and side"},
		{"reacher", func(r *Rule) { r.Turn = 10 }, "joints has no angle"},
		{"reacher", func(r *Rule) { r.Wrap = "wrist" }, "hint: shoulder or all"},
		{"reacher", func(r *Rule) { r.Of, r.Wrap = Finger, WrapAll }, "of joints only"},
		{"cube", func(r *Rule) { r.Symmetric = true }, "set turn"},
		{"cube", func(r *Rule) { r.Side = true }, "route and side"},
		{"pendulum", func(r *Rule) { r.Of = Agent }, "hint: upstream"},
	} {
		r := Explicit(Rule{}, c.task)
		c.change(&r)
		if err := r.Check(c.task); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "(hint: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %+v: %v, want %q", c.task, r, err, c.says)
		}
	}
	// Variants that a protocol file may have.
	for task, change := range map[string]func(r *Rule){
		"tworoom": func(r *Rule) { r.Distance, r.Hold = 4.5, 7 }, "pusht": func(r *Rule) { r.Of, r.Turn = Block, 0 },
		"reacher": func(r *Rule) { r.Wrap = WrapAll }, "cube": func(r *Rule) { r.Turn, r.Hold = 15, 5 }, "pointmaze": func(r *Rule) { r.Distance = .3 },
	} {
		r := Explicit(Rule{}, task)
		change(&r)
		must(t, r.Check(task))
		if r.Normal(task) != r || r.String() == "" {
			t.Errorf("%s: %+v", task, r)
		}
	}
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		name, task string
		want       []string
	}{
		{Upstream, "tworoom", []string{"state"}}, {Strict, "pusht", []string{"state"}}, {Moderate, "reacher", []string{"qpos"}}, {Strict, "reacher", []string{"finger_pos"}},
		{Upstream, "cube", []string{"privileged_block_0_pos"}}, {Strict, "cube", []string{"privileged_block_0_pos", "privileged_block_0_quat"}}, {Upstream, "pointmaze", []string{"state"}},
	} {
		r := rule(t, c.name, c.task)
		if got := r.Columns(c.task); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s reads %v, want %v", c.name, c.task, got, c.want)
		}
		only := func(names ...string) func(string) bool {
			return func(c string) bool { return slices.Contains(names, c) }
		}
		must(t, r.Lacks(c.task, only(c.want...)))
		if err := r.Lacks(c.task, only(c.want[1:]...)); err == nil || !strings.Contains(err.Error(), c.want[0]) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s of %s: %v", c.name, c.task, err)
		}
		if err := r.Lacks(c.task, only(c.want[0])); (err == nil) != (len(c.want) == 1) {
			t.Errorf("%s of %s: %v", c.name, c.task, err)
		}
	}
	if err := (Rule{}).Lacks("tworoom", func(c string) bool { return c == "proprio" }); err != nil {
		t.Error(err)
	}
	if err := (Rule{}).Lacks("pendulum", func(string) bool { return false }); err != nil {
		t.Error(err)
	}
}

// good is a row of each task.
var good = map[string]envs.Row{
	"tworoom":   {"state": {60, 60}},
	"pusht":     {"state": {200, 300, 250, 240, 1.5, 0, 0}},
	"reacher":   {"qpos": {1, 2}, "finger_pos": {.1, .1}},
	"cube":      {"privileged_block_0_pos": {.4, .1, .02}, "privileged_block_0_quat": {1, 0, 0, 0}},
	"pointmaze": {"state": {1, 1, 0, 0}},
}

// A row that a rule cannot read is an error with a hint, as a start, as a goal and in a step,
// and a bad step changes nothing.
func TestBadRows(t *testing.T) {
	for task, row := range good {
		r := rule(t, Strict, task)
		e, err := NewEpisode(r, task, row, row, nil)
		must(t, err)
		for _, column := range r.Columns(task) {
			for what, v := range map[string][]float64{"missing": nil, "narrow": row[column][1:], "wide": append(slices.Clone(row[column]), 0), "NaN": nan(row[column]), "0": make([]float64, 4)} {
				if what == "0" && !strings.HasSuffix(column, "quat") {
					continue
				}
				bad := envs.Row{}
				for k, x := range row {
					bad[k] = x
				}
				bad[column] = v
				if v == nil {
					delete(bad, column)
				}
				before := *e
				_, err1 := NewEpisode(r, task, bad, row, nil)
				_, err2 := NewEpisode(r, task, row, bad, nil)
				_, err3 := e.Step(bad)
				_, err4 := r.Met(task, bad, row)
				for i, err := range []error{err1, err2, err3, err4} {
					if err == nil || !strings.Contains(err.Error(), "(hint: ") || strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: %s %s, call %d: %v", task, column, what, i, err)
					}
				}
				if *e != before {
					t.Errorf("%s: a bad step changed the episode", task)
				}
			}
		}
	}
	for _, task := range []string{"pendulum", ""} {
		if _, err := NewEpisode(Rule{}, task, good["tworoom"], good["tworoom"], nil); err == nil || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("an episode of task %q: %v", task, err)
		}
	}
	bad := Explicit(Rule{}, "cube")
	bad.Hold = 0
	if _, err := NewEpisode(bad, "cube", good["cube"], good["cube"], nil); err == nil {
		t.Error("a bad rule judges")
	}
}

func nan(v []float64) []float64 {
	out := slices.Clone(v)
	out[len(out)-1] = math.NaN()
	return out
}

// The hold counter starts at 0, is reset by a miss, and success is final. A copy continues on its
// own.
func TestHold(t *testing.T) {
	goal := good["cube"]
	far := envs.Row{"privileged_block_0_pos": {0, 0, 0}, "privileged_block_0_quat": {1, 0, 0, 0}}
	e, err := NewEpisode(rule(t, Strict, "cube"), "cube", goal, goal, nil)
	must(t, err)
	for i, hit := range []bool{true, true, false, true, true, true, false, false} {
		row := far
		if hit {
			row = goal
		}
		twin := *e
		if _, err := twin.Step(far); err != nil {
			t.Fatal(err)
		}
		done, err := e.Step(row)
		must(t, err)
		// Hold 3: the third hit in a row is step 5.
		if done != (i >= 5) {
			t.Errorf("step %d: success %v", i, done)
		}
		if want := []int{1, 2, 0, 1, 2, 3, 0, 0}[i]; e.Held != want || twin.Held != 0 {
			t.Errorf("step %d: held %d, and %d in a copy", i, e.Held, twin.Held)
		}
	}
}

// Two-Room's Strict rule: the route, a crossing through the door, and the goal's side.
func TestTwoRoomStrict(t *testing.T) {
	at := func(x, y float64) envs.Row { return envs.Row{"proprio": {x, y}} } // any of the columns with the position
	for _, c := range []struct {
		what        string
		start, goal envs.Row
		steps       []envs.Row
		track       Track
		want        bool
	}{
		{"through the door", at(100, 49), at(128, 49), []envs.Row{at(108, 49), at(116, 50), at(124, 49)}, Track{CrossRoom: true, Valid: true, Crossings: 1}, true},
		{"through the wall", at(95, 120), at(128, 120), []envs.Row{at(128, 120)}, Track{CrossRoom: true}, false},
		{"near the goal on the wrong side", at(100, 49), at(114, 49), []envs.Row{at(110, 49)}, Track{CrossRoom: true, Valid: true}, false},
		{"in one room", at(60, 60), at(60, 67), []envs.Row{at(60, 61)}, Track{Valid: true}, true},
		{"8 px away", at(60, 60), at(60, 69), []envs.Row{at(60, 61)}, Track{Valid: true}, false},
		{"start in the wall", at(104, 120), at(97, 120), []envs.Row{at(97, 120)}, Track{}, false},
		{"goal in the wall", at(97, 120), at(102, 120), []envs.Row{at(98, 120)}, Track{}, false},
	} {
		e, err := NewEpisode(rule(t, Strict, "tworoom"), "tworoom", c.start, c.goal, nil)
		must(t, err)
		done := false
		for _, s := range c.steps {
			done, err = e.Step(s)
			must(t, err)
		}
		if done != c.want || e.Track != c.track {
			t.Errorf("%s: %v, %+v; want %v, %+v", c.what, done, e.Track, c.want, c.track)
		}
		last := c.steps[len(c.steps)-1]
		if met, err := rule(t, Strict, "tworoom").MetOn(c.track, nil, "tworoom", last, c.goal); err != nil || met != c.want {
			t.Errorf("%s: on its track %v, %v", c.what, met, err)
		}
	}
	// A crossing back counts too, and Upstream keeps the track without using it.
	e, err := NewEpisode(Rule{}, "tworoom", at(100, 49), at(60, 49), nil)
	must(t, err)
	for _, x := range []float64{120, 100, 95} {
		_, err = e.Step(at(x, 49))
		must(t, err)
	}
	if e.Track != (Track{Valid: true, Crossings: 2}) {
		t.Errorf("there and back: %+v", e.Track)
	}
}

// Angles of quaternions of any length; a rotation of the cube onto itself counts as none.
func TestCubeTurn(t *testing.T) {
	if len(symmetries) != 24 {
		t.Fatalf("%d symmetries", len(symmetries))
	}
	half := math.Sqrt(.5)
	for _, c := range []struct {
		q               [4]float64
		turn, symmetric float64
	}{{[4]float64{half, half, 0, 0}, 90, 0}, {[4]float64{0, 0, 3, 0}, 180, 0}, {[4]float64{.5, .5, .5, .5}, 120, 0}, {[4]float64{-2, 0, 0, 0}, 0, 0},
		{[4]float64{math.Cos(math.Pi / 8), 0, 0, math.Sin(math.Pi / 8)}, 45, 45}} {
		a, b := Turn([4]float64{1, 0, 0, 0}, c.q), CubeTurn([4]float64{1, 0, 0, 0}, c.q)
		if math.Abs(a-c.turn) > 2e-6 || math.Abs(b-c.symmetric) > 2e-6 {
			t.Errorf("%v: %g and %g degrees, want %g and %g", c.q, a, b, c.turn, c.symmetric)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for task, row := range good {
		b.Run(task, func(b *testing.B) {
			e, err := NewEpisode(rule(b, Strict, task), task, row, row, nil)
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Step(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a row has no valid column for is absent. The values are compared in eval/clear.
func TestDistancesOfIncompleteRows(t *testing.T) {
	for _, c := range []struct {
		task string
		now  envs.Row
		want int
	}{{"cube", good["cube"], 3}, {"cube", envs.Row{"privileged_block_0_pos": {0, 0, 0}}, 1}, {"reacher", envs.Row{"qpos": {0, 0}}, 3}, {"reacher", good["reacher"], 4},
		{"tworoom", envs.Row{"state": {math.NaN(), 0}}, 0}, {"pointmaze", good["pointmaze"], 0}, {"pendulum", nil, 0}} {
		if got := Distances(c.task, c.now, good[c.task]); len(got) != c.want {
			t.Errorf("%s, %v: %v", c.task, c.now, got)
		}
	}
}
