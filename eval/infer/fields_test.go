package infer

import (
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
)

// pairable returns two cells that differ only in the model.
func pairable() (a, b results.Cell) {
	make := func(method string) results.Cell {
		return results.Cell{ID: method, Spec: results.Spec{Task: "cube", Method: method, Weights: method, Data: "d", Solver: "mppi", Tier: "T4", Candidates: 20, Iterations: 5, Elites: 2, Set: "s102", SetHash: "h", Rules: results.Rules{Protocol: "paper", Temperature: 32, Horizon: 5, Budget: 50, GoalOffset: 25}},
			Result: results.Result{Device: "cpu/avx2/fp32", Rows: []results.Row{{Episode: 0, Trajectory: 3, Start: 7, PlannerSeed: 1}, {Episode: 1, Trajectory: 4, Start: 8, PlannerSeed: 2}}}}
	}
	return make("scale"), make("lewm")
}

// mismatch pairs two cells and returns the first refusal, or "".
func mismatch(t *testing.T, a, b results.Cell, o Options) (string, *Comparison) {
	t.Helper()
	x, y := &Side{Name: "a"}, &Side{Name: "b"}
	for arm, c := range map[*Side]results.Cell{x: a, y: b} {
		if err := arm.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	c := Compare(x, y, o)
	if len(c.Refused) == 0 {
		return "", c
	}
	return c.Refused[0], c
}

// Every difference that is not one of the model is refused by name
// (docs/sources.md#pairing): set, seed rule, tier, environment, data.
func TestUnlike(t *testing.T) {
	if a, b := pairable(); true {
		if why, _ := mismatch(t, a, b, Options{SameDevice: true}); why != "" {
			t.Fatalf("a fair pair: %s", why)
		}
	}
	for want, change := range map[string]func(*results.Cell){
		"task is ":                         func(c *results.Cell) { c.Spec.Task = "pusht" },
		"split is ":                        func(c *results.Cell) { c.Spec.Protocol = "strict" },
		"data is dddddddddddd in one":      func(c *results.Cell) { c.Spec.Data = strings.Repeat("d", 64) },
		"set hash is ":                     func(c *results.Cell) { c.Spec.SetHash = "x" },
		"device is cpu/avx512/fp32 in one": func(c *results.Cell) { c.Result.Device = "cpu/avx512/fp32" },
		"candidates is ":                   func(c *results.Cell) { c.Spec.Candidates++ },
		"iterations is ":                   func(c *results.Cell) { c.Spec.Iterations++ },
		"elites is ":                       func(c *results.Cell) { c.Spec.Elites++ },
		"horizon is ":                      func(c *results.Cell) { c.Spec.Horizon++ },
		"budget is ":                       func(c *results.Cell) { c.Spec.Budget++ },
		"goal offset is ":                  func(c *results.Cell) { c.Spec.GoalOffset++ },
		"temperature is 64 in one":         func(c *results.Cell) { c.Spec.Temperature = 64 },
		"set s102, episode 1: planner seed is 3 in one": func(c *results.Cell) { c.Result.Rows[1].PlannerSeed = 3 },
		"set s102, episode 1: trajectory is ":           func(c *results.Cell) { c.Result.Rows[1].Trajectory++ },
		"set s102, episode 0: start is ":                func(c *results.Cell) { c.Result.Rows[0].Start++ },
	} {
		a, b := pairable()
		change(&a)
		if why, c := mismatch(t, a, b, Options{SameDevice: true}); !strings.Contains(why, want) || c.Mean != nil {
			t.Errorf("want %q, got %q", want, why)
		}
		if why, _ := mismatch(t, b, a, Options{SameDevice: true}); why == "" {
			t.Errorf("%q: not refused the other way round", want)
		}
	}
}

// Different kinds of device cause a note. They are refused only on request.
func TestKindsOfDeviceAreNoted(t *testing.T) {
	a, b := pairable()
	a.Result.Device = "cuda/sm90/bf16"
	if why, c := mismatch(t, a, b, Options{}); why != "" || len(c.ByTier) != 1 || !slices.Equal(c.Notes, []string{"a planned on cuda/sm90/bf16, b on cpu/avx2/fp32"}) {
		t.Errorf("refused %q, notes %q", why, c.Notes)
	}
}

// Arms may differ in the model, its seed, MPPI's temperature if a method shares it with
// no other, whether they plan (random actions), and episodes that only one has.
func TestPairable(t *testing.T) {
	for what, change := range map[string]func(*results.Cell){
		"training seed":  func(c *results.Cell) { c.Spec.TrainSeed = 9 },
		"another family": func(c *results.Cell) { c.Spec.Method, c.Spec.Temperature = "dinowm", .5 },
		"fewer episodes": func(c *results.Cell) { c.Result.Rows = c.Result.Rows[1:] },
		"random actions": func(c *results.Cell) {
			c.Spec = results.Spec{Task: "cube", Method: "random", Data: "d", Set: "s102", SetHash: "h", Rules: results.Rules{Protocol: "paper", Budget: 50, GoalOffset: 25}}
			c.Result = results.Result{Rows: slices.Clone(c.Result.Rows)}
			c.Result.Rows[0].PlannerSeed = 0
		},
	} {
		a, b := pairable()
		change(&a)
		if why, c := mismatch(t, a, b, Options{SameDevice: true}); why != "" || c.Mean == nil {
			t.Errorf("%s: %s", what, why)
		}
	}
}
