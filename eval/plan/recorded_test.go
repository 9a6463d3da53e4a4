package plan_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/eval/plan"
	"scalewm/model/device"
)

// array is a recorded array and its shape.
type array struct {
	v     []float64
	shape []int
}

// at indexes the array, broadcast to more axes by NumPy's rules.
func (a array) at(index ...int) float64 {
	i := 0
	for axis, n := range a.shape {
		k := index[len(index)-len(a.shape)+axis]
		if n == 1 {
			k = 0
		}
		i = i*n + k
	}
	return a.v[i]
}

func read(t *testing.T, f *hdf5test.Tree, name string) array {
	t.Helper()
	v, shape, err := f.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return array{v, shape}
}

// run is a recorded configuration and its cost function.
type run struct {
	f          *hdf5test.Tree
	kind       string
	solver     plan.Solver
	ours       bool    // from this repository's cases, which have no ties
	elite      bool    // returns the best elite instead of the mean
	blur       float64 // error of the mean per unit of cost: effect of float32 costs on MPPI's weights
	e, h, d    int
	iterations int
	low, high  []float64
	w, freq    array
	amp        float64
}

func readRun(t *testing.T, f *hdf5test.Tree, name, kind string, ours bool) run {
	number := func(object, attr string, def float64) float64 {
		v, _, err := f.Attr(object, attr)
		if err != nil {
			if math.IsNaN(def) {
				t.Fatal(err)
			}
			return def
		}
		return v
	}
	need := math.NaN()
	count := func(attr string) int { return int(number(name, attr, need)) }
	scale := number(name, "var_scale", 1)
	samples, iterations, elites := count("samples"), count("iterations"), int(number(name, "elites", 0))
	r := run{f: f, kind: kind, ours: ours, e: count("environments"), h: count("horizon"), d: count("action_dim") * count("action_block"),
		iterations: iterations, w: read(t, f, name+"/cost/w"), freq: read(t, f, name+"/cost/freq"), amp: number(name+"/cost", "amp", need)}
	switch kind {
	case "cem":
		r.solver = plan.CEM{Candidates: samples, Iterations: iterations, Elites: elites, VarScale: scale}
	case "icem":
		c := plan.ICEM{Candidates: samples, Iterations: iterations, Elites: elites, VarScale: scale, NoiseBeta: new(number(name, "noise_beta", 2)),
			Momentum: new(number(name, "alpha", 0.1)), Keep: new(int(number(name, "n_elite_keep", 5)))}
		c.ReturnElite = number(name, "return_mean", 1) == 0
		r.elite = c.ReturnElite
		r.solver, r.low, r.high = c, read(t, f, name+"/action_low").v, read(t, f, name+"/action_high").v
	case "mppi":
		if elites < 1 {
			elites = samples // topk = null
		}
		m := plan.MPPI{Candidates: samples, Iterations: iterations, Elites: elites, VarScale: scale, Temperature: number(name, "temperature", 0.5)}
		if r.solver = m; !ours { // relative change of a weight by two roundings, of the candidates and of their cost
			r.blur = 0x1p-22 / m.Temperature * scale
		}
	case "gd":
		r.solver = plan.Gradient{Candidates: samples, Iterations: iterations, VarScale: scale, Rate: number(name, "lr", 0.1)}
	}
	return r
}

// recorded is the cost function and the noise of one plan.
type recorded struct {
	run
	dev           device.Device
	target, phase array
	noise         array
}

// Costs implements plan.Cost. It takes candidates as float32, computes in float64 and
// rounds the result to float32.
func (r *recorded) Costs(dst, candidates device.Mat) error {
	return r.CostGrads(dst, device.Mat{}, candidates)
}

// CostGrads implements plan.GradCost.
func (r *recorded) CostGrads(dst, grad, candidates device.Mat) error {
	x, out, grads := values(r.dev, candidates), make([]float64, dst.Len()), make([]float64, candidates.Len())
	for i := range out {
		from, to := i*candidates.Cols, (i+1)*candidates.Cols
		out[i] = r.cost(i/dst.Cols, x[from:to], grads[from:to])
	}
	r.dev.Upload64(dst, out)
	if grad.IsSet() {
		r.dev.Upload64(grad, grads)
	}
	return nil
}

