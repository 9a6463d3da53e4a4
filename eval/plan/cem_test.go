package plan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/eval/plan"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
)

// bowl is a cost with its minimum at target[e], computed on the host in float64. It
// is NaN for candidates whose first number exceeds nanAbove.
type bowl struct {
	d        device.Device
	target   [][]float64
	nanAbove float64
	calls    int
	failAt   int // iteration that fails, counted from 1; 0: none
	// watch, if set, is called with the candidates of an episode and their costs.
	watch func(each int, candidates, costs []float64)
}

var errBowl = errors.New("bowl broke")

func (b *bowl) Costs(dst, candidates device.Mat) error {
	b.calls++
	if b.calls == b.failAt {
		return errBowl
	}
	x, costs := values(b.d, candidates), make([]float64, dst.Len())
	for i := range costs {
		costs[i] = b.cost(i/dst.Cols, x[i*candidates.Cols:(i+1)*candidates.Cols])
	}
	b.d.Upload64(dst, costs)
	if b.watch != nil {
		b.watch(dst.Cols, x, costs)
	}
	return nil
}

// CostGrads implements plan.GradCost.
func (b *bowl) CostGrads(dst, grad, candidates device.Mat) error {
	x := values(b.d, candidates)
	for i, v := range x {
		c := i % candidates.Cols
		d := v - b.target[i/candidates.Cols/dst.Cols][c]
		x[i] = 2*d*float64(1+c%3) + 0.6*math.Sin(2*v)
	}
	b.d.Upload64(grad, x)
	return b.Costs(dst, candidates)
}

// cost is rounded to float32, so that all devices and the reference solver rank
// candidates equally.
func (b *bowl) cost(e int, x []float64) float64 {
	if x[0] > b.nanAbove {
		return math.NaN()
	}
	sum := 0.0
	for i, v := range x {
		d := v - b.target[e][i]
		sum += d*d*float64(1+i%3) + 0.3*(1-math.Cos(2*v))
	}
	return float64(float32(sum))
}

// twin is a reference implementation of CEM for one episode in plain Go, written from
// docs/sources.md#cem. noise[iteration] holds C x W normal numbers.
func twin(c plan.CEM, noise [][]float64, w int, cost func([]float64) float64) (mean, std []float64, reported float64, nans int) {
	mean, std = make([]float64, w), make([]float64, w)
	for i := range std {
		std[i] = c.VarScale
	}
	for _, z := range noise {
		cands, costs, order := make([][]float64, c.Candidates), make([]float64, c.Candidates), make([]int, c.Candidates)
		for k := range cands {
			x := slices.Clone(mean)
			for i := range x {
				if k > 0 {
					x[i] += std[i] * z[k*w+i]
				}
			}
			cands[k], order[k] = x, k
			if costs[k] = cost(x); math.IsNaN(costs[k]) {
				costs[k], nans = math.Inf(1), nans+1
			}
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case costs[a] < costs[b]:
				return -1
			case costs[a] > costs[b]:
				return 1
			}
			return 0
		})
		reported = 0
		mean, std = make([]float64, w), make([]float64, w)
		for _, k := range order[:c.Elites] {
			reported += costs[k] / float64(c.Elites)
			for i, v := range cands[k] {
				mean[i] += v / float64(c.Elites)
			}
		}
		for i := range std {
			for _, k := range order[:c.Elites] {
				std[i] += (cands[k][i] - mean[i]) * (cands[k][i] - mean[i])
			}
			std[i] = math.Sqrt(std[i] / float64(c.Elites-1))
		}
	}
	return mean, std, reported, nans
}

// devices returns all devices of this machine that compute GEMMs in fp32 or better.
func devices(t *testing.T) map[string]device.Device {
	t.Helper()
	c, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return map[string]device.Device{"ref": ref.New(), "cpu": c}
}

const (
	testHorizon = 5
	testWidth   = 20
)

// targets returns a different target for each of n episodes.
func targets(n int) [][]float64 {
	out := make([][]float64, n)
	for e := range out {
		r := rng.Stream("plan test target", e)
		for range testWidth {
			out[e] = append(out[e], 1.5*r.NormFloat64())
		}
	}
	return out
}

func keys(n int) []uint64 {
	out := make([]uint64, n)
	for e := range out {
		out[e] = rng.Key("plan test", e)
	}
	return out
}

// problem returns a batch of all episodes, with keyed noise.
func problem(b *bowl, keys []uint64, replan int) plan.Problem {
	return plan.Problem{
		Episodes: len(keys), Horizon: testHorizon, Width: testWidth, Cost: b,
		Noise: plan.KeyedNoise{Device: b.d, Keys: keys, Replan: replan, Iterations: 30},
	}
}

