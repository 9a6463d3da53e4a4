package plan

import (
	"context"
	"fmt"

	"scalewm/model/device"
)

// Gradient minimises the cost by gradient descent from several starts at once, with
// AdamW (docs/sources.md#gradient-descent, in the configuration of the authors'
// sweep): weight decay 0.01, betas 0.9 and 0.999, no clipping. The default grid does
// not include it. The zero value is the published configuration. The sweep's numbers
// of starts and steps by tier are 100/90, 75/30, 50/10, 20/5, 10/3.
type Gradient struct {
	Candidates int // C, sequences that descend in parallel; 0 means 100
	Iterations int // steps; 0 means 30
	// VarScale is the standard deviation of the starts about Init; 0 means 1.
	// Candidate 0 starts at Init itself.
	VarScale float64
	Rate     float64 // learning rate; 0 means 0.1
}

// Solve implements Solver. The plan is the sequence with the lowest cost. As in
// release 0.1.1 of stable-worldmodel, the costs that select it are those before the
// last step, while the sequence itself includes that step. The reported cost is the
// one that selected it. Problem.Cost must be a GradCost.
func (g Gradient) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := budget{solver: "gradient descent", candidates: or(g.Candidates, 100), iterations: or(g.Iterations, 30), elites: 1, minElites: 1, scale: or(g.VarScale, 1)}
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
	// run evaluates and ranks the candidates before each update, so that the ranking
	// after the last iteration is that before the last step.
	s.evaluate = func() error { return cost.CostGrads(s.costs, grad, s.candidates) }
	sample := func(iteration int) {
		if iteration == 0 {
			s.sampleWhite(0)
			s.std = device.Mat{} // later iterations sample nothing; Trace reports no deviation
		}
	}
	// MaxNorm is 0: no clipping, so that the norm `none` does not matter. Adam works
	// element by element, so that one call updates all candidates independently.
	step := device.AdamW{LR: rate, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01}
	err := s.run(ctx, sample, func() {
		step.Step++
		d.AdamW(asRow(s.candidates), asRow(grad), asRow(m), asRow(v), none, step)
	})
	if err == nil {
		d.Gather(s.mean, s.candidates, s.elites, 1)
	}
	return s.plan(err)
}

// asRow returns m as a single row, as AdamW expects.
func asRow(m device.Mat) device.Mat { return m.Reshape(1, m.Len()) }
