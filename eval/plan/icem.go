package plan

import (
	"context"
	"fmt"
	"math"

	"scalewm/model/device"
)

// Return says which sequence ICEM returns.
type Return int

const (
	ReturnMean  Return = iota // the last mean, as the published evaluation does
	ReturnElite               // the best candidate of the last iteration
	ReturnBest                // the best candidate of all iterations, as the first iCEM does
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
	Return    Return
	// Population divides the elites' deviations by K, else by K-1 (CEM.Population).
	Population bool

	// What the first iCEM (Pinneri et al. 2020) has and the published evaluation
	// lacks; off in the zero value.

	// Decay shrinks the population: iteration i has max(2K, C/Decay^i) candidates.
	// The first iCEM has 1.25; 0: no decay.
	Decay float64
	// ShiftElites starts from Problem.Carried and returns Plan.Elites.
	ShiftElites bool
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
	case c.Decay != 0 && !(c.Decay >= 1):
		return fmt.Errorf("planning with iCEM: decay %g (hint: 1.25, or 0 for none)", c.Decay)
	case c.ShiftElites && (p.Carried.Rows%p.Episodes != 0 || p.Carried.Rows/p.Episodes >= b.candidates || p.Carried.Cols > p.Width):
		return fmt.Errorf("planning with iCEM: %s carried sequences for %d episodes of %d candidates x %d (hint: give Plan.Elites of the last plan)", p.Carried, p.Episodes, b.candidates, p.Width)
	}
	return nil
}

// Solve returns what Return says; its reported cost is the mean of the last
// elites' costs, or the cost of the candidate that is returned.
func (c ICEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := sampling("iCEM", c.Candidates, c.Iterations, c.Elites, c.VarScale)
	b.ddof = ddof(c.Population)
	if err := c.check(p, b); err != nil {
		return Plan{}, err
	}
	x := newICEM(c, newSearch(d, p, b))
	defer x.free()
	return x.finish(x.run(ctx, x.sample, x.update))
}

// icem is a search with what iCEM adds to it.
type icem struct {
	*search
	c                 ICEM
	momentum          float64
	keep              int
	all, allCosts     device.Mat // candidates and costs of a whole population
	white, taps       device.Mat // (E*C) x W; 1 x H
	low, high         device.Mat // 1 x W
	kept              device.Mat // (E*keep) x W
	nextMean, nextStd device.Mat // E x W: the elites' moments
	best, lowest      device.Mat // E x W, E x 1: ReturnBest
}

func newICEM(c ICEM, s *search) *icem {
	x := &icem{search: s, c: c, momentum: at(c.Momentum, 0.1), all: s.candidates, allCosts: s.costs}
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
	if c.Return == ReturnBest {
		x.best, x.lowest = a.Mat(e, w), a.Mat(e, 1)
		s.d.Copy(x.best, s.mean)
		s.d.Fill(x.lowest, math.Inf(1))
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

// population is the number of candidates of an iteration.
func (x *icem) population(iteration int) int {
	c := x.b.candidates
	if x.c.Decay == 0 {
		return c
	}
	return min(c, max(2*x.b.elites, int(float64(c)/math.Pow(x.c.Decay, float64(iteration)))))
}

// sample draws the candidates, puts the mean and the sequences that are kept
// first, and clips all of them.
func (x *icem) sample(iteration int) {
	e, n := x.p.Episodes, x.population(iteration)
	x.candidates = x.all.RowRange(0, e*n)
	x.costs = x.allCosts.Reshape(1, x.allCosts.Len()).Columns(0, e*n).Reshape(e, n)
	noise := x.noise(iteration)
	x.d.Candidates(x.candidates, x.mean, x.std, noise)
	if iteration > 0 {
		x.insert(x.kept)
	} else if x.c.ShiftElites {
		x.insert(x.p.Carried)
	}
	if x.low.Given() {
		x.d.Clip(x.candidates, x.low, x.high)
	}
}

// noise is coloured noise for the present candidates, in their memory. A whole
// population's worth is drawn in any case, so that a stream's numbers keep their places.
func (x *icem) noise(iteration int) device.Mat {
	x.p.Noise.Normal(x.white, iteration)
	white := x.white
	if n := x.costs.Cols; n < x.b.candidates {
		x.d.CopyBlocks(x.candidates, n, x.white, x.b.candidates, n, false)
		white = x.white.RowRange(0, x.candidates.Rows)
		x.d.Copy(white, x.candidates)
	}
	if !x.taps.Given() {
		return white
	}
	x.d.Color(x.candidates, white, x.taps)
	return x.candidates
}

// insert puts each episode's sequences behind its candidate 0; shorter ones
// replace the first blocks only.
func (x *icem) insert(seqs device.Mat) {
	if !seqs.Given() {
		return
	}
	n, per := x.costs.Cols, seqs.Rows/x.p.Episodes
	dst := x.candidates.RowRange(1, x.candidates.Rows-1).Columns(0, seqs.Cols)
	x.d.CopyBlocks(dst, n, seqs, per, per, false)
}

// update keeps the best and moves mean and deviation towards the elites'. The
// kept sequences are the clipped ones; the mean never is.
func (x *icem) update() {
	k := x.b.elites
	x.d.Moments(x.nextMean, x.nextStd, x.candidates, x.elites, k, x.b.ddof)
	x.d.Lerp(x.mean, x.nextMean, x.momentum)
	x.d.Lerp(x.std, x.nextStd, x.momentum)
	if x.kept.Given() {
		x.d.Gather(x.kept, x.candidates, x.elites, k)
	}
	if x.best.Given() {
		x.d.KeepBest(x.best, x.lowest, x.candidates, x.costs, x.elites, k)
	}
}

// finish is the plan that Return names.
func (x *icem) finish(err error) (Plan, error) {
	switch {
	case err != nil:
	case x.c.Return == ReturnElite:
		x.d.Gather(x.mean, x.candidates, x.elites, x.b.elites)
	case x.c.Return == ReturnBest:
		x.d.Copy(x.mean, x.best)
	}
	p, err := x.plan(err)
	if err != nil {
		return p, err
	}
	switch x.c.Return {
	case ReturnElite:
		p.Cost = x.eliteCosts(1)
	case ReturnBest:
		p.Cost = values(x.d, x.lowest)
	}
	if x.c.ShiftElites && x.kept.Given() {
		p.Elites = device.NewMat(x.d, x.kept.Rows, x.kept.Cols)
		x.d.Copy(p.Elites, x.kept)
	}
	return p, nil
}
