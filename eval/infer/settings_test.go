package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// Every field of a spec has a role, so a new field cannot be forgotten.
func TestEveryFieldHasARole(t *testing.T) {
	for _, of := range reflect.VisibleFields(reflect.TypeFor[results.Spec]()) {
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		n := 0
		for _, f := range fields {
			if f.name == name && f.role != ofResult {
				n++
			}
		}
		if n != 1 && name != "schema" && !of.Anonymous {
			t.Errorf("the spec's field %s stands %d times in the table of fields, want once", name, n)
		}
	}
}

// Two different cells never get the same place: of many cells, which differ in all
// kinds of fields, none is lost, and no two have the same table, settings, arm, seed,
// tier and set.
func TestNoTwoCellsInOnePlace(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for round := range 30 {
		seen := map[results.Spec]bool{}
		var cells []results.Cell
		for range 60 {
			s := results.Spec{Schema: 2, Task: pick("cube", "tworoom"), Method: pick("lewm", "scale", "random"), Data: pick("d", "d", "e"), Set: pick("s101", "s102", "s103"), Episodes: 2 + r.IntN(2), Rules: results.Rules{Protocol: pick("paper", "paper", "strict"), Budget: 50, GoalOffset: 25, Pool: pick("", "", "full")}}
			s.SetHash = fmt.Sprint(s.Set, s.Episodes, s.Pool, s.Data, r.IntN(8) == 0)
			if s.Method != "random" {
				s.TrainSeed, s.Weights, s.Solver, s.Tier, s.Precision, s.Horizon = r.IntN(2), pick("aaaaaaaaaaaa", "bbbbbbbbbbbb"), pick("cem", "icem", "mppi"), pick("T3", "T5"), "fp32", 5
				s.Weights += s.Method
				s.Code = pick("", "cc")
				s.Recipe, s.Candidates = s.Weights[:2]+pick("", "x"), map[string]int{"T3": 50, "T5": 10}[s.Tier]+r.IntN(30)/29
				if s.Method == "scale" {
					s.Q, s.LossWeight = map[byte]string{'a': "full", 'b': "half"}[s.Weights[0]], .1
				}
				switch s.Solver {
				case "icem":
					s.Clip = pick("raw", "env")
				case "mppi":
					s.Temperature = []float64{.5, 32, 64}[r.IntN(3)]
				}
			}
			if r.IntN(3) == 0 {
				s = bare(s)
			}
			id, err := cell.ID(results.Kind, s)
			if err != nil {
				t.Fatal(err)
			}
			if b := bare(s); !seen[b] { // a folder has a cell of a bare checkpoint or of the same one with its sidecar
				seen[b] = true
				cells = append(cells, results.Cell{ID: id, Spec: s})
			}
		}
		type slot struct {
			*Settings
			table     string
			arm       results.Arm
			seed      int
			tier, set string
		}
		at, there := map[slot]string{}, map[string]bool{}
		placed, _ := PlaceCells(cells)
		for _, p := range placed {
			s := slot{p.Settings, p.Table, p.Arm, p.Spec.TrainSeed, p.Spec.Tier, p.Spec.Set}
			if other, taken := at[s]; taken {
				t.Fatalf("round %d: cells %s and %s both stand at %+v with %q", round, other, p.ID, s, p.Settings.Name)
			}
			at[s], there[p.ID] = p.ID, true
		}
		names := map[[3]string]*Settings{}
		for _, p := range placed {
			n := [3]string{p.Settings.Task, p.Table, p.Settings.Name}
			if other, taken := names[n]; taken && other != p.Settings {
				t.Fatalf("round %d: two settings of %s are named %q", round, n[0], n[2])
			}
			names[n] = p.Settings
		}
		for _, c := range cells {
			if !there[c.ID] && !(c.Spec.Solver == results.MPPI && c.Spec.Set == results.TuningSet) {
				t.Fatalf("round %d: cell %+v is nowhere", round, c.Spec)
			}
		}
		again := slices.Clone(cells)
		r.Shuffle(len(again), func(i, k int) { again[i], again[k] = again[k], again[i] })
		other, _ := PlaceCells(again)
		for _, p := range placed {
			if !slices.ContainsFunc(other, func(o Placed) bool {
				return o.ID == p.ID && o.Table == p.Table && o.Arm == p.Arm && o.Settings.Name == p.Settings.Name
			}) {
				t.Fatalf("round %d: in another order cell %s does not stand at %s, %q", round, p.ID, p.Table, p.Settings.Name)
			}
		}
	}
}

