package plan

import (
	"context"
	"fmt"

	"scalewm/model/device"
)

// Gradient descends the cost itself from several starts at once with AdamW
// (docs/sources.md#gradient-descent, the configuration of the authors' sweep): weight decay
// 0.01, betas 0.9 and 0.999, nothing clipped. It is outside the default grid.
// The zero value is the shipped configuration; the sweep's ladder of starts and
// steps is 100/90, 75/30, 50/10, 20/5, 10/3.
type Gradient struct {
	Candidates int     // sequences that descend side by side, 0: 100
	Iterations int     // steps, 0: 30
	VarScale   float64 // deviation of their starts about Init; the first starts there. 0: 1
	Rate       float64 // learning rate, 0: 0.1
}

// Solve returns the sequence of lowest cost. As in release 0.1.1 the costs that
// choose it are those before the last step, which it has taken; its reported
// cost is that one. Problem.Cost must be a GradCost.
func (g Gradient) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := budget{solver: "gradient descent", candidates: or(g.Candidates, 100), iterations: or(g.Iterations, 30), elites: 1, fewest: 1, scale: or(g.VarScale, 1)}
	rate := or(g.Rate, 0.1)
	if err := b.check(p); err != nil {
		return Plan{}, err
	}
	cost, ok := p.Cost.(GradCost)
	if !ok || rate < 0 {
		return Plan{}, fmt.Errorf("planning with %s: rate %g, a cost with gradients: %v (hint: a positive rate, and a model that has gradients)", b.solver, rate, ok)
	}
	s := newSearch(d, p, b)
	defer s.free()
	a, rows := s.arena, s.candidates.Rows
	grad, m, v, none := a.Mat(rows, p.Width), a.Zero(rows, p.Width), a.Zero(rows, p.Width), a.Zero(1, 1)
	s.evaluate = func() error { return cost.CostGrads(s.costs, grad, s.candidates) }
	sample := func(iteration int) {
		if iteration == 0 {
			s.sampleWhite(0)
			s.std = device.Mat{} // nothing is sampled from here on
		}
	}
	step := device.AdamW{LR: rate, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01}
	err := s.run(ctx, sample, func() {
		step.Step++
		d.AdamW(flat(s.candidates), flat(grad), flat(m), flat(v), none, step)
	})
	if err == nil {
		d.Gather(s.mean, s.candidates, s.elites, 1)
	}
	return s.plan(err)
}

func flat(m device.Mat) device.Mat { return m.Reshape(1, m.Len()) }
