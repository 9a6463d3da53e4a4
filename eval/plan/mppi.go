package plan

import (
	"context"
	"fmt"

	"scalewm/model/device"
)

// MPPI is the original's iterated path integral (docs/sources.md#mppi): the
// standard deviation stays what it was, the elites' mean is weighted by
// exp(-(cost - lowest)/Temperature). Nothing is clipped. The zero value has the
// published numbers.
//
// Costs are not normalised, so a temperature means something for one scale of
// costs only.
type MPPI struct {
	Candidates  int     // C, 0: 300
	Iterations  int     // 0: 30
	Elites      int     // the candidates that are weighted, 0: 30; C or more: all
	VarScale    float64 // the standard deviation, 0: 1
	Temperature float64 // 0: 0.5
}

// Solve returns the mean after the last update; its reported cost is the plain
// mean of the last weighted candidates' costs.
func (m MPPI) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := sampling("MPPI", 1, m.Candidates, m.Iterations, m.Elites, m.VarScale)
	b.elites = min(b.elites, b.candidates)
	temperature := or(m.Temperature, 0.5)
	if temperature < 0 {
		return Plan{}, fmt.Errorf("planning with MPPI: temperature %g (hint: it must be positive)", temperature)
	}
	if err := b.check(p); err != nil {
		return Plan{}, err
	}
	s := newSearch(d, p, b)
	defer s.free()
	weights := s.arena.Mat(p.Episodes, b.elites)
	err := s.run(ctx, s.sampleWhite, func() {
		d.Softmin(weights, s.costs, s.elites, temperature)
		d.WeightedMean(s.mean, s.candidates, weights, s.elites)
	})
	return s.plan(err)
}