// settingsOf places cells that differ from a common one, and returns the names of their
// settings in order.
func settingsOf(changes ...func(*results.Spec)) (out []string) {
	var cells []results.Cell
	for i, change := range changes {
		s := results.Spec{Schema: 2, Task: "cube", Method: "lewm", Weights: fmt.Sprint("w", i), Recipe: "0a", Data: "d", Solver: "mppi", Tier: "T4", Set: "s102", SetHash: "h", Episodes: 5, Rules: results.Rules{Protocol: "paper", Temperature: 32}}
		change(&s)
		cells = append(cells, results.Cell{ID: fmt.Sprint(i), Spec: s})
	}
	placed, _ := PlaceCells(cells)
	for _, p := range placed {
		out = append(out, strings.TrimSpace(p.Table+" "+p.Settings.Name))
	}
	return out
}

// bare returns the spec of the same evaluation for a checkpoint that does not state how
// it was trained.
func bare(s results.Spec) results.Spec {
	s.Recipe, s.Q, s.LossWeight, s.Backbone = "", "", 0, ""
	return s
}

// A cell that lacks a setting belongs to the others, unless these differ in it.
func TestBareCellsStandWithOthers(t *testing.T) {
	same := func(*results.Spec) {}
	without := func(s *results.Spec) { *s = bare(*s) }
	recipe := func(s *results.Spec) { s.Recipe = "0b" }
	for want, got := range map[string][]string{
		"mppi, mppi": settingsOf(without, same),
		"mppi recipe 0a, mppi recipe 0b, mppi recipe unknown": settingsOf(same, recipe, without),
	} {
		if strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", strings.Join(got, ", "), want)
		}
	}
}

// MPPI has the tables of the chosen and of the stock temperature. Further temperatures
// are separate, and a method that plans at the stock temperature only belongs to all
// tables.
func TestTemperatures(t *testing.T) {
	at := func(x float64) func(*results.Spec) { return func(s *results.Spec) { s.Temperature = x } }
	dino := func(s *results.Spec) { s.Method, s.Temperature = "dinowm", .5 }
	for want, got := range map[string][]string{
		"mppi":             settingsOf(at(.5)),
		"mppi, mppi-stock": settingsOf(at(32), at(.5)),
		"mppi temperature 32, mppi temperature 64, mppi-stock": settingsOf(at(32), at(64), at(.5)),
		"mppi, mppi-stock, mppi, mppi-stock":                   settingsOf(at(32), at(.5), dino),
	} {
		if strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", strings.Join(got, ", "), want)
		}
	}
}