func (r *recorded) cost(e int, x, grad []float64) float64 {
	sum := 0.0
	for h := range r.h {
		line := 0.0
		for d := range r.d {
			c, w, freq := float64(float32(x[h*r.d+d])), r.w.at(e, h, d), r.freq.at(e, h, d)
			diff, angle := c-r.target.at(e, h, d), freq*c+r.phase.at(e, h)
			sum += w*diff*diff + r.amp*(1-math.Cos(angle))
			grad[h*r.d+d] = 2*w*diff + r.amp*freq*math.Sin(angle)
			line += c
		}
		sum += 0.1 * line * line
		for d := range r.d {
			grad[h*r.d+d] += 0.2 * line
		}
	}
	return float64(float32(sum))
}

// Normal implements plan.Noise. iCEM's noise is recorded with the blocks last.
func (r *recorded) Normal(dst device.Mat, iteration int) {
	z := r.noise.v[iteration*dst.Len() : (iteration+1)*dst.Len()]
	if r.kind == "icem" {
		turned := make([]float64, len(z))
		for i, v := range z {
			row, d, h := i/dst.Cols, i%dst.Cols/r.h, i%r.h
			turned[row*dst.Cols+h*r.d+d] = v
		}
		z = turned
	}
	r.dev.Upload64(dst, z)
}

// check repeats one plan. It compares elites, mean and deviation after each
// iteration, and the final actions within 1e-5
// (docs/sources.md#reference-tolerances).
func (r run) check(t *testing.T, d device.Device, name string) {
	rec := &recorded{run: r, dev: d, target: read(t, r.f, name+"/target"), phase: read(t, r.f, name+"/phase"), noise: read(t, r.f, name+"/noise")}
	width := r.h * r.d
	p := plan.Problem{Episodes: r.e, Horizon: r.h, Width: width, Cost: rec, Noise: rec, Low: r.low, High: r.high}
	if r.f.Has(name + "/init_action") {
		p.Init = device.NewMat(d, r.e, width)
		init := read(t, r.f, name+"/init_action")
		for e, per := 0, len(init.v)/r.e; e < r.e; e++ { // a shorter initial sequence is padded with zeros
			d.Upload64(p.Init.RowRange(e, 1).Columns(0, per), init.v[e*per:(e+1)*per])
		}
	}
	p.Trace = func(s plan.Step) { r.checkStep(t, d, name, s) }
	follow := &follower{Device: d, t: t}
	if r.f.Has(name + "/elite_index") {
		follow.recorded = read(t, r.f, name+"/elite_index").v
	}
	found, err := r.solver.Solve(context.Background(), follow, p)
	if err != nil {
		t.Fatal(err)
	}
	if r.ours && follow.other > 0 {
		t.Errorf("%d rankings differ from the recorded ones", follow.other)
	} else if follow.other > 0 {
		t.Logf("%d rankings have the original's order of costs that agree in float32", follow.other)
	}
	near(t, "final actions", values(d, found.Actions), read(t, r.f, name+"/final_actions").v, 1e-5+r.blur*slices.Max(found.Cost))
	reported := read(t, r.f, name+"/reported_cost").v
	if r.elite { // 0.1.1 still reports the elites' mean; later releases report the returned candidate's cost, as Solve does
		costs := read(t, r.f, name+"/elite_cost")
		last, k := costs.v[(r.iterations-1)*len(costs.v)/r.iterations:], costs.shape[2]
		for e := range reported {
			reported[e] = last[e*k]
		}
	}
	for e := range reported {
		near(t, "reported cost", found.Cost[e:e+1], reported[e:e+1], 1e-5*(10+math.Abs(reported[e])))
	}
}

// checkStep compares an iteration with the arrays that were recorded for it.
func (r run) checkStep(t *testing.T, d device.Device, name string, s plan.Step) {
	part := func(what string) []float64 {
		if !r.f.Has(name + "/" + what) {
			return nil
		}
		a := read(t, r.f, name+"/"+what)
		n := len(a.v) / r.iterations
		return a.v[s.Iteration*n : (s.Iteration+1)*n]
	}
	where := fmt.Sprintf("iteration %d: ", s.Iteration)
	if r.kind == "gd" {
		for i, want := range part("costs") {
			near(t, where+"costs", values(d, s.Costs)[i:i+1], []float64{want}, 1e-5*(10+want))
		}
		return
	}
	near(t, where+"mean", values(d, s.Mean), part("mean"), 1e-5+r.blur*slices.Max(values(d, s.Costs)))
	near(t, where+"std", values(d, s.Std), part("std"), 1e-5)
}

func values(d device.Device, m device.Mat) []float64 {
	x := make([]float64, m.Len())
	d.Download64(x, m)
	return x
}
