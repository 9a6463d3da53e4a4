package plan

import (
	"context"

	"scalewm/model/device"
)

// CEM is the cross-entropy method as the published evaluation runs it
// (docs/sources.md#cem): no momentum, no floor, no clipping, no memory of the
// best sequence. The zero value has the published numbers.
type CEM struct {
	Candidates int     // C, 0: 300
	Iterations int     // 0: 30
	Elites     int     // 0: 30
	VarScale   float64 // the first standard deviation, 0: 1
}

// Solve returns the mean after the last update, a sequence whose own
// cost was never computed; its reported cost is the mean of the last elites' costs.
func (c CEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	b := sampling("CEM", 2, c.Candidates, c.Iterations, c.Elites, c.VarScale)
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