// Cells that vary only the planner's noise, a clip or the temperature are variations of
// the main settings, which need no name. Cells that differ in more, or that have no
// main settings, are not.
func TestMainSettings(t *testing.T) {
	at := func(noise int, clip bool, temperature float64, precision string) results.Spec {
		return results.Spec{Schema: 2, Task: "cube", Method: "lewm", Weights: "w", Solver: "mppi", Tier: "T4", Set: "s102", SetHash: "h", Rules: results.Rules{PlannerNoise: noise, ActionClip: clip, Temperature: temperature, Precision: precision}}
	}
	var cells []results.Cell
	for i, s := range []results.Spec{at(0, false, 32, "fp32"), at(1, false, 32, "fp32"), at(1, true, 32, "fp32"), at(0, false, .5, "fp32"), at(1, false, 32, "bf16")} {
		s.Episodes = 5
		cells = append(cells, results.Cell{ID: fmt.Sprint(i), Spec: s, Result: results.Result{Rows: []results.Row{{Success: i == 2}}}})
	}
	placed, _ := PlaceCells(cells)
	var got []string
	for _, p := range placed {
		main := "main"
		if p.Settings.Main != nil {
			main = fmt.Sprintf("%q of %q", p.Settings.Varied, p.Settings.Main.Name)
		}
		got = append(got, p.Table+": "+p.Settings.Name+": "+main)
	}
	want := []string{
		"mppi: planned in fp32: main",
		`mppi: planned in fp32, planner noise 1: ["planner_noise"] of "planned in fp32"`,
		`mppi: planned in fp32, actions executed within the task's bounds, planner noise 1: ["action_clip" "planner_noise"] of "planned in fp32"`,
		`mppi-stock: : ["temperature"] of "planned in fp32"`,
		"mppi: planned in bf16, planner noise 1: main",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q,\nwant %q", got, want)
	}
	// Without main settings they have the same names.
	if placed, _ := PlaceCells(cells[1:2]); placed[0].Settings.Name != "planner noise 1" || placed[0].Settings.Main != nil {
		t.Errorf("alone: %+v", placed[0].Settings)
	}
	// Load selects the main settings, unless others are named.
	var plain, varied Side
	if err := plain.take(cells[:3], "lewm", Filter{}); err != nil || plain.tiers() == nil {
		t.Error(err)
	}
	if err := varied.take(cells[:3], "lewm", Filter{Settings: "planner noise 1"}); err != nil || varied.units[unit{0, "T4"}]["s102"][0].success {
		t.Error(err)
	}
}

// Equal episodes under two names count once.
func TestSetAliases(t *testing.T) {
	s := results.Spec{Task: "cube", Method: "lewm", Weights: "w", Solver: "cem", Tier: "T4", Set: "s7", SetHash: "h"}
	alias := s
	alias.Set = "s07"
	placed, notes := PlaceCells([]results.Cell{{ID: "a", Spec: alias}, {ID: "b", Spec: s}})
	if len(placed) != 1 || placed[0].ID != "b" || len(notes) != 1 || notes[0] != "cube: the sets s7 and s07 are the same episodes, which count once" {
		t.Errorf("%+v, %q", placed, notes)
	}
}

// Groups never mix settings that differ within a task. Tables of tasks without that
// difference, or that do not state the setting, are in all groups.
func TestGroups(t *testing.T) {
	s := func(task, table string, kv ...string) *Settings {
		v := values{}
		for i := 0; i < len(kv); i += 2 {
			v[setKey{name: kv[i]}] = kv[i+1]
		}
		return &Settings{Task: task, Table: table, value: v}
	}
	for _, c := range []struct {
		name string
		all  []*Settings
		want string
	}{
		{"one a task", []*Settings{s("cube", "cem", "data", "a", "episodes", "5"), s("reacher", "cem", "data", "b", "episodes", "9")}, "[0 1]"},
		{"episodes", []*Settings{s("cube", "cem", "episodes", "5"), s("cube", "cem", "episodes", "9"), s("reacher", "cem", "episodes", "7")}, "5 episodes a set[0 2] 9 episodes a set[1 2]"},
		{"temperatures", []*Settings{s("cube", "cem"), s("cube", "mppi", "temperature", "32"), s("cube", "mppi", "temperature", "64"), s("cube", results.StockMPPI)}, "temperature 32[0 1 3] temperature 64[0 2 3]"},
		{"unknown", []*Settings{s("cube", "cem", "recipe", "a"), s("cube", "cem", "recipe", unknown), s("cube", "icem", "recipe", "a")}, "recipe a[0 2] recipe unknown[1]"},
		{"another solver", []*Settings{s("cube", "cem", "recipe", "a"), s("cube", "icem", "recipe", "b")}, "recipe a[0] recipe b[1]"},
	} {
		got := ""
		for _, g := range Groups(c.all) {
			got += fmt.Sprint(" ", g.Name, g.Members)
		}
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, strings.TrimSpace(got), c.want)
		}
	}
}

