package stats_test

import (
	"math"
	"math/rand/v2"
	. "scalewm/eval/stats"
	"testing"
)

// enumerated computes StepDown by its definition: over all sign vectors instead of
// draws, in floating point.
func enumerated(h []Hypothesis, units int) []float64 {
	t := func(x Hypothesis, flips int) float64 {
		d := make([]float64, len(x.Diff))
		for i, v := range x.Diff {
			d[i] = float64(v)
			if flips>>x.Units[i]&1 == 1 {
				d[i] = -d[i]
			}
		}
		if mean, sd := MeanSD(d); mean != 0 {
			return math.Abs(mean) / (sd / math.Sqrt(float64(len(d))))
		}
		return 0
	}
	observed := make([]float64, len(h))
	for j := range h {
		observed[j] = t(h[j], 0)
	}
	out := make([]float64, len(h))
	for j := range h {
		for k := range h { // of those with a larger statistic p is at least the largest one's
			if observed[k] < observed[j] {
				continue
			}
			hits := 0
			for flips := range 1 << units {
				largest := 0.0
				for i := range h {
					if observed[i] <= observed[k] {
						largest = max(largest, t(h[i], flips))
					}
				}
				if largest >= observed[k]*(1-1e-12) {
					hits++
				}
			}
			out[j] = max(out[j], float64(hits)/float64(int(1)<<units))
		}
	}
	return out
}

func TestStepDownIsTheEnumeratedLaw(t *testing.T) {
	h := []Hypothesis{
		{Units: []int{0, 1, 2, 3, 4, 5, 6, 7}, Diff: []int{1, 2, 1, 0, 3, 1, -1, 2}},
		{Units: []int{0, 1, 2, 3, 4, 5, 6, 7}, Diff: []int{1, 0, -1, 0, 1, 1, -1, 0}},
		{Units: []int{8, 9, 2, 5}, Diff: []int{1, 1, 1, 1}},
		{Units: []int{3, 8}, Diff: []int{0, 0}},
	}
	const draws = 40000
	got := StepDown(h, draws, rand.New(rand.NewPCG(1, 2)))
	for j, want := range enumerated(h, 10) {
		near(t, "adjusted p", got[j], want, 5*math.Sqrt(want*(1-want)/draws)+1.0/draws)
	}
	if got[3] != 1 {
		t.Errorf("a hypothesis without differences has p = %v", got[3])
	}
}

// For a single hypothesis the result is the sign-flip test of the same differences.
// Copies of it cost nothing, while Holm's correction would multiply p.
func TestStepDownKnowsDependence(t *testing.T) {
	var h Hypothesis
	var d []float64
	for i := range 40 {
		v := []int{1, 0, 0, -1, 1}[i%5]
		h.Units, h.Diff, d = append(h.Units, i), append(h.Diff, v), append(d, float64(v))
	}
	const draws = 50000
	want := signFlipSums(d)
	one := StepDown([]Hypothesis{h}, draws, rand.New(rand.NewPCG(3, 4)))
	near(t, "alone", one[0], want, 5*math.Sqrt(want*(1-want)/draws)+1.0/draws)
	for _, p := range StepDown([]Hypothesis{h, h, h}, draws, rand.New(rand.NewPCG(3, 4))) {
		if p != one[0] {
			t.Errorf("three copies: p %v, alone %v", p, one[0])
		}
	}
}

// TestFamilyWiseSize has twelve true hypotheses that share their episodes. At 5 % a
// family may have a rejection in 5 % of the cases; 400 families have a standard error
// of 1.1 %.
func TestFamilyWiseSize(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const families = 400
	rejected := 0
	for range families {
		h := make([]Hypothesis, 12)
		for e := range 100 {
			base := r.IntN(3) - 1 // what all solvers and tiers of an episode have in common
			for j := range h {
				d := base
				if r.IntN(2) == 0 {
					d = r.IntN(3) - 1
				}
				h[j].Units, h[j].Diff = append(h[j].Units, e), append(h[j].Diff, d)
			}
		}
		for _, p := range StepDown(h, 199, r) {
			if p <= 0.05 {
				rejected++
				break
			}
		}
	}
	if share := float64(rejected) / families; share > 0.05+3*0.011 || share < 0.05-3*0.011 {
		t.Errorf("some true hypothesis was rejected in %.3f of the families, want .05", share)
	}
}

