package plan

import "fmt"

// budget is what all solvers are given: how much to sample, how often, and how
// many of the best to learn from.
type budget struct {
	solver                         string
	candidates, iterations, elites int
	scale                          float64
	ddof                           int // taken from the elites in the divisor of their deviation
}

// or is v, or def where v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// at is what p points to, or def where p is nil.
func at[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// sampling is the budget of the published sampling solvers: 300 candidates, 30
// iterations, 30 elites, first deviation 1 where the option is zero.
func sampling(solver string, candidates, iterations, elites int, scale float64) budget {
	return budget{solver: solver, candidates: or(candidates, 300), iterations: or(iterations, 30), elites: or(elites, 30), scale: or(scale, 1)}
}

// check refuses settings that have no meaning; K = 1 with the unbiased
// deviation would divide by zero.
func (b budget) check(p Problem) error {
	switch {
	case b.candidates < 1 || b.iterations < 1 || b.scale < 0:
		return fmt.Errorf("planning with %s: %d candidates, %d iterations, scale %g (hint: all must be positive)", b.solver, b.candidates, b.iterations, b.scale)
	case b.elites <= b.ddof || b.elites > b.candidates:
		return fmt.Errorf("planning with %s: %d elites of %d candidates (hint: between %d and the number of candidates)", b.solver, b.elites, b.candidates, b.ddof+1)
	case p.Episodes < 1 || p.Horizon < 1 || p.Width < 1 || p.Width%p.Horizon != 0:
		return fmt.Errorf("planning with %s: %d episodes, %d numbers in %d blocks (hint: the width is horizon x action width)", b.solver, p.Episodes, p.Width, p.Horizon)
	case len(p.Low) != len(p.High) || len(p.Low) > 0 && p.Width%len(p.Low) != 0:
		return fmt.Errorf("planning with %s: %d lower and %d upper bounds for %d numbers (hint: one of each for every number of an action)", b.solver, len(p.Low), len(p.High), p.Width)
	}
	return nil
}
