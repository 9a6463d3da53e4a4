package plan

import (
	"context"

	"scalewm/model/device"
)

// CEM is the cross-entropy method as in the published evaluation
// (docs/sources.md#cem). Each iteration samples candidates from a normal distribution
// and sets its mean and standard deviation to those of the elites. There is no
// momentum, no lower bound on the deviation, no clipping, and the best sequence so
// far is not retained. The zero value has the published numbers.
type CEM struct {
	Candidates int     // C; 0 means 300
	Iterations int     // 0 means 30
	Elites     int     // 0 means 30
	VarScale   float64 // initial standard deviation; 0 means 1
}

// Solve implements Solver. The plan is the mean after the last update, whose own cost
// is never computed. The reported cost is the mean cost of the last elites.
func (c CEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := samplingBudget("CEM", 2, c.Candidates, c.Iterations, c.Elites, c.VarScale)
	if err := b.check(p); err != nil {
		return Plan{}, err
	}
	s := newSearch(d, p, b)
	defer s.free()
	err := s.run(ctx, s.sampleWhite, func() {
		d.Moments(s.mean, s.std, s.candidates, s.elites, b.elites)
	})
	return s.plan(err)
}
