package infer

import (
	"math"
	"slices"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// LeWM solves 4 and 6 of 10 episodes at temperature 8, so 50 % of 10 episodes: Wilson's
// interval is 23.7 to 76.3 (Brown, Cai and DasGupta 2001, formula 4). Temperature 32 has
// 70 %, and the results were planned with it. Temperature 64 lacks a tier. A smaller
// tuning with other weights does not count.
func TestTuning(t *testing.T) {
	tuned := func(temperature float64, weights string, plans ...plan) []results.Cell {
		return resultstest.Cells(t, plans, func(c *results.Cell) {
			c.Spec.Solver, c.Spec.Temperature, c.Spec.Weights = results.MPPI, temperature, weights
		})
	}
	cells := tuned(32, "w", p(lewm, "T1", 5, 5), p(scale, "T1", 5, 5))
	c := &results.Contents{Cells: cells, Tuning: slices.Concat(tuned(32, "w", p(lewm, "T1", 7), p(lewm, "T3", 7)), tuned(8, "w", p(lewm, "T1", 4), p(lewm, "T3", 6)),
		tuned(64, "w", p(lewm, "T1", 10)), tuned(2, "v", p(lewm, "T1", 10), p(lewm, "T3", 10)))}
	table, err := Infer(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := ours(table, TuningSuccess)
	if len(all) != 2 {
		t.Fatalf("%d temperatures, want 8 and 32", len(all))
	}
	first, second := all[0], all[1]
	if *first.Value != 50 || math.Abs(*first.Lo-23.7) > 0.1 || math.Abs(*first.Hi-76.3) > 0.1 || first.N != 10 || len(first.From) != 2 || *first.How.(*Tuning) != (Tuning{8, false}) {
		t.Errorf("at 8: %+v, %v (%v to %v)", first, *first.Value, *first.Lo, *first.Hi)
	}
	if math.Abs(*second.Value-70) > 1e-9 || *second.How.(*Tuning) != (Tuning{32, true}) {
		t.Errorf("at 32: %+v, %v", second, *second.Value)
	}
}
