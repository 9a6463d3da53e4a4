package infer

import (
	"math"
	"testing"
)

var above = Range{0, math.Inf(1)}

// An interval above 0 supports a claim of "up", one that includes 0 decides nothing,
// and one below contradicts it unless the number of intervals explains it. The normal
// quantiles of .975 and 1 - .025/15 are 1.960 and 2.935, so among 15 intervals (-1.9,
// -0.1) around -1 is widened to +0.35.
func TestStand(t *testing.T) {
	for _, c := range []struct {
		e     Estimate
		r     Range
		among int
		want  Verdict
	}{
		{Estimate{1, .1, 1.9}, above, 15, Holds},
		{Estimate{1, -.1, 2.1}, above, 1, Undecided},
		{Estimate{-1, -1.9, -.1}, above, 1, Fails},
		{Estimate{-1, -1.9, -.1}, above, 15, Undecided},
		{Estimate{-1, -1.5, -.5}, above, 15, Fails},
		{Estimate{1, math.NaN(), math.NaN()}, above, 1, Undecided},
		{Estimate{1, -2, 4}, Range{-5, 5}, 1, Holds},
		{Estimate{4, 2, 6}, Range{-5, 5}, 1, Undecided},
		{Estimate{9, 7, 11}, Range{-5, 5}, 1, Fails},
	} {
		if got := c.e.Stand(c.r, c.among); got != c.want {
			t.Errorf("%v in %v among %d: %s, want %s", c.e, c.r, c.among, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	h, f, u := Holds, Fails, Undecided
	for _, c := range []struct {
		need   Need
		stands []Verdict
		want   Verdict
	}{
		{All, []Verdict{h, h, h}, h}, {All, []Verdict{h, u, h}, u}, {All, []Verdict{h, u, f}, f}, {All, nil, u},
		{Most, []Verdict{h, h, h, u, f}, h}, {Most, []Verdict{h, h, u, u, f}, u}, {Most, []Verdict{h, u, f, f, f}, f}, {Most, []Verdict{h, f}, f},
		{NotAll, []Verdict{h, u, f}, h}, {NotAll, []Verdict{h, h}, f}, {NotAll, []Verdict{h, u}, u},
	} {
		if got := c.need.Decide(c.stands); got != c.want {
			t.Errorf("%q of %v: %s, want %s", c.need, c.stands, got, c.want)
		}
	}
}

// The .975 quantile of Student's t with 2 degrees of freedom is 4.302653 (from tables).
// The SD of 1, 2, 3 is 1.
func TestMeanOf(t *testing.T) {
	e := MeanOf([]float64{1, 2, 3})
	if half := 4.302653 / math.Sqrt(3); e.Value != 2 || math.Abs(e.Hi-2-half) > 1e-6 || math.Abs(2-e.Lo-half) > 1e-6 {
		t.Errorf("%+v", e)
	}
	if e := MeanOf([]float64{7}); e.Value != 7 || !math.IsNaN(e.Lo) {
		t.Errorf("one unit: %+v", e)
	}
	if d := (Estimate{5, 2, 9}).Minus(Estimate{1, -2, 5}); d != (Estimate{4, 4 - 5, 4 + 5}) { // 3-4-5 triangles
		t.Errorf("%+v", d)
	}
}
