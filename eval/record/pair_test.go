package record

import (
	"slices"
	"strings"
	"testing"
)

// pairable are two cells that differ in nothing but the model.
func pairable() (a, b Cell) {
	make := func(method string) Cell {
		return Cell{ID: method, Spec: Spec{Protocol: "paper", Task: "cube", Method: method, Weights: method, Data: "d", Solver: "mppi", Tier: "T4",
			Candidates: 20, Iterations: 5, Elites: 2, Temperature: 32, Horizon: 5, Budget: 50, GoalOffset: 25, Set: "s102", SetHash: "h"},
			Result: Result{Device: "cpu/avx2/fp32", Rows: []Row{{Episode: 0, Trajectory: 3, Start: 7, PlannerSeed: 1}, {Episode: 1, Trajectory: 4, Start: 8, PlannerSeed: 2}}}}
	}
	return make("scale"), make("lewm")
}

// Every difference that is not the model's is refused by name
// (docs/sources.md#pairing): set, seed rule, tier, environment, device kind, data.
func TestUnlike(t *testing.T) {
	if a, b := pairable(); Unlike(a, b) != nil {
		t.Fatalf("a fair pair: %v", Unlike(a, b))
	}
	for want, change := range map[string]func(*Cell){
		"task is ":                            func(c *Cell) { c.Spec.Task = "pusht" },
		"protocol is ":                        func(c *Cell) { c.Spec.Protocol = "strict" },
		"data is dddddddddddd in one":         func(c *Cell) { c.Spec.Data = strings.Repeat("d", 64) },
		"set hash is ":                        func(c *Cell) { c.Spec.SetHash = "x" },
		"device is cpu/avx512/fp32 in one":    func(c *Cell) { c.Result.Device = "cpu/avx512/fp32" },
		"candidates is ":                      func(c *Cell) { c.Spec.Candidates++ },
		"iterations is ":                      func(c *Cell) { c.Spec.Iterations++ },
		"elites is ":                          func(c *Cell) { c.Spec.Elites++ },
		"horizon is ":                         func(c *Cell) { c.Spec.Horizon++ },
		"budget is ":                          func(c *Cell) { c.Spec.Budget++ },
		"goal offset is ":                     func(c *Cell) { c.Spec.GoalOffset++ },
		"temperature is 64 in one":            func(c *Cell) { c.Spec.Temperature = 64 },
		"episode 1: planner seed is 3 in one": func(c *Cell) { c.Result.Rows[1].PlannerSeed = 3 },
		"episode 1: trajectory is ":           func(c *Cell) { c.Result.Rows[1].Trajectory++ },
		"episode 0: start is ":                func(c *Cell) { c.Result.Rows[0].Start++ },
		"episode 0 stands twice":              func(c *Cell) { c.Result.Rows[1].Episode = 0 },
	} {
		a, b := pairable()
		change(&a)
		text := want
		if err := Unlike(a, b); err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("want %q, got %v", want, err)
		}
		a, b = pairable()
		change(&b)
		if Unlike(a, b) == nil {
			t.Errorf("%q: not refused the other way round", want)
		}
	}
}

// What may differ: the model, its seed, MPPI's temperature of another family,
// a planner against random actions, and episodes that only one arm has.
func TestPairable(t *testing.T) {
	for what, change := range map[string]func(*Cell){
		"training seed":  func(c *Cell) { c.Spec.TrainSeed = 9 },
		"another family": func(c *Cell) { c.Spec.Method, c.Spec.Temperature = "dinowm", .5 },
		"fewer episodes": func(c *Cell) { c.Result.Rows = c.Result.Rows[1:] },
		"random actions": func(c *Cell) {
			c.Spec = Spec{Protocol: "paper", Task: "cube", Method: "random", Data: "d", Budget: 50, GoalOffset: 25, Set: "s102", SetHash: "h"}
			c.Result = Result{Rows: slices.Clone(c.Result.Rows)}
			c.Result.Rows[0].PlannerSeed = 0
		},
	} {
		a, b := pairable()
		change(&a)
		if err := Unlike(a, b); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestGivenSkipsWhatAnArmDoesNotSay(t *testing.T) {
	a, b := pairable()
	g := a.Given(a.Result.Rows[0])
	if len(g) != len(Conditions()) {
		t.Fatalf("%d values of %d conditions", len(g), len(Conditions()))
	}
	o := b.Given(b.Result.Rows[1])
	if err := g.Unlike(o); err == nil || !strings.Contains(err.Error(), "planner seed") {
		t.Errorf("rows of different episodes: %v", err)
	}
	for _, name := range []string{"trajectory", "start"} {
		o[slices.Index(Conditions(), name)] = ""
	}
	if err := g.Unplanned().Unlike(o); err != nil {
		t.Errorf("without planning: %v", err)
	}
}
