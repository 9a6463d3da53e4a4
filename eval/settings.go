// Package eval evaluates world models by planning with them: it draws the
// evaluation sets, runs all episodes of an arm side by side and writes one cell
// for each set and tier. Every arm of a comparison meets the same starts, goals
// and planner noise.
//
// It knows tasks only through envs.Env, models only through model.World and
// solvers only through eval/plan; it neither trains nor reports.
package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/plan"
	"scalewm/eval/results"
)

// Block is the number of env steps of a block, the frame skip of training.
const Block = 5

// noiseKey is the stream of an episode's planner noise, the same for every arm. Noise
// other than 0 is another draw of it, by which one sees how much of a result it is.
func noiseKey(r results.Rules, set string, seed uint32) uint64 {
	if r.PlannerNoise != 0 {
		return rng.Key("planner noise", r.PlannerNoise, set, int(seed))
	}
	if r.Protocol == results.Strict {
		return rng.Key("planner", set, int(seed))
	}
	return rng.Key("planner", int(seed))
}

// Tier is an amount of planning: what a solver may spend on one plan.
type Tier struct {
	Name                           string
	Candidates, Iterations, Elites int
}

func newTier(name string, candidates, iterations int) Tier {
	elites := max(int(math.RoundToEven(0.1*float64(candidates))), 2)
	return Tier{Name: name, Candidates: candidates, Iterations: iterations, Elites: elites}
}

// Tiers are the five tiers of the published numbers. T2 is what the authors'
// code ran; the paper prints 100/20, which is T2p (docs/sources.md#tiers).
func Tiers() []Tier {
	return []Tier{newTier("T1", 300, 30), newTier("T2", 150, 15), newTier("T3", 50, 10), newTier("T4", 20, 5), newTier("T5", 10, 3)}
}

// ParseTiers reads a comma-separated list of tiers; "all" is T1 to T5. A name
// that comes twice counts once.
func ParseTiers(s string) ([]Tier, error) {
	if s == "all" {
		return Tiers(), nil
	}
	known := append(Tiers(), newTier("T2p", 100, 20))
	var out []Tier
next:
	for name := range strings.SplitSeq(s, ",") {
		for _, t := range known {
			if t.Name == strings.TrimSpace(name) {
				if !slices.Contains(out, t) {
					out = append(out, t)
				}
				continue next
			}
		}
		return nil, fmt.Errorf("unknown tier %q (hint: T1, T2, T2p, T3, T4, T5 or all)", name)
	}
	return out, nil
}

// descent is the ladder of gradient descent, restarts x steps: the authors ran
// it beside the paper's solvers (docs/sources.md#tiers).
var descent = map[string][2]int{"T1": {100, 90}, "T2": {75, 30}, "T3": {50, 10}, "T4": {20, 5}, "T5": {10, 3}}

// For is the tier as a solver runs it: gradient descent has restarts and steps
// of its own and no elites.
func (t Tier) For(solver string) (Tier, error) {
	if solver != results.Descent {
		return t, nil
	}
	n, ok := descent[t.Name]
	if !ok {
		return Tier{}, fmt.Errorf("solver %s has no tier %s (hint: T1 to T5)", solver, t.Name)
	}
	return Tier{Name: t.Name, Candidates: n[0], Iterations: n[1]}, nil
}

// Solvers are the names of the planners, those of the default grid first.
func Solvers() []string { return []string{results.CEM, results.ICEM, results.MPPI, results.Descent} }

// ParseSolvers reads a comma-separated list of planners; "all" is the paper's three.
func ParseSolvers(s string) ([]string, error) {
	if s == "all" {
		return []string{results.CEM, results.ICEM, results.MPPI}, nil
	}
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(Solvers(), name) {
			return nil, fmt.Errorf("unknown solver %q (hint: one of %s, or all for the first three)", name, strings.Join(Solvers(), ", "))
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// newSolver makes the job's planner at the job's tier.
func (j Job) newSolver() (plan.Solver, error) {
	t := j.Tier
	switch j.Solver {
	case results.CEM:
		return plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}, nil
	case results.ICEM:
		return plan.ICEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}, nil
	case results.MPPI:
		return plan.MPPI{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites, Temperature: j.Temperature}, nil
	case results.Descent:
		return plan.Gradient{Candidates: t.Candidates, Iterations: t.Iterations}, nil
	}
	_, err := ParseSolvers(j.Solver)
	return nil, err
}
