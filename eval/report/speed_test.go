package report

import (
	"strings"
	"testing"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// scheduled returns an edit that gives cells a number of executed blocks (0: all), and their
// rows the plans and calls of 5 blocks each. Without a solver an arm is a policy that
// answers once a step, unless it is the random one.
func scheduled(execute int, edit func(*results.Spec)) func(*results.Cell) {
	return func(c *results.Cell) {
		edit(&c.Spec)
		if c.Spec.Method == random {
			return
		}
		if c.Spec.Method == "mine" {
			c.Spec.Python, c.Spec.Act, c.Spec.Tier, c.Spec.Solver = results.PythonPolicy, results.EachStep, "", ""
			c.Spec.Candidates, c.Spec.Iterations, c.Spec.Elites = 0, 0, 0
		}
		c.Spec.Replan = execute
		for i := range c.Result.Rows {
			r := &c.Result.Rows[i]
			if c.Spec.Solver == "" {
				r.Replans, r.PredictorCalls = r.Steps, r.Steps
				continue
			}
			steps := 5 * c.Spec.Executed()
			r.Replans = (r.Steps + steps - 1) / steps
			r.PredictorCalls = r.Replans * c.Spec.Candidates * c.Spec.Iterations * 5
		}
	}
}

// loops returns cells in open and in closed loop, with a policy.
func loops(t *testing.T) (cells []results.Cell) {
	t.Helper()
	open := []plan{p(lewm, "T1", 8, 8), p(lewm, "T3", 6, 6), p(lewm, "T5", 4, 3), p(scale, "T1", 9, 9), p(scale, "T3", 7, 7), p(scale, "T5", 5, 3), p("mine", "T1", 5, 4), p(random, "", 1, 2)}
	closed := []plan{p(lewm, "T3", 8, 7), p(lewm, "T4", 7, 7), p(scale, "T3", 9, 8), p(scale, "T4", 8, 8)}
	return append(resultstest.Cells(t, open, scheduled(0, same)), resultstest.Cells(t, closed, scheduled(1, same))...)
}

// The section on compute has a row for each plan, and one for arms with equal counts. The
// numbers are those of TestCompute in package infer.
func TestSpeed(t *testing.T) {
	r := ofCells(t, loops(t))
	if f := r.callsFigure("tworoom"); len(f.Panels) != 1 || strings.Count(string(f.Panels[0]), `class="mark `) != 6+4+1 || len(f.Legend) != 4+2 {
		t.Errorf("%d panels, legend %+v", len(f.Panels), f.Legend)
	}
	has(t, markdown(r.countsTable("tworoom")),
		"| Two-Room, CEM, 1 block executed | T3 | LeWM, SCALE | 1 | 2,500 | 0 | 0 | 0 | 500 |",
		"| Two-Room, CEM, all blocks executed | T3 | LeWM, SCALE | 1 | 2,500 | 0 | 0 | 0 | 100 |",
		"|  | mine@policy | 1 | 0 | 1 | 0 | 0 | – |")
	has(t, markdown(r.equalTable("tworoom")),
		"| CEM | 100 | LeWM T4, 1 of 5 blocks executed | LeWM T3, 5 of 5 blocks executed | 20 | +10.0 |",
		"| CEM | 100 | SCALE T4, 1 of 5 blocks executed | LeWM T4, 1 of 5 blocks executed | 20 | +10.0 |")
	has(t, markdown(r.speedTable("tworoom")), "| Two-Room, CEM, all blocks executed | T3 | LeWM | 20.0 | 50.0 | 60.0 | 17.5 | 17.5 | 1.50 | – |", "| mine@policy | 20.0 | 45.0 | 45.0 |")
}

// A folder whose decisions all cost the same has no figure of calls and no table of equal
// compute.
func TestSpeedOfEquals(t *testing.T) {
	r := ofCells(t, resultstest.Cells(t, []plan{p(lewm, "T3", 6, 6), p(scale, "T3", 7, 7)}, scheduled(0, same)))
	if parts := doc.Filled(r.callsFigure("tworoom"), r.equalTable("tworoom")); len(parts) > 0 {
		t.Errorf("%+v", parts)
	}
}
