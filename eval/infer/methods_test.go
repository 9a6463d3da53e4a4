package infer

import (
	"math"
	"slices"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// SCALE is 20 points above LeWM with seed 1 and 10 below with seed 2, at both tiers. The
// mean is 5 and the SD 30/√2; Student's half width is 12.7062 times 30/2, tables of t with
// one degree of freedom. SCALE and Aux, which has one seed, have no such number.
func TestDifferencesOverSeeds(t *testing.T) {
	var cells []results.Cell
	for seed, hits := range map[int]int{1: 7, 2: 4} {
		cells = append(cells, resultstest.Cells(t, []plan{p(lewm, "T1", 5, 5), p(scale, "T1", hits, hits), p(lewm, "T3", 5, 5), p(scale, "T3", hits, hits)}, ofSeed(seed))...)
	}
	cells = append(cells, resultstest.Cells(t, []plan{p(aux, "T1", 5, 5), p(aux, "T3", 5, 5)}, ofSeed(1))...)
	table := ofCells(t, cells)
	for _, tier := range []string{"T1", Mean} {
		n := find(t, table, Number{What: BlockSeedDiff, Place: table.Blocks[0].Place.At(tier), Of: arm(scale), Minus: arm(lewm)})
		if math.Abs(*n.Value-5) > 1e-9 || math.Abs(*n.SD-30/math.Sqrt2) > 1e-9 || math.Abs(*n.Lo-(5-12.7062*15)) > 1e-2 || n.N != 2 || n.Unit != "training seed" {
			t.Errorf("%s: %v ± %v from %v, %d %ss", tier, *n.Value, *n.SD, *n.Lo, n.N, n.Unit)
		}
	}
	if n := table.Find(Number{What: BlockSeedDiff, Place: table.Blocks[0].Place.At(Mean), Of: arm(scale), Minus: arm(aux)}); n != nil {
		t.Errorf("Aux has one seed: %+v", n)
	}
}

// LeWM has an alignment of 0.25 with seed 1 and 0.75 with seed 2: 0.5 ± 0.5/√2. What seed 1
// alone has is its mean. SCALE has one seed, and no number without a seed.
func TestMeansOverSeeds(t *testing.T) {
	all := resultstest.Analyses()
	more := all[slices.IndexFunc(all, func(a results.Analysis) bool { return a.Spec.Method == lewm && len(a.Rank) > 0 })]
	more.Spec.TrainSeed = 2
	more.Rank = []results.Rank{{Spearman: .75}}
	table := analysed(append(all, more))
	table.measure()
	n := find(t, table, Number{What: Spearman, Place: Place{Task: "tworoom"}, Of: arm(lewm)})
	if *n.Value != .5 || math.Abs(*n.SD-.5/math.Sqrt2) > 1e-9 || n.Lo == nil || n.N != 2 || len(n.From) < 2 {
		t.Errorf("%+v", n)
	}
	n = find(t, table, Number{What: RolloutError, Place: Place{Task: "tworoom"}, Of: arm(lewm)})
	if *n.Value != .375 || n.SD != nil || n.Lo != nil || n.N != 1 {
		t.Errorf("%+v", n)
	}
	if n := table.Find(Number{What: Spearman, Place: Place{Task: "tworoom"}, Of: arm(scale)}); n != nil {
		t.Errorf("SCALE has one seed: %+v", n)
	}
}

// The change of an error is in percent, as in the paper: Push-T .0350 to .0277, -21 %. That
// of a τ near 0 is a difference.
func TestChangesAsThePaper(t *testing.T) {
	table := analysed(nil)
	for _, c := range []struct {
		what    string
		x, base float64
		value   float64
		unit    string
	}{{RolloutError, .0277, .035, 100 * (.0277/.035 - 1), "%"}, {Tau, .1675, -.0029, .1704, ""}, {Tau, .785, .731, 100 * (.785/.731 - 1), "%"}} {
		n := Number{Place: Place{Task: c.what, Solver: c.unit}, Of: arm(scale), Minus: arm(lewm)}
		table.change(n, c.what, c.x, c.base, math.NaN())
		n.What = c.what + "_change"
		if n := find(t, table, n); math.Abs(*n.Value-c.value) > 1e-9 || n.Unit != c.unit {
			t.Errorf("%s: %v %s, want %v %s", c.what, *n.Value, n.Unit, c.value, c.unit)
		}
	}
}
