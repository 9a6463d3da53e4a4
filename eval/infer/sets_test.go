package infer

import (
	"fmt"
	"math"
	"testing"

	"scalewm/eval/results"
)

// bySet returns values by set, for the sets s101, s102, ...
func bySet(values ...float64) map[string]float64 {
	out := map[string]float64{}
	for i, v := range values {
		out[fmt.Sprintf("s%d", 101+i)] = v
	}
	return out
}

// The exact distribution of six signed ranks is computed by hand: of the 64 sign
// vectors, 1, 2, 3, 5, 7, 10, 14 and 18 have a rank sum of at most 0, 1, 2, 3, 4, 5, 6
// and 7 on the smaller side (subsets of 1..6), and the two-sided p is twice that over
// 64. SciPy's wilcoxon gives the same .03125, .15625, .4375 and .5625. The first three
// are the paper's .031, .156 and .438.
func TestSetsByHand(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		mean float64
		p    float64
	}{
		{[]float64{1, 2, 3, 4, 5, 6}, 3.5, 2.0 / 64},
		{[]float64{-1, -2, 3, 4, 5, 6}, 2.5, 10.0 / 64},     // ranks 1 + 2 = 3
		{[]float64{1, 2, 3, -4, -5, 6}, 0.5, 2 * 27.0 / 64}, // 1 + 2 + 3 + 6 = 12 against 9: 27 subsets of sum 9 at most
		{[]float64{-6, 1, 2, 3, 4, 5}, 1.5, 28.0 / 64},
		{[]float64{1, -2, 3, 4, -5, 6}, 7.0 / 6, 36.0 / 64},
		{[]float64{0, 1, 2, 3, 4, 5}, 2.5, 2.0 / 32},       // a zero is dropped
		{[]float64{1, 1, 1, 1, 1, -1}, 4.0 / 6, 14.0 / 64}, // all ranks 3.5: at most one of six on the smaller side
	} {
		got, ok := TestSets([]map[string]float64{bySet(c.d...)})
		if !ok || got.Cells != 1 || len(got.Sets) != 6 {
			t.Fatalf("%v: %+v", c.d, got)
		}
		near(t, fmt.Sprint(c.d, " mean"), got.Mean, c.mean, 1e-9)
		near(t, fmt.Sprint(c.d, " p"), got.P, c.p, 1e-15)
	}
}

// Cells are averaged by set. A set that some cell lacks is left out, and a single set
// decides nothing.
func TestSetsInCommon(t *testing.T) {
	got, ok := TestSets([]map[string]float64{bySet(1, 2, 3), bySet(3, 0)})
	if !ok || got.Cells != 2 || len(got.Sets) != 2 || got.Points[0] != 2 || got.Points[1] != 1 || got.P != 0.5 {
		t.Errorf("%+v", got)
	}
	if got, ok := TestSets([]map[string]float64{bySet(1, 2, 3), bySet(3)}); ok {
		t.Errorf("one common set gave %+v", got)
	}
	if got, ok := TestSets(nil); ok {
		t.Errorf("no cells gave %+v", got)
	}
}

func cellOf(set string, hits, n int) results.Cell {
	c := results.Cell{Spec: results.Spec{Set: set}}
	for e := range n {
		c.Result.Rows = append(c.Result.Rows, results.Row{Episode: e, Success: e < hits})
	}
	return c
}

// Rates of 70, 80 and 90 % have mean 80 and SD 10, in any order of the cells.
func TestScoreOf(t *testing.T) {
	s := ScoreOf([]results.Cell{cellOf("s103", 9, 10), cellOf("s101", 7, 10), cellOf("s102", 8, 10)})
	if s.N != 30 || s.Hits != 24 || s.BySet[0].Set != "s101" || s.BySet[2].Rate != 90 {
		t.Errorf("%+v", s)
	}
	near(t, "mean", s.Mean, 80, 1e-12)
	near(t, "SD", s.SD, 10, 1e-12)
	if s := ScoreOf([]results.Cell{cellOf("s101", 7, 10)}); !math.IsNaN(s.SD) || s.Mean != 70 {
		t.Errorf("one set: %+v", s)
	}
}
