package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/dataset/cell"
	"scalewm/envs"
	_ "scalewm/envs/cube"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/tworoom"
	"scalewm/eval"
	"scalewm/eval/presets"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
)

func lookUp[T any](t *testing.T, find func(string) (T, error), names ...string) (out []T) {
	t.Helper()
	for _, name := range names {
		v, err := find(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// smallGrid has two tasks, of which cube has fewer sets, two methods, and the random
// floor.
func smallGrid(t *testing.T) Grid {
	g := Grid{Tasks: lookUp(t, envs.Lookup, "pusht", "cube"), Methods: lookUp(t, model.LookUp, "lewm", "scale", "random"), Seeds: []int64{1, 2},
		Definition: protocol.Definition{Rules: results.Published()}, Axes: Axes{Solvers: []string{results.CEM, results.MPPI}, Sets: []string{"s101", "s102", "s103"}}}
	g.Tiers = append(g.Tiers, eval.Tiers()[0], eval.Tiers()[4])
	g.Preset.Eval.SetsAtMost = map[string]int{"cube": 1}
	return g
}

// names returns the IDs of steps and their numbers of cells.
func names(g Graph) (out []string) {
	for _, s := range g {
		name := s.ID()
		if d, ok := s.(Divisible); ok {
			name += fmt.Sprintf(" x%d", d.Len())
		}
		out = append(out, name)
	}
	return out
}

// TestGraph compares the graph of a grid with one task with a list written by hand.
func TestGraph(t *testing.T) {
	w := NewWorkspace(smallGrid(t), "", Options{})
	w.Grid.Tasks, w.Grid.Methods, w.Grid.Seeds = w.Grid.Tasks[1:], lookUp(t, model.LookUp, "scale", "lewm", "random"), []int64{7}
	w.Grid.Temperature = results.Tuned
	want := []string{"collect cube", "train cube lewm s7", "tune cube lewm s7", "train cube scale s7",
		"evaluate cube scale s7 cem T1 x1", "evaluate cube scale s7 cem T5 x1", "evaluate cube scale s7 mppi T1 x1", "evaluate cube scale s7 mppi T5 x1",
		"evaluate cube lewm s7 cem T1 x1", "evaluate cube lewm s7 cem T5 x1", "evaluate cube lewm s7 mppi T1 x1", "evaluate cube lewm s7 mppi T5 x1",
		"evaluate cube random x1", "report"}
	if got := names(w.Graph()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range w.Graph() {
		if s.ID() == "evaluate cube scale s7 mppi T5" && !slices.Equal(s.Needs(), []string{"train cube scale s7", "tune cube lewm s7", "collect cube"}) {
			t.Errorf("%s needs %v", s.ID(), s.Needs())
		}
	}
	w.Grid.Preset.Eval.TiersOf = map[string][]string{results.MPPI: {"T5"}}
	if got := names(w.Graph()); !slices.Equal(got, slices.DeleteFunc(want, func(step string) bool { return strings.Contains(step, "mppi T1") })) {
		t.Errorf("mppi at T5 alone: got\n%s", strings.Join(got, "\n"))
	}
	w.Grid.Solvers = []string{results.CEM}
	if got := names(w.Graph()); strings.Contains(strings.Join(got, "\n"), "tune") {
		t.Errorf("tuned without mppi: %v", got)
	}
	w.Grid.Methods = lookUp(t, model.LookUp, "random")
	if got := names(w.Graph()); !slices.Equal(got, []string{"collect cube", "evaluate cube random x1", "report"}) {
		t.Errorf("random actions alone: %v", got)
	}
}

// cellsOf counts how often the graph contains each cell of the grid.
func cellsOf(g Graph) map[string]int {
	out := map[string]int{}
	for _, s := range StepsOf[*Evaluate](g) {
		for _, set := range s.sets {
			out[fmt.Sprint(s.ID(), set)]++
		}
	}
	return out
}

// A policy needs the checkpoint of its encoder, which is trained first and in the same shard
// of a stage. A proposal is a further arm of that encoder's method. The lists are written by
// hand.
func TestGraphOfPolicies(t *testing.T) {
	g := smallGrid(t)
	g.Tasks, g.Seeds, g.Solvers, g.Tiers = g.Tasks[1:], []int64{7}, g.Solvers[:1], g.Tiers[1:]
	g.Methods = lookUp(t, model.ParseMethod, "gcidm@scale", "random")
	g.Proposals = lookUp(t, model.ParseMethod, "gcidm@lewm")
	w := NewWorkspace(g, "", Options{})
	want := []string{"collect cube", "train cube scale s7", "train cube gcidm@scale s7", "evaluate cube gcidm@scale s7 x1", "evaluate cube random x1",
		"train cube lewm s7", "train cube gcidm@lewm s7", "evaluate cube lewm@proposal=gcidm s7 cem T5 x1", "report"}
	if got := names(w.Graph()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range w.Graph() {
		needs := map[string][]string{"train cube gcidm@scale s7": {"collect cube", "train cube scale s7"}, "evaluate cube gcidm@scale s7": {"train cube gcidm@scale s7", "collect cube"},
			"evaluate cube lewm@proposal=gcidm s7 cem T5": {"train cube lewm s7", "train cube gcidm@lewm s7", "collect cube"}}[s.ID()]
		if needs != nil && !slices.Equal(s.Needs(), needs) {
			t.Errorf("%s needs %v, want %v", s.ID(), s.Needs(), needs)
		}
		if e, ok := s.(*Evaluate); ok && e.proposal != "" {
			if c, p := w.checkpoint(e.arm), w.proposal(e.arm); c != "train/cube-lewm-s7" || p != "train/cube-gcidm@lewm-s7" {
				t.Errorf("%s loads %s and %s", s.ID(), c, p)
			}
		}
	}
	for i := range 2 {
		got := names(w.Graph().Stage(StageTrain, cell.Shard{I: i, N: 2}))
		for _, encoder := range []string{"scale", "lewm"} {
			if slices.Contains(got, "train cube "+encoder+" s7") != slices.Contains(got, "train cube gcidm@"+encoder+" s7") {
				t.Errorf("shard %d trains %v", i, got)
			}
		}
	}
	for arm, want := range map[string]string{"gcidm": "whose latents", "gcidm@random": "no latents", "gcidm@gcbc": "no latents", "gcidm@nothing": "no method", "lewm@scale": "not a policy"} {
		if _, err := model.ParseMethod(arm); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want %q with a hint", arm, err, want)
		}
	}
}

// TestGridShards checks for many numbers of shards that every cell of a grid belongs
// to exactly one shard, after the data set and the checkpoint that it needs. No two
// shards of a grid with enough arms train the same arm, and each film is made once.
func TestGridShards(t *testing.T) {
	w := NewWorkspace(smallGrid(t), "", Options{})
	whole := cellsOf(w.Graph())
	if len(whole) != 2*2*4*3+3+2*2*4+1 { // two methods x two seeds x four jobs, and random, of three sets and of one
		t.Errorf("%d cells", len(whole))
	}
	for _, n := range []int{1, 2, 3, 7, 10, 11, 24, 200} {
		all, trained, films := map[string]int{}, map[string]int{}, 0
		for i := range n {
			part := w.Graph().Shard(cell.Shard{I: i, N: n})
			inOrder(t, part)
			for _, s := range StepsOf[*Train](part) {
				trained[s.ID()]++
			}
			for _, s := range StepsOf[*Evaluate](part) {
				if s.film {
					films++
				}
			}
			for c, k := range cellsOf(part) {
				all[c] += k
			}
		}
		if len(all) != len(whole) || films != 6 {
			t.Errorf("%d shards: %d cells of %d, %d films", n, len(all), len(whole), films)
		}
		for c, k := range all {
			if k != 1 {
				t.Errorf("%d shards: %s is listed %d times", n, c, k)
			}
		}
		if n <= 10 { // arms: 2 tasks x (2 methods x 2 seeds + random)
			for arm, k := range trained {
				if k != 1 {
					t.Errorf("%d shards: %s is done %d times", n, arm, k)
				}
			}
		}
	}
}

// inOrder checks that each step of a graph follows the steps that it needs.
func inOrder(t *testing.T, g Graph) {
	t.Helper()
	before := map[string]bool{}
	for _, s := range g {
		for _, need := range s.Needs() {
			if !before[need] {
				t.Errorf("%s comes before %s or without it", s.ID(), need)
			}
		}
		before[s.ID()] = true
	}
}

// Variants are separate arms. The preset's value is the plain arm, and a task that
// lacks a state has no arm with it. The preset's weights of the correlation are those
// of docs/sources.md#loss-weights: 0.15 on Reacher, else 0.1.
func TestVariants(t *testing.T) {
	g := Grid{Tasks: lookUp(t, envs.Lookup, "cube", "tworoom"), Methods: lookUp(t, model.LookUp, "lewm", "scale", "aux", "random"), Seeds: []int64{7},
		Qs: []string{"half", "full"}, ScaleWeights: []float64{.3, .1}}
	g.Preset.Train.Q, g.Preset.Train.Weights = "full", presets.Published()
	labels := func(task envs.Task) (out []string) {
		for _, a := range g.arms(task) {
			out = append(out, a.label().String())
		}
		return out
	}
	for i, want := range [][]string{
		{"lewm", "scale@half@w=0.3", "scale@half", "scale@w=0.3", "scale", "aux@half", "aux", "random"},
		{"lewm", "scale@w=0.3", "scale", "aux", "random"},
	} {
		if got := labels(g.Tasks[i]); !slices.Equal(got, want) {
			t.Errorf("%s has the arms %v, want %v", g.Tasks[i].Spec.Name, got, want)
		}
	}
	if got := g.WithoutQ(); len(got) != 1 || !strings.Contains(got[0], "tworoom has no state half") {
		t.Errorf("gaps %q", got)
	}
	g.Preset.Train.Weights = presets.Published().With(model.Correlation, "cube", .3).With(model.Correlation, "tworoom", .2)
	weight := func(p Preset, task string) float64 { w, _ := p.Train.Weights.On(model.Correlation, task); return w }
	for _, a := range g.arms(g.Tasks[0]) {
		p := a.preset(g.Preset)
		if a.label().String() == "scale@half@w=0.1" && (p.Train.Q != "half" || weight(p, "cube") != .1 || weight(p, "tworoom") != .2) {
			t.Errorf("%s is trained with %+v", a.label(), p.Train)
		}
	}
	if g.Preset.Train.Q != "full" || weight(g.Preset, "cube") != .3 {
		t.Errorf("the preset of the grid was changed: %+v", g.Preset.Train)
	}
}

// A state that the task does not have is an error even for methods whose loss uses
// none, and before anything is computed: State returns it. Cube has the state half,
// Two-Room does not (docs/sources.md#task-state-q).
func TestUnknownState(t *testing.T) {
	w := NewWorkspace(Grid{}, t.TempDir(), Options{})
	w.Grid = Grid{Methods: lookUp(t, model.LookUp, "lewm"), Seeds: []int64{7}}
	for _, c := range []struct {
		task, q string
		known   bool
	}{{"cube", "half", true}, {"tworoom", "full", true}, {"tworoom", "half", false}, {"cube", "nosuch", false}} {
		w.Grid.Tasks = lookUp(t, envs.Lookup, c.task)
		preset, err := LoadPreset("nano", "train.q="+c.q)
		if err != nil {
			t.Fatal(err)
		}
		w.Grid.Preset = *preset
		_, err = StepsOf[*Train](w.Graph())[0].State(context.Background())
		if known := err == nil; known != c.known || !known && !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s with train.q=%s: %v", c.task, c.q, err)
		}
	}
}

// What preset and tasks make impossible is an error before anything is collected.
// Two-Room's episodes have at most 101 rows, 76 of which have a goal 25 rows later.
func TestGridCheck(t *testing.T) {
	for _, c := range []struct {
		changes []string
		method  string
		strict  bool
		want    string // "": it fits
	}{
		{},
		{changes: []string{"model.history=19"}}, // clips of 100 rows
		{changes: []string{"model.history=20"}, want: "model.history is 20: a clip of 21 frames that are 5 rows apart has 105 rows, but an episode of tworoom has at most 101 (hint: history is at most 19)"},
		{changes: []string{"model.history=1000"}, want: "model.history is 1000"},
		{changes: []string{"model.frame_skip=1000"}, want: "model.frame_skip is 1000, but evaluations plan in blocks of 5 steps (hint: "},
		{changes: []string{"model.frame_skip=4"}, want: "model.frame_skip is 4"},
		{changes: []string{"dinowm.history=1000", "dinowm.position_frames=1000"}, method: "dinowm-random", want: "dinowm.history is 1000"},
		{changes: []string{"dinowm.history=1000", "dinowm.position_frames=1000"}}, // of a method that is not in the grid
		{changes: []string{"dinowm.batch=60000"}, method: "dinowm-random", want: "dinowm.batch is 60000"},
		{changes: []string{"train.batch=65536"}, want: "train.batch is 65536, but 500 episodes of tworoom have at most 36900 clips to train on (hint: "}, // 450 x (101 - 20 + 1)
		{changes: []string{"collect.episodes=1", "train.batch=82", "eval.episodes=76"}},
		{changes: []string{"collect.episodes=1", "train.batch=83"}, want: "train.batch is 83"},
		{changes: []string{"collect.episodes=1", "train.batch=64", "eval.episodes=77"}, want: "eval.episodes is 77, but the 1 episodes of tworoom to draw from have at most 76 starts"},
		{changes: []string{"collect.episodes_by_task={tworoom=1}", "train.batch=64", "eval.episodes=77"}, want: "eval.episodes is 77"},
		{changes: []string{"eval.episodes=1000000000000"}, want: "eval.episodes is 1000000000000"},
		{changes: []string{"eval.episodes=1000000000000", "eval.at_most={tworoom=5}"}},
		{changes: []string{"collect.episodes=10000000", "eval.episodes=50001"}, want: "a set has at most 50000"},
		{changes: []string{"eval.episodes=3801"}, strict: true, want: "but the 50 episodes of tworoom to draw from have at most 3800"},
		{changes: []string{"model.history=1000", "model.frame_skip=1000", "eval.episodes=5"}, method: "random"}, // which has no model
	} {
		p, err := LoadPreset("nano", c.changes...)
		if err != nil {
			t.Fatal(err)
		}
		g := Grid{Preset: *p, Tasks: lookUp(t, envs.Lookup, "tworoom"), Methods: lookUp(t, model.LookUp, cmp.Or(c.method, "lewm")), Axes: Axes{Sets: []string{"s101"}}, Episodes: p.Eval.Episodes, Definition: protocol.Definition{Rules: results.Published()}}
		if c.strict {
			g.Protocol = results.Strict
		}
		err = g.Check()
		var refused *RequestError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ")) {
			t.Errorf("%v: %v, want %q", c.changes, err, c.want)
		}
	}
	for _, name := range PresetNames() { // which have been run
		p, err := LoadPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		g := Grid{Preset: *p, Tasks: lookUp(t, envs.Lookup, "tworoom", "cube", "pusht"), Methods: lookUp(t, model.LookUp, "lewm", "scale", "aux", "untrained", "random"), Axes: Axes{Sets: p.Eval.Sets}, Episodes: p.Eval.Episodes, Definition: protocol.Definition{Rules: results.Published()}}
		if p.Models["dinowm"] != nil {
			g.Methods = append(g.Methods, lookUp(t, model.LookUp, "dinowm", "dinowm-random")...)
		}
		if err := g.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A preset with sizes that no machine could train is an error when it is read.
func TestPresetSizesAreBounded(t *testing.T) {
	for change, want := range map[string]string{
		"model.image_size=10000":             "image_size (frame_size of a backbone) is 10000 (hint: at most 1024",
		"model.image_size=1040":              "is 1040",
		"dinowm.backbone.frame_size=4096":    "is 4096 (hint: at most 1024",
		"model.patch=1":                      "",
		"model.image_size=1024":              "",
		"dinowm.backbone.patch=1":            "",
		"dinowm.backbone.layers=1001":        "layers is 1001",
		"model.width=65535":                  "parameters (hint: at most 2.1e+09",
		"model.dim=60000":                    "parameters (hint: ",
		"model.mlp=65536":                    "",
		"model.predictor_head_dim=65536":     "",
		"train.lr=1e300":                     "lr is 1e+300 (hint: from 0 to 3.4e+38, the largest float32)",
		"train.lr=-1":                        "lr is -1 (hint: a positive number)",
		strings.Repeat("a.", 40_000) + "a=1": "80003 characters (hint: a line has at most 1000)",
	} {
		began := time.Now()
		_, err := LoadPreset("nano", change)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && len(err.Error()) > 400 {
			t.Errorf("--set %.40s: %v, want %q", change, err, want)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("--set %.40s took %v", change, d)
		}
	}
	if _, err := LoadPreset("nano", "model.image_size=1024", "model.patch=8"); err == nil || !strings.Contains(err.Error(), "patch 8 cuts a frame of 1024 pixels into 16384 patches (hint: at most 4096") {
		t.Errorf("a frame of 16384 patches: %v", err)
	}
}