func solve(t *testing.T, d device.Device, s plan.Solver, p plan.Problem) plan.Plan {
	t.Helper()
	found, err := s.Solve(context.Background(), d, p)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func actions(d device.Device, p plan.Plan) []float64 { return values(d, p.Actions) }

// TestTwin compares CEM on every device with twin, for the same noise and costs,
// within 1e-5 as for recorded plans (docs/sources.md#reference-tolerances).
func TestTwin(t *testing.T) {
	cases := []struct {
		name string
		cem  plan.CEM
		nan  float64
	}{
		{"T3", plan.CEM{Candidates: 50, Iterations: 10, Elites: 5, VarScale: 1}, math.Inf(1)},
		{"T5 with two elites", plan.CEM{Candidates: 10, Iterations: 3, Elites: 2, VarScale: 1}, math.Inf(1)},
		{"wide start", plan.CEM{Candidates: 40, Iterations: 6, Elites: 4, VarScale: 2.5}, math.Inf(1)},
		{"NaN costs", plan.CEM{Candidates: 40, Iterations: 6, Elites: 8, VarScale: 1}, 0.2},
		{"more NaN than not", plan.CEM{Candidates: 12, Iterations: 3, Elites: 10, VarScale: 1}, -0.1},
	}
	const episodes = 3
	for name, d := range devices(t) {
		for _, tc := range cases {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				b := &bowl{d: d, target: targets(episodes), nanAbove: tc.nan}
				got := solve(t, d, tc.cem, problem(b, keys(episodes), 0))
				x := actions(d, got)
				for e, key := range keys(episodes) {
					noise := make([][]float64, tc.cem.Iterations)
					n := tc.cem.Candidates * testWidth
					for it := range noise {
						for i := range n {
							noise[it] = append(noise[it], rng.Normal(key, uint64(it*n+i)))
						}
					}
					mean, _, reported, nans := twin(tc.cem, noise, testWidth, func(c []float64) float64 { return b.cost(e, c) })
					near(t, fmt.Sprintf("episode %d: actions", e), x[e*testWidth:(e+1)*testWidth], mean, 1e-5)
					if got.NaNs[e] != nans {
						t.Errorf("episode %d: %d NaN costs counted, want %d", e, got.NaNs[e], nans)
					}
					if !math.IsInf(reported, 1) && math.Abs(got.Cost[e]-reported) > 1e-4*(1+math.Abs(reported)) {
						t.Errorf("episode %d: reported cost %g, want %g", e, got.Cost[e], reported)
					} else if math.IsInf(reported, 1) != math.IsInf(got.Cost[e], 1) {
						t.Errorf("episode %d: reported cost %g, want %g", e, got.Cost[e], reported)
					}
				}
			})
		}
	}
}

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			t.Errorf("%s: entry %d is %.9g, want %.9g", what, i, got[i], want[i])
			return
		}
	}
}

// TestDefaults checks that the zero value is the published 300/30/30 from N(0, 1).
func TestDefaults(t *testing.T) {
	d := ref.New()
	run := func(c plan.CEM) ([]float64, int) {
		b := &bowl{d: d, target: targets(1), nanAbove: math.Inf(1)}
		p, err := c.Solve(context.Background(), d, plan.Problem{Episodes: 1, Horizon: testHorizon, Width: testWidth, Cost: b,
			Noise: plan.KeyedNoise{Device: d, Keys: keys(1), Iterations: 30}})
		if err != nil {
			t.Fatal(err)
		}
		return actions(d, p), b.calls
	}
	zero, calls := run(plan.CEM{})
	full, _ := run(plan.CEM{Candidates: 300, Iterations: 30, Elites: 30, VarScale: 1})
	if calls != 30 || !slices.Equal(zero, full) {
		t.Errorf("the zero value ran %d iterations and its plan differs from 300/30/30: %v", calls, !slices.Equal(zero, full))
	}
}

// TestNoiseGoesOn checks that the stream of an episode continues through its plans:
// iteration i of plan r begins at number (r*iterations+i)*C*W.
func TestNoiseGoesOn(t *testing.T) {
	d := ref.New()
	const c, w = 4, 3
	m := device.NewMat(d, 2*c, w)
	plan.KeyedNoise{Device: d, Keys: []uint64{7, 9}, Replan: 1, Iterations: 5}.Normal(m, 2)
	got := make([]float64, m.Len())
	d.Download64(got, m)
	for i := range got {
		key, at := uint64(7), uint64(i)
		if i >= c*w {
			key, at = 9, uint64(i-c*w)
		}
		if want := rng.Normal(key, 7*c*w+at); math.Abs(got[i]-want) > 1e-12 {
			t.Fatalf("normal %d is %g, want %g", i, got[i], want)
		}
	}
}

// TestStops checks that a cancelled context ends the plan before the next iteration,
// and that Solve returns the error of a cost.
func TestStops(t *testing.T) {
	d := ref.New()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := &bowl{d: d, target: targets(1), nanAbove: math.Inf(1)}
	p := plan.Problem{Episodes: 1, Horizon: testHorizon, Width: testWidth, Cost: b,
		Noise: plan.KeyedNoise{Device: d, Keys: keys(1), Iterations: 30},
		Trace: func(plan.Step) { cancel() }}
	if _, err := (plan.CEM{}).Solve(ctx, d, p); !errors.Is(err, context.Canceled) || b.calls != 1 {
		t.Errorf("after a cancel in iteration 0: %d iterations, error %v", b.calls, err)
	}
	b.calls, b.failAt, p.Trace = 0, 2, nil
	if _, err := (plan.CEM{}).Solve(context.Background(), d, p); !errors.Is(err, errBowl) {
		t.Errorf("error of the cost became %v", err)
	}
}
