package plan

import (
	"context"
	"fmt"

	"scalewm/model/device"
)

// CEM is the cross-entropy method as the published evaluation runs it
// (eval-spec section 1.2): no momentum, no floor, no clipping, no memory of the
// best sequence. The zero value has the published numbers.
type CEM struct {
	Candidates int     // C, 0: 300
	Iterations int     // 0: 30
	Elites     int     // 0: 30
	VarScale   float64 // the first standard deviation, 0: 1
	// Population divides the elites' deviations by K, as later versions of the
	// original do; else by K-1, as in the release behind the published numbers.
	Population bool
}

// withDefaults fills in the zero fields.
func (c CEM) withDefaults() CEM {
	if c.Candidates == 0 {
		c.Candidates = 300
	}
	if c.Iterations == 0 {
		c.Iterations = 30
	}
	if c.Elites == 0 {
		c.Elites = 30
	}
	if c.VarScale == 0 {
		c.VarScale = 1
	}
	return c
}

// ddof is the number taken from K in the divisor of the elites' deviation.
func (c CEM) ddof() int {
	if c.Population {
		return 0
	}
	return 1
}

// check refuses settings that have no meaning; K = 1 with the unbiased
// deviation would divide by zero.
func (c CEM) check(p Problem) error {
	switch {
	case c.Candidates < 1 || c.Iterations < 1 || c.VarScale < 0:
		return fmt.Errorf("planning with CEM: %d candidates, %d iterations, scale %g (hint: all must be positive)", c.Candidates, c.Iterations, c.VarScale)
	case c.Elites <= c.ddof() || c.Elites > c.Candidates:
		return fmt.Errorf("planning with CEM: %d elites of %d candidates (hint: between %d and the number of candidates)", c.Elites, c.Candidates, c.ddof()+1)
	case p.Episodes < 1 || p.Horizon < 1 || p.Width%p.Horizon != 0:
		return fmt.Errorf("planning with CEM: %d episodes, %d numbers in %d blocks (hint: the width is horizon x action width)", p.Episodes, p.Width, p.Horizon)
	}
	return nil
}

// Solve returns the mean after the last update, a sequence that was never
// judged itself; its reported cost is the mean of the last elites' costs.
func (c CEM) Solve(ctx context.Context, d device.Device, p Problem) (Plan, error) {
	c = c.withDefaults()
	if err := c.check(p); err != nil {
		return Plan{}, err
	}
	s := newSearch(d, p, c.Candidates, c.Elites)
	defer s.free()
	mean := s.firstMean()
	std := s.arena.Mat(p.Episodes, p.Width)
	d.Fill(std, c.VarScale)
	for it := range c.Iterations {
		if err := ctx.Err(); err != nil {
			d.Free(mean.Buf)
			return Plan{}, err
		}
		p.Noise.Normal(s.candidates, it)
		d.Candidates(s.candidates, mean, std, s.candidates)
		if err := s.judge(it); err != nil {
			d.Free(mean.Buf)
			return Plan{}, err
		}
		d.Moments(mean, std, s.candidates, s.elites, c.Elites, c.ddof())
		if p.Trace != nil {
			p.Trace(it, mean, std, s.costs, s.elites)
		}
	}
	return Plan{Actions: mean, Cost: s.eliteCosts(), NaNs: s.nanCounts()}, d.Err()
}
