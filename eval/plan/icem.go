package plan

import (
	"context"
	"fmt"
	"math"

	"scalewm/model/device"
)

// ICEM is iCEM as the published evaluation runs it (docs/sources.md#icem): CEM
// with coloured noise, clipping, elites kept from iteration to iteration and a
// mean and deviation with momentum. The zero value has the published numbers.
type ICEM struct {
	Candidates int     // C, 0: 300
	Iterations int     // 0: 30
	Elites     int     // 0: 30
	VarScale   float64 // the first standard deviation, 0: 1
	// NoiseBeta is the exponent of the noise's spectrum along the blocks, nil: 2.
	// 0 is not CEM's noise: every series is still divided by its own deviation.
	NoiseBeta *float64
	Momentum  *float64 // share of the old mean and deviation ("alpha"), nil: 0.1
	Keep      *int     // elites that stand beside the next iteration's samples, nil: 5
	// ReturnElite returns the best candidate of the last iteration instead of the
	// last mean, as the original does with return_mean=False.
	ReturnElite bool
}

// check refuses settings that have no meaning.
func (c ICEM) check(p Problem, b budget) error {
	if err := b.check(p); err != nil {
		return err
	}
	beta, momentum, keep := at(c.NoiseBeta, 2), at(c.Momentum, 0.1), at(c.Keep, 5)
	switch {
	case math.IsNaN(beta) || math.IsInf(beta, 0) || !(momentum >= 0 && momentum <= 1) || keep < 0:
		return fmt.Errorf("planning with iCEM: noise beta %g, momentum %g, %d kept (hint: finite, in [0, 1], not negative)", beta, momentum, keep)
	}
	return nil
}

// Solve returns the last mean, whose reported cost is the mean of the last
// elites' costs, or with ReturnElite the best elite and its cost.
func (c ICEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := sampling("iCEM", 2, c.Candidates, c.Iterations, c.Elites, c.VarScale)
	if err := c.check(p, b); err != nil {
		return Plan{}, err
	}
	x := newICEM(c, newSearch(d, p, b))
	defer x.free()
	err := x.run(ctx, x.sample, x.update)
	if err == nil && c.ReturnElite {
		d.Gather(x.mean, x.candidates, x.elites, b.elites)
	}
	found, err := x.plan(err)
	if err == nil && c.ReturnElite {
		found.Cost = x.eliteCosts(1)
	}
	return found, err
}

// icem is a search with what iCEM adds to it.
type icem struct {
	*search
	momentum          float64
	keep              int
	white, taps       device.Mat // (E*C) x W; 1 x H
	low, high         device.Mat // 1 x W
	kept              device.Mat // (E*keep) x W
	nextMean, nextStd device.Mat // E x W: the elites' moments
}

func newICEM(c ICEM, s *search) *icem {
	x := &icem{search: s, momentum: at(c.Momentum, 0.1)}
	x.keep = min(at(c.Keep, 5), s.b.elites, s.b.candidates-1)
	a, e, w := s.arena, s.p.Episodes, s.p.Width
	x.white, x.nextMean, x.nextStd = a.Mat(s.candidates.Rows, w), a.Mat(e, w), a.Mat(e, w)
	if s.p.Horizon > 1 { // the original's noise of a single block is undefined; ours is white
		x.taps = s.rowOf(Taps(s.p.Horizon, at(c.NoiseBeta, 2)))
	}
	if s.p.Low != nil {
		x.low, x.high = s.rowOf(tiled(s.p.Low, w)), s.rowOf(tiled(s.p.High, w))
	}
	if x.keep > 0 {
		x.kept = a.Mat(e*x.keep, w)
	}
	return x
}

func tiled(x []float64, n int) []float64 {
	out := make([]float64, 0, n)
	for len(out) < n {
		out = append(out, x...)
	}
	return out
}

// Taps are the circular filter of H numbers that gives white noise a spectrum
// of f^(-beta/2), frequency 0 treated as the lowest one above it: what the
// original does by way of a Fourier transform (docs/sources.md#coloured-noise).
func Taps(h int, beta float64) []float64 {
	taps := make([]float64, h)
	for i := range taps {
		for k := range h {
			f := float64(max(min(k, h-k), 1)) / float64(h)
			taps[i] += math.Pow(f, -beta/2) * math.Cos(2*math.Pi*float64(k*i%h)/float64(h)) / float64(h)
		}
	}
	return taps
}

// sample draws the candidates, puts the mean and the kept elites first, and
// clips all of them.
func (x *icem) sample(iteration int) {
	x.p.Noise.Normal(x.white, iteration)
	noise := x.white
	if x.taps.Given() {
		x.d.Color(x.candidates, x.white, x.taps)
		noise = x.candidates
	}
	x.d.Candidates(x.candidates, x.mean, x.std, noise)
	if iteration > 0 && x.keep > 0 { // behind each episode's candidate 0
		x.d.CopyBlocks(x.candidates.RowRange(1, x.candidates.Rows-1), x.b.candidates, x.kept, x.keep, x.keep, false)
	}
	if x.low.Given() {
		x.d.Clip(x.candidates, x.low, x.high)
	}
}

// update moves mean and deviation towards the elites'. The kept sequences are
// the clipped ones; the mean never is.
func (x *icem) update() {
	k := x.b.elites
	x.d.Moments(x.nextMean, x.nextStd, x.candidates, x.elites, k)
	x.d.Lerp(x.mean, x.nextMean, x.momentum)
	x.d.Lerp(x.std, x.nextStd, x.momentum)
	if x.keep > 0 {
		x.d.Gather(x.kept, x.candidates, x.elites, k)
	}
}