// A Python model that plans at the stock temperature is in every table of MPPI, except
// in that of a temperature at which it was planned too.
func TestPythonModelAtTwoTemperatures(t *testing.T) {
	var cells []results.Cell
	for _, method := range []string{lewm, "mine"} {
		for _, temperature := range []float64{results.StockTemperature, 64} {
			c := results.Cell{ID: fmt.Sprint(method, temperature), Spec: resultstest.Spec(p(method, "T1"), 1)}
			c.Spec.Solver, c.Spec.Temperature = results.MPPI, temperature
			if method == "mine" {
				c.Spec.Python = results.PythonWorld
			}
			c.Result = resultstest.Result(p(method, "T1"), 5)
			cells = append(cells, c)
		}
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range table.Blocks {
		if mine := b.at(Trained{Arm: arm("mine@world")}, "T1"); len(mine) != 1 || (mine[0].Spec.Temperature == 64) != (b.Solver == results.MPPI) {
			t.Errorf("%s has %d cells of the model, want that of its temperature", b.Title(), len(mine))
		}
	}
	if len(table.Blocks) != 2 {
		t.Errorf("%d blocks, want one a temperature", len(table.Blocks))
	}
}

// If no arm is in the table of methods, each is compared with those after it. Here they
// solve 5 and 3 of 10 episodes, with two training seeds each.
func TestPythonModelsAlone(t *testing.T) {
	var cells []results.Cell
	for method, hits := range map[string]int{"mine": 5, "theirs": 3} {
		for seed := range 2 {
			for set := range 2 {
				c := results.Cell{ID: fmt.Sprint(method, seed, set), Spec: resultstest.Spec(p(method, "T1"), set)}
				c.Spec.Python, c.Spec.TrainSeed, c.Spec.Weights = results.PythonWorld, seed, fmt.Sprint(method, seed)
				c.Result = resultstest.Result(p(method, "T1"), hits)
				cells = append(cells, c)
			}
		}
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := table.Select("difference,a=theirs@world,b=mine@world") // mine, the first, is the baseline
	if err != nil || *n.Value != -20 {
		t.Fatalf("%+v, %v, want -20 points", n, err)
	}
	if n, err = table.Select("seed_difference,a=theirs@world,b=mine@world"); err != nil || n.N != 2 {
		t.Errorf("%+v, %v, want two training seeds", n, err)
	}
}

// Policies under several schedules belong to the searches with the same one. A policy that
// acts at every step is another arm than one that acts once a plan, and both join the same
// searches. Random actions join all of them, and no cell is dropped without a warning.
func TestPoliciesUnderSchedules(t *testing.T) {
	var cells []results.Cell
	for i, s := range []struct {
		method, tier, act string
		replan, budget    int
	}{{lewm, "T1", "", 0, 50}, {lewm, "T1", "", 1, 50}, {"mine", "", "", 0, 50}, {"mine", "", "", 1, 50}, {"mine", "", results.EachStep, 0, 50}, {random, "", "", 0, 50}, {"mine", "", "", 0, 100}} {
		plan := p(s.method, s.tier)
		c := results.Cell{ID: fmt.Sprint(i), Spec: resultstest.Spec(plan, 1), Result: resultstest.Result(plan, 5)}
		if s.method == "mine" {
			c.Spec.Solver, c.Spec.Tier, c.Spec.Python = "", "", results.PythonPolicy
			c.Spec.Candidates, c.Spec.Iterations, c.Spec.Elites = 0, 0, 0
		}
		c.Spec.Replan, c.Spec.Act, c.Spec.Budget = s.replan, s.act, s.budget
		cells = append(cells, c)
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range table.Blocks {
		got = append(got, fmt.Sprint(b.Settings, b.Names()))
	}
	if want := []string{"all blocks executed[lewm random mine@policy@plan mine@policy@step]", "1 block executed[lewm random mine@policy]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := slices.IndexFunc(table.Warnings, func(w string) bool { return strings.Contains(w, "is left out") && strings.Contains(w, "100 steps") }); n < 0 {
		t.Errorf("no warning of the policy with 100 steps: %q", table.Warnings)
	}
}

// A trained policy is compared with the baseline and with the arm that encodes its frames,
// over training seeds and at every tier; a search with a proposal, with the search without.
// The differences follow from the plan of the cells, of 10 episodes a set.
func TestTrainedPolicies(t *testing.T) {
	var cells []results.Cell
	for seed := 1; seed <= 2; seed++ {
		for _, a := range []struct{ method, encoder, proposal string }{{method: lewm}, {method: scale}, {lewm, "", "gcidm"}, {"gcidm", lewm, ""}, {"gcidm", scale, ""}} {
			tiers, hits := []string{"T1", "T5"}, map[string]int{"T1": 5 + seed, "T5": 4}
			if a.encoder != "" {
				tiers, hits = []string{""}, map[string]int{"": 8}
			}
			if a.method == scale || a.encoder == scale || a.proposal != "" {
				hits = map[string]int{"T1": 9, "T5": 9, "": 10}
			}
			for _, tier := range tiers {
				c := results.Cell{ID: fmt.Sprint(len(cells)), Spec: resultstest.Spec(p(a.method, tier), 1), Result: resultstest.Result(p(a.method, tier), hits[tier])}
				c.Spec.TrainSeed, c.Spec.Proposal, c.Spec.Encoder = seed, a.proposal, a.encoder
				c.Spec.Weights = fmt.Sprint(a, seed)
				if a.encoder != "" {
					c.Spec.Solver, c.Spec.Targets, c.Spec.Candidates, c.Spec.Iterations, c.Spec.Elites = "", results.ZScored, 0, 0, 0
					for i := range c.Result.Rows {
						c.Result.Rows[i].PlannerSeed = 0
					}
				}
				cells = append(cells, c)
			}
		}
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Blocks) != 1 {
		t.Fatalf("%d blocks, %q", len(table.Blocks), table.Warnings)
	}
	for _, w := range table.Warnings {
		if strings.Contains(w, "random actions solve") || strings.Contains(w, "no cells of GC") {
			t.Errorf("the warning %q", w)
		}
	}
	// By hand: 8 of 10 against 6 and 7 at T1 and 4 at T5; 10 of 10 against 8, and against 9.
	if c := table.Blocks[0].Headline(); c.A != scale || c.B != lewm {
		t.Errorf("the first comparison of the page is %s with %s", c.A, c.B)
	}
	for selector, want := range map[string]float64{
		"difference,tier=T1,a=gcidm@lewm,b=lewm": 15, "difference,tier=T5,a=gcidm@lewm,b=lewm": 40, "difference,tier=T5,a=gcidm@scale,b=scale": 10,
		"difference,tier=T1,a=lewm@proposal=gcidm,b=lewm": 25, "difference,tier=T5,a=lewm@proposal=gcidm,b=lewm": 50, "difference,tier=T1,a=scale,b=lewm": 25,
	} {
		n, err := table.Select(selector)
		if err != nil || n.Value == nil || math.Abs(*n.Value-want) > 1e-9 {
			t.Errorf("%s: %+v, %v, want %g", selector, n, err, want)
		}
	}
	if n, err := table.Select("difference_over_seeds,tier=T1,a=gcidm@lewm,b=lewm"); err != nil || n.N != 2 || math.Abs(*n.Value-15) > 1e-9 {
		t.Errorf("%+v, %v, want the difference over two training seeds", n, err)
	}
}
