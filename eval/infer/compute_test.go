package infer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// planned returns cells of a plan in which every episode plans with its candidates,
// iterations and five blocks, and executes the given number of blocks (0: all).
func planned(t *testing.T, execute int, plans ...resultstest.Plan) []results.Cell {
	t.Helper()
	return resultstest.Cells(t, plans, func(c *results.Cell) {
		if c.Spec.Solver == "" {
			return
		}
		c.Spec.Replan = execute
		for i := range c.Result.Rows {
			r := &c.Result.Rows[i]
			steps := c.Spec.Executed() * 5
			r.Replans = (r.Steps + steps - 1) / steps
			r.PredictorCalls = r.Replans * c.Spec.Candidates * c.Spec.Iterations * 5
		}
	})
}

// In a set of 10 episodes of which k are solved after 5, 10, ... steps (resultstest), two
// are solved within 12 steps and five within 25. The others spend 50 steps.
func TestCompute(t *testing.T) {
	cells := planned(t, 1, p(lewm, "T4", 8, 6), p(scale, "T4", 8, 6))
	cells = append(cells, planned(t, 0, p(lewm, "T3", 6, 6), p(scale, "T3", 5, 5), p(lewm, "T5", 5, 5), p(scale, "T5", 5, 5), p(random, "", 1, 1))...)
	runs := map[string]results.Run{}
	for _, c := range cells {
		if c.Spec.Tier == "T3" {
			runs[c.ID] = results.Run{Encode: 1, Plan: 2, Render: 7, Simulate: 9}
		}
	}
	table, err := Infer(&results.Contents{Cells: cells, Runs: runs}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed, open := "1 block executed", "all blocks executed"
	for _, c := range []struct {
		what, tier, settings string
		want                 float64
	}{
		// T3 solves episodes after 5, ..., 30 steps: one plan for five of them, two for one
		// and for the four that fail. Both sets are equal: 15 plans of 10 episodes.
		{Decisions, "T3", open, 1.5},
		{Predictions, "T3", open, 50 * 10 * 5},
		{Calls, "T3", open, 50 * 10 * 5},
		{HeadCalls, "T3", open, 0},
		{Backward, "T3", open, 0},
		{SimulatorWork, "T3", open, 0},
		{Frames, "T3", open, 1},
		{PerEnvStep, "T3", open, 2500 / 25.},
		{PerEnvStep, "T4", closed, 500 / 5.},
		{PerEnvStep, "T5", open, 150 / 25.},
		{DecisionMillis, "T3", open, 1000 * 2 * 3 / 30.}, // two sets of 3 s and 15 plans
		{InQuarter, "T3", open, 20},
		{InHalf, "T3", open, 50},
		{MeanSteps, "T3", open, 17.5}, // of 5, 10, ..., 30
		{MedianSteps, "T3", open, 17.5},
		// Closed loop: episodes solved after 5k steps have k plans, and the others 10:
		// (36 + 2*10 + 21 + 4*10) / 20.
		{Decisions, "T4", closed, 5.85},
	} {
		n := table.Find(Number{What: c.what, Place: Place{Task: "tworoom", Solver: results.CEM, Tier: c.tier, Settings: c.settings}, Of: arm(lewm)})
		if n == nil || math.Abs(Or(n.Value)-c.want) > 1e-9 || len(n.From) != 2 {
			t.Errorf("%s at %s: %+v, want %g", c.what, c.tier, n, c.want)
		}
	}
	if n := table.Where(DecisionMillis, func(n *Number) bool { return n.Tier != "T3" }); len(n) > 0 {
		t.Errorf("times that were not measured: %+v", n[0])
	}
	if n := table.Where(Decisions, func(n *Number) bool { return n.Of == arm(random) }); len(n) > 0 {
		t.Errorf("random actions decide: %+v", n[0])
	}
	// T3 with all five blocks executed and T4 with one both make 100 calls a step. LeWM
	// solves 8+6 against 6+6 of 20, SCALE 8+6 against 5+5, SCALE is 2 behind LeWM at T3.
	var got []string
	for _, n := range table.Where(EqualCompute, func(*Number) bool { return true }) {
		got = append(got, fmt.Sprintf("%s-%s %s %+.0f of %d", n.Of, n.Minus, n.Notes, *n.Value, n.N))
		if n.Adjusted == nil || *n.Adjusted < *n.P {
			t.Errorf("%+v is not adjusted", n)
		}
	}
	slow, fast := "T3, 5 of 5 blocks executed", "T4, 1 of 5 blocks executed"
	want := []string{
		fmt.Sprintf("lewm-lewm [%s %s] +10 of 20", fast, slow), fmt.Sprintf("scale-lewm [%s %s] -10 of 20", slow, slow),
		fmt.Sprintf("scale-lewm [%s %s] +0 of 20", fast, fast), fmt.Sprintf("scale-scale [%s %s] +20 of 20", fast, slow)}
	if !slices.Equal(got, want) {
		t.Errorf("%q,\nwant %q", got, want)
	}
	if _, err := table.Select("equal_compute_difference,a=lewm,b=lewm"); err != nil {
		t.Error(err)
	}
}

// Plans with other starts, goals or budgets are never compared, whatever they compute.
func TestEqualComputeNeedsEqualGoals(t *testing.T) {
	cells := planned(t, 0, p(lewm, "T3", 6))
	far := planned(t, 1, p(lewm, "T4", 6))
	for i := range far {
		far[i].Spec.GoalOffset, far[i].Spec.Budget = 50, 100
	}
	table, err := Infer(&results.Contents{Cells: append(cells, far...)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := table.Where(EqualCompute, func(*Number) bool { return true }); len(n) > 0 {
		t.Errorf("%+v", n[0])
	}
}

// A success over training seeds has Student's interval: 50 and 70 % are 60 ± 12.706 x 10.
func TestSuccessOverSeeds(t *testing.T) {
	var cells []results.Cell
	for seed, hits := range []int{5, 7} {
		cells = append(cells, resultstest.Cells(t, []resultstest.Plan{p(lewm, "T3", hits)}, func(c *results.Cell) {
			c.Spec.TrainSeed, c.Spec.Weights = seed, fmt.Sprint("w", seed)
		})...)
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := table.Success(table.Blocks[0], arm(lewm), "T3")
	if *n.Value != 60 || math.Abs(*n.Lo-(60-127.06)) > .01 || test(n).Interval != "student" {
		t.Errorf("%+v", n)
	}
}
