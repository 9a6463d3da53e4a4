package plan_test

import (
	"math"
	"slices"
	"testing"

	"scalewm/eval/plan"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// judged holds the candidates and costs of one iteration.
type judged struct {
	each              int
	candidates, costs []float64
}

// watched is a bowl for n episodes that records its calls.
func watched(d device.Device, n int) (*bowl, *[]judged) {
	var seen []judged
	b := &bowl{d: d, target: targets(n), nanAbove: math.Inf(1)}
	b.watch = func(each int, candidates, costs []float64) { seen = append(seen, judged{each, candidates, costs}) }
	return b, &seen
}

// row returns candidate c of episode e.
func (j judged) row(e, c int) []float64 {
	return j.candidates[(e*j.each+c)*testWidth : (e*j.each+c+1)*testWidth]
}

// TestFilter checks the factors and moments of docs/sources.md#coloured-noise.
func TestFilter(t *testing.T) {
	taps := plan.Taps(5, 2)
	for k, want := range []float64{5, 5, 2.5} {
		got := 0.0
		for i, v := range taps {
			got += v * math.Cos(2*math.Pi*float64(i*k)/5)
		}
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("bin %d: factor %g, want %g", k, got, want)
		}
	}
	d := ref.New()
	const rows = 20000
	white, z, filter := device.NewMat(d, rows, 5), device.NewMat(d, rows, 5), device.NewMat(d, 1, 5)
	d.Upload64(filter, taps)
	d.Normal(white, keys(1), 0)
	d.Color(z, white, filter)
	var square, lag float64
	for i, x := 0, values(d, z); i < len(x); i += 5 {
		mean, variance := (x[i]+x[i+1]+x[i+2]+x[i+3]+x[i+4])/5, 0.0
		for j := range 5 {
			variance += (x[i+j] - mean) * (x[i+j] - mean) / 4
			square += x[i+j] * x[i+j]
			lag += x[i+j] * x[i+(j+1)%5] * 5 / 4 * min(1, float64(4-j)) // pairs within the series
		}
		if math.Abs(variance-1) > 1e-9 {
			t.Fatalf("series %d has variance %g, want 1", i/5, variance)
		}
	}
	if rms := math.Sqrt(square / 5 / rows); math.Abs(rms-1.246) > 0.01 {
		t.Errorf("RMS %g, want 1.246", rms)
	}
	if r := lag / square; math.Abs(r-0.48) > 0.02 {
		t.Errorf("lag-1 correlation %g, want 0.48", r)
	}
}

// TestOneBlock checks that the noise of a single block, for which stable-worldmodel
// fails, is white.
func TestOneBlock(t *testing.T) {
	d := ref.New()
	b, seen := watched(d, 1)
	p := problem(b, keys(1), 0)
	p.Horizon = 1
	solve(t, d, plan.ICEM{Candidates: 8, Iterations: 1, Elites: 2, VarScale: 0.5}, p)
	noise := device.NewMat(d, 8, testWidth)
	p.Noise.Normal(noise, 0)
	for i, z := range values(d, noise) {
		want := 0.5 * z
		if i < testWidth {
			want = 0 // candidate 0 is the mean
		}
		if got := (*seen)[0].candidates[i]; got != want {
			t.Fatalf("number %d is %g, want %g", i, got, want)
		}
	}
}

// TestClip checks that candidates, including those carried over, are within the
// bounds. The mean need not be.
func TestClip(t *testing.T) {
	d := ref.New()
	low, high := []float64{-0.5, -2}, []float64{0.25, 0.5}
	b, seen := watched(d, 2)
	p := problem(b, keys(2), 0)
	p.Low, p.High = plan.ClipRaw.Bounds(low, high, []float64{3, 4}, []float64{2, 2})
	solve(t, d, plan.ICEM{Candidates: 20, Iterations: 3, Elites: 4}, p)
	touched := 0
	for _, j := range *seen {
		for i, v := range j.candidates {
			if v < low[i%2] || v > high[i%2] {
				t.Fatalf("candidate number %d is %g, outside of its bounds", i, v)
			}
			if v == low[i%2] || v == high[i%2] {
				touched++
			}
		}
	}
	if touched < 100 {
		t.Errorf("only %d of the numbers were clipped", touched)
	}
	lo, hi := plan.ClipEnv.Bounds(low, high, []float64{1, 0}, []float64{0.5, 2})
	if !slices.Equal(lo, []float64{-3, -1}) || !slices.Equal(hi, []float64{-1.5, 0.25}) {
		t.Errorf("the task's bounds as z-scores: %v to %v", lo, hi)
	}
	if lo, hi := plan.ClipNone.Bounds(low, high, nil, nil); lo != nil || hi != nil {
		t.Error("no bounds are bounds")
	}
}

// TestKept checks that the first candidates of an iteration are the mean and the
// elites of the previous one.
func TestKept(t *testing.T) {
	d := ref.New()
	b, seen := watched(d, 2)
	p := problem(b, keys(2), 0)
	var elites []int32
	var means [][]float64
	p.Trace = func(s plan.Step) {
		list := make([]int32, s.Elites.Len())
		d.DownloadInts(list, s.Elites)
		elites, means = append(elites, list...), append(means, values(d, s.Mean))
	}
	solve(t, d, plan.ICEM{Candidates: 20, Iterations: 3, Elites: 4, Keep: new(3)}, p)
	for it := 1; it < 3; it++ {
		now, before := (*seen)[it], (*seen)[it-1]
		for e := range 2 {
			if !slices.Equal(now.row(e, 0), means[it-1][e*testWidth:(e+1)*testWidth]) {
				t.Errorf("iteration %d, episode %d: candidate 0 is not the mean", it, e)
			}
			for i := range 3 {
				if !slices.Equal(now.row(e, 1+i), before.row(e, int(elites[(it-1)*8+e*4+i]))) {
					t.Errorf("iteration %d, episode %d: candidate %d is not elite %d", it, e, 1+i, i)
				}
			}
		}
	}
}

// TestReturn checks that the plan is the best elite of the last iteration with its
// cost, or the mean.
func TestReturn(t *testing.T) {
	d := ref.New()
	b, seen := watched(d, 3)
	found := solve(t, d, plan.ICEM{Candidates: 12, Iterations: 4, Elites: 4, Keep: new(0), Momentum: new(0.95), ReturnElite: true}, problem(b, keys(3), 0))
	for e := range 3 {
		want := slices.Min((*seen)[3].costs[e*12 : (e+1)*12])
		x := actions(d, found)[e*testWidth : (e+1)*testWidth]
		if found.Cost[e] != want || b.cost(e, x) != want {
			t.Errorf("episode %d: reported %g, costs %g, want %g", e, found.Cost[e], b.cost(e, x), want)
		}
	}
	b = &bowl{d: d, target: targets(1), nanAbove: math.Inf(1)}
	frozen := actions(d, solve(t, d, plan.ICEM{Candidates: 12, Iterations: 4, Elites: 4, Momentum: new(1.0)}, problem(b, keys(1), 0)))
	if slices.ContainsFunc(frozen, func(v float64) bool { return v != 0 }) {
		t.Errorf("with momentum 1 the mean moved to %v", frozen)
	}
}
