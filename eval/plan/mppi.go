package plan

import (
	"context"
	"fmt"

	"scalewm/model/device"
)

// MPPI is model predictive path integral control, iterated, as in stable-worldmodel
// (docs/sources.md#mppi). The standard deviation is constant. Each iteration sets the
// mean to the average of the elites, weighted by exp(-(cost - lowest)/Temperature).
// Nothing is clipped. The zero value has the published numbers.
//
// Costs are not normalised, so a temperature suits only costs of one scale.
// Subtracting the lowest cost keeps the exponentials in (0, 1] and does not change
// the normalised weights.
type MPPI struct {
	Candidates  int     // C; 0 means 300
	Iterations  int     // 0 means 30
	Elites      int     // candidates with a weight; 0 means 30, C or more means all
	VarScale    float64 // standard deviation; 0 means 1
	Temperature float64 // 0 means 0.5
}

// Solve implements Solver. The plan is the mean after the last update. The reported
// cost is the unweighted mean cost of the last elites.
func (m MPPI) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := samplingBudget("MPPI", 1, m.Candidates, m.Iterations, m.Elites, m.VarScale)
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
