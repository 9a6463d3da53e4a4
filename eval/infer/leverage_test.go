package infer

import (
	"math"
	"testing"

	"scalewm/eval/results"
)

// Two seeds whose readout carries 0.25 and 0.75 of the cost: 0.5 on average. Components
// that lack an R2, as in a damaged cell, have no numbers.
func TestLeverage(t *testing.T) {
	of := func(seed int, readout float64) results.Analysis {
		return results.Analysis{ID: string(rune('a' + seed)), Spec: results.AnalysisSpec{Analysis: "leverage", Task: "tworoom", Method: lewm, TrainSeed: seed, Weights: string(rune('a' + seed)), Device: "cpu"},
			Results: results.Results{Leverage: &results.Leverage{N: 9, Components: []float64{6, 3, 1}, R2: []results.Number{.5, results.Number(math.NaN())}, Readout: readout}}}
	}
	table := analysed([]results.Analysis{of(1, .25), of(2, .75)})
	table.measure()
	if n := find(t, table, Number{What: Readout, Place: Place{Task: "tworoom"}, Of: arm(lewm)}); *n.Value != .5 || n.N != 2 {
		t.Errorf("%+v", n)
	}
	one := 1
	n := Number{Place: Place{Task: "tworoom"}, Of: arm(lewm), Seed: &one}
	for _, c := range []struct {
		what string
		want float64 // NaN if there is a number without a value
	}{{Leverage(1), 6}, {R2Alone(1), .5}, {Leverage(2), 3}, {R2Alone(2), math.NaN()}} {
		n.What = c.what
		if got := Or(find(t, table, n).Value); got != c.want && !math.IsNaN(got+c.want) {
			t.Errorf("%s is %v, want %v", c.what, got, c.want)
		}
	}
	if n.What = Leverage(3); table.Find(n) != nil {
		t.Error("a component without an R2 has a leverage")
	}
}
