package plan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"scalewm/model/device"
)

// budget holds the settings that all solvers have: the number of candidates,
// iterations and elites, and the initial standard deviation.
type budget struct {
	solver                         string
	candidates, iterations, elites int
	scale                          float64
	minElites                      int // 2 for solvers that use the elites' deviation, with divisor k-1
}

// or returns v, or def if v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// orDefault returns *p, or def if p is nil.
func orDefault[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// samplingBudget returns the budget of a sampling solver. Options that are zero have
// the published values: 300 candidates, 30 iterations, 30 elites, standard deviation
// 1.
func samplingBudget(solver string, minElites, candidates, iterations, elites int, scale float64) budget {
	return budget{solver: solver, minElites: minElites, candidates: or(candidates, 300), iterations: or(iterations, 30), elites: or(elites, 30), scale: or(scale, 1)}
}

// check returns an error for an invalid budget or problem.
func (b budget) check(p Problem) error {
	switch {
	case b.candidates < 1 || b.iterations < 1 || b.scale < 0:
		return fmt.Errorf("planning with %s: %d candidates, %d iterations, scale %g (hint: all must be positive)", b.solver, b.candidates, b.iterations, b.scale)
	case b.elites < b.minElites || b.elites > b.candidates:
		return fmt.Errorf("planning with %s: %d elites of %d candidates (hint: between %d and the number of candidates)", b.solver, b.elites, b.candidates, b.minElites)
	case p.Episodes < 1 || p.Horizon < 1 || p.Width < 1 || p.Width%p.Horizon != 0:
		return fmt.Errorf("planning with %s: %d episodes, %d numbers in %d blocks (hint: the width is horizon x action width)", b.solver, p.Episodes, p.Width, p.Horizon)
	case len(p.Low) != len(p.High) || len(p.Low) > 0 && p.Width%len(p.Low) != 0:
		return fmt.Errorf("planning with %s: %d lower and %d upper bounds for %d numbers (hint: one of each for every number of an action)", b.solver, len(p.Low), len(p.High), p.Width)
	}
	return nil
}

// search is a plan in progress: the distribution, the candidates drawn from it, their
// costs and the elites. All of it stays on the device until the end.
type search struct {
	d device.Device
	p Problem
	b budget
	// evaluate computes costs from candidates.
	evaluate func() error

	arena      *device.Arena
	mean       device.Mat  // E x W; at the end the plan's actions, and not part of arena
	std        device.Mat  // E x W
	candidates device.Mat  // (E*C) x W
	costs      device.Mat  // E x C
	nans       device.Mat  // E x 1: costs that were not finite, over all iterations
	elites     device.Ints // E x b.elites: indices of candidates, best first
}

// newSearch allocates a search. p and b must have been checked.
func newSearch(d device.Device, p Problem, b budget) *search {
	a := device.NewArena(d)
	s := &search{
		d: d, p: p, b: b, arena: a,
		mean:       device.NewMat(d, p.Episodes, p.Width),
		std:        a.Mat(p.Episodes, p.Width),
		candidates: a.Mat(p.Episodes*b.candidates, p.Width),
		costs:      a.Mat(p.Episodes, b.candidates),
		nans:       a.Zero(p.Episodes, 1),
		elites:     d.AllocInts(p.Episodes * b.elites),
	}
	s.evaluate = func() error { return p.Cost.Costs(s.costs, s.candidates) }
	d.Fill(s.std, b.scale)
	if p.Init.IsSet() {
		d.Copy(s.mean, p.Init)
	}
	return s
}

// rowOf uploads v as a 1 x n matrix of the search.
func (s *search) rowOf(v []float64) device.Mat {
	m := s.arena.Mat(1, len(v))
	s.d.Upload64(m, v)
	return m
}

// free releases everything except the plan's actions.
func (s *search) free() {
	s.arena.Free()
	s.d.Free(s.elites)
}

// run repeats for each iteration: sample the candidates, evaluate and rank them,
// update the distribution. It does not wait for the device.
func (s *search) run(ctx context.Context, sample func(iteration int), update func()) error {
	for it := range s.b.iterations {
		if err := ctx.Err(); err != nil {
			return err
		}
		sample(it)
		if err := s.evaluate(); err != nil {
			return fmt.Errorf("evaluating the candidates of iteration %d: %w", it, err)
		}
		s.rank()
		update()
		// All iterations queue the same kernels, so that a GPU can replay them as a
		// graph.
		s.d.Submit()
		s.trace(it)
	}
	return nil
}

// sampleWhite draws the candidates of an iteration with independent noise. Candidate
// 0 of each episode is the mean itself.
func (s *search) sampleWhite(iteration int) {
	s.p.Noise.Normal(s.candidates, iteration)
	s.d.Candidates(s.candidates, s.mean, s.std, s.candidates)
}

// rank determines the elites. It replaces NaN by +Inf, which ranks last, and counts
// non-finite costs per episode, so that an episode's count does not depend on the
// other episodes of the batch. Of equal costs the lower index is first, on all
// devices.
func (s *search) rank() {
	s.d.NaNToInf(s.costs, s.nans)
	s.d.SmallestK(s.elites, s.costs, s.b.elites)
}

// trace calls Problem.Trace.
func (s *search) trace(iteration int) {
	if s.p.Trace != nil {
		s.p.Trace(Step{Iteration: iteration, Mean: s.mean, Std: s.std, Costs: s.costs, Elites: s.elites})
	}
}

// plan returns the result of a run that ended with err: the mean as the actions, and
// the mean cost of the elites as the reported cost. On an error it frees the mean.
func (s *search) plan(err error) (Plan, error) {
	if err == nil {
		err = s.d.Err()
	}
	if err != nil {
		s.d.Free(s.mean.Buf)
		return Plan{}, err
	}
	p := Plan{Actions: s.mean, Cost: s.eliteCosts(s.b.elites), NaNs: s.nanCounts()}
	for row := range slices.Chunk(values(s.d, s.costs), s.b.candidates) {
		p.Blind = append(p.Blind, !slices.ContainsFunc(row, func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }))
	}
	return p, nil
}

// eliteCosts returns the mean cost of the first n elites of each episode.
func (s *search) eliteCosts(n int) []float64 {
	costs := values(s.d, s.costs)
	idx := make([]int32, s.elites.Len())
	s.d.DownloadInts(idx, s.elites)
	out := make([]float64, s.p.Episodes)
	for e := range out {
		for _, i := range idx[e*s.b.elites:][:n] {
			out[e] += costs[e*s.costs.Cols+int(i)] / float64(n)
		}
	}
	return out
}

// nanCounts downloads nans.
func (s *search) nanCounts() []int {
	out := make([]int, s.p.Episodes)
	for e, n := range values(s.d, s.nans) {
		out[e] = int(n)
	}
	return out
}

// values downloads m as float64.
func values(d device.Device, m device.Mat) []float64 {
	x := make([]float64, m.Len())
	d.Download64(x, m)
	return x
}
