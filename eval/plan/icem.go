package plan

import (
	"context"
	"fmt"
	"math"

	"scalewm/model/device"
)

// ICEM is iCEM as in the published evaluation (docs/sources.md#icem): CEM with
// coloured noise, clipped candidates, elites that are carried over to the next
// iteration, and momentum for mean and deviation. The zero value has the published
// numbers.
type ICEM struct {
	Candidates int     // C; 0 means 300
	Iterations int     // 0 means 30
	Elites     int     // 0 means 30
	VarScale   float64 // initial standard deviation; 0 means 1
	// NoiseBeta is the exponent of the noise's power spectrum along the blocks; nil
	// means 2. White noise with 0 is not the noise of CEM, since every series is
	// divided by its own deviation.
	NoiseBeta *float64
	// Momentum is the weight of the previous mean and deviation ("alpha"); nil means 0.1.
	Momentum *float64
	// Keep is the number of elites that are candidates of the next iteration too; nil
	// means 5.
	Keep *int
	// ReturnElite makes the plan the best candidate of the last iteration instead of
	// the last mean, as stable-worldmodel does with return_mean=False.
	ReturnElite bool
}

// check returns an error for invalid settings.
func (c ICEM) check(p Problem, b budget) error {
	if err := b.check(p); err != nil {
		return err
	}
	beta, momentum, keep := orDefault(c.NoiseBeta, 2), orDefault(c.Momentum, 0.1), orDefault(c.Keep, 5)
	switch {
	case math.IsNaN(beta) || math.IsInf(beta, 0) || !(momentum >= 0 && momentum <= 1) || keep < 0:
		return fmt.Errorf("planning with iCEM: noise beta %g, momentum %g, %d kept (hint: finite, in [0, 1], not negative)", beta, momentum, keep)
	}
	return nil
}

// Solve implements Solver. The plan is the last mean, and the reported cost the mean
// cost of the last elites. With ReturnElite they are the best candidate of the last
// iteration and its cost.
func (c ICEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := samplingBudget("iCEM", 2, c.Candidates, c.Iterations, c.Elites, c.VarScale)
	if err := c.check(p, b); err != nil {
		return Plan{}, err
	}
	x := newICEM(c, newSearch(d, p, b))
	defer x.free()
	err := x.run(ctx, x.sample, x.update)
	// plan returns x.mean, so the best elite replaces it.
	if err == nil && c.ReturnElite {
		d.Gather(x.mean, x.candidates, x.elites, b.elites)
	}
	found, err := x.plan(err)
	if err == nil && c.ReturnElite {
		found.Cost = x.eliteCosts(1)
	}
	return found, err
}

// icem is a search with the additions of iCEM.
type icem struct {
	*search
	momentum          float64
	keep              int
	white, taps       device.Mat // white noise, (E*C) x W, and the filter, 1 x H
	low, high         device.Mat // bounds, 1 x W each, or the zero Mat
	kept              device.Mat // elites carried over, (E*keep) x W
	nextMean, nextStd device.Mat // moments of the elites, E x W each
}

// newICEM adds iCEM's matrices to a search. At least one candidate besides the mean
// must remain for sampling, so that keep is at most C-1.
func newICEM(c ICEM, s *search) *icem {
	x := &icem{search: s, momentum: orDefault(c.Momentum, 0.1)}
	x.keep = min(orDefault(c.Keep, 5), s.b.elites, s.b.candidates-1)
	a, e, w := s.arena, s.p.Episodes, s.p.Width
	x.white, x.nextMean, x.nextStd = a.Mat(s.candidates.Rows, w), a.Mat(e, w), a.Mat(e, w)
	// The deviation of a series of one number is not defined: stable-worldmodel
	// returns an error for a single block. Here its noise is white.
	if s.p.Horizon > 1 {
		x.taps = s.rowOf(Taps(s.p.Horizon, orDefault(c.NoiseBeta, 2)))
	}
	if s.p.Low != nil {
		x.low, x.high = s.rowOf(repeat(s.p.Low, w)), s.rowOf(repeat(s.p.High, w))
	}
	if x.keep > 0 {
		x.kept = a.Mat(e*x.keep, w)
	}
	return x
}

// repeat repeats x up to n numbers.
func repeat(x []float64, n int) []float64 {
	out := make([]float64, 0, n)
	for len(out) < n {
		out = append(out, x...)
	}
	return out
}

// Taps returns the circular filter of h numbers that gives white noise the amplitude
// spectrum f^(-beta/2), where the factor of frequency 0 is that of the lowest
// positive frequency. stable-worldmodel multiplies in the frequency domain
// (docs/sources.md#coloured-noise); a convolution with the inverse transform of the
// factors is the same and needs no complex numbers.
func Taps(h int, beta float64) []float64 {
	taps := make([]float64, h)
	for i := range taps {
		for k := range h {
			// Index k and h-k have the same frequency.
			f := float64(max(min(k, h-k), 1)) / float64(h)
			taps[i] += math.Pow(f, -beta/2) * math.Cos(2*math.Pi*float64(k*i%h)/float64(h)) / float64(h)
		}
	}
	return taps
}

// sample draws the candidates of an iteration. Candidate 0 is the mean, candidates 1
// to keep are the elites carried over, the others are new samples. All of them are
// clipped.
func (x *icem) sample(iteration int) {
	x.p.Noise.Normal(x.white, iteration)
	noise := x.white
	if x.taps.IsSet() {
		x.d.Color(x.candidates, x.white, x.taps)
		noise = x.candidates
	}
	x.d.Candidates(x.candidates, x.mean, x.std, noise)
	if iteration > 0 && x.keep > 0 { // rows 1 to keep of each episode
		x.d.CopyBlocks(x.candidates.RowRange(1, x.candidates.Rows-1), x.b.candidates, x.kept, x.keep, x.keep, false)
	}
	if x.low.IsSet() {
		x.d.Clip(x.candidates, x.low, x.high)
	}
}

// update moves mean and deviation towards those of the elites and stores the elites
// to carry over. Candidates have been clipped, but the mean is not clipped itself.
func (x *icem) update() {
	k := x.b.elites
	x.d.Moments(x.nextMean, x.nextStd, x.candidates, x.elites, k)
	x.d.Lerp(x.mean, x.nextMean, x.momentum)
	x.d.Lerp(x.std, x.nextStd, x.momentum)
	if x.keep > 0 {
		x.d.Gather(x.kept, x.candidates, x.elites, k)
	}
}