// The ratio of the published tables (1.04, docs/sources.md#set-spread) is tested in
// package infer, which has the tables. Here are a sample without excess variance and
// one with.
func TestHomogeneous(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	draw := func(excess float64) Homogeneity {
		var k, n [][]int
		for range 500 {
			var ks, ns []int
			p := 0.2 + 0.6*r.Float64()
			for range 6 {
				q := min(max(p+excess*r.NormFloat64(), 0), 1)
				hits := 0
				for range 100 {
					if r.Float64() < q {
						hits++
					}
				}
				ks, ns = append(ks, hits), append(ns, 100)
			}
			k, n = append(k, ks), append(n, ns)
		}
		return Homogeneous(append(k, []int{100, 100}), append(n, []int{100, 100}))
	}
	same, apart := draw(0), draw(0.08)
	if math.Abs(same.Ratio-1) > 0.1 || same.Cells != 500 { // 2500 degrees of freedom: SE .03
		t.Errorf("sets of one population: %+v", same)
	}
	if apart.Ratio < 2.5 || apart.Above < 300 { // 1 + .08^2 * 100 / (p (1-p)) = 4.2 at the mean p (1-p) of .22, 3.8 of it by chance less
		t.Errorf("sets 8 points apart: %+v", apart)
	}
	if h := Homogeneous([][]int{{3}}, [][]int{{5}}); !math.IsNaN(h.Ratio) || h.Cells != 0 {
		t.Errorf("one set says something: %+v", h)
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		iv   Interval
		want Verdict
	}{
		{Interval{-2, 3}, Equivalent}, {Interval{-2, 7}, NonInferior}, {Interval{-9, -5.5}, Inferior},
		{Interval{-6, 2}, Undecided}, {Interval{-5, 2}, Undecided}, {Interval{-5, 9}, Undecided}, {Interval{6, 9}, NonInferior},
	} {
		if got := c.iv.Within(5); got != c.want {
			t.Errorf("%v within 5: %s, want %s", c.iv, got, c.want)
		}
	}
}

// Computed by hand: of 10 scores 2 are removed at each end (SciPy's trim_mean removes
// int(.25 n)).
func TestRobustMeans(t *testing.T) {
	x := []float64{9, 1, 8, 2, 7, 3, 6, 4, 100, 5}
	near(t, "IQM", IQM(x), (3+4+5+6+7+8)/6.0, 1e-15)
	near(t, "gap", OptimalityGap([]float64{0.5, 1.5, 1}, 1), 0.5/3, 1e-15)
	if !math.IsNaN(IQM(nil)) {
		t.Error("no scores have a mean")
	}
}

// The InnerBootstrap of a mean over 40 cells of 6 sets that all have one law has its
// standard error, sd/sqrt(240) less the (1 - 1/6) of resampling six; sets that do not vary have none.
func TestAggregated(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	mean := func(x []float64) float64 { m, _ := MeanSD(x); return m }
	var cells [][]float64
	for range 40 {
		var sets []float64
		for range 6 {
			sets = append(sets, r.NormFloat64())
		}
		cells = append(cells, sets)
	}
	iv := Aggregated(cells, mean, r).Interval(0.95)
	near(t, "width", iv.Hi-iv.Lo, 2*1.96*math.Sqrt(5.0/6/240), 0.03)
	if iv := Aggregated([][]float64{{3, 3}, {5}}, mean, r).Interval(0.95); iv != (Interval{11.0 / 3, 11.0 / 3}) {
		t.Errorf("without spread: %v", iv)
	}
}
