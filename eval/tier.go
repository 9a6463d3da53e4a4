package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

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
	if solver != Descent {
		return t, nil
	}
	n, ok := descent[t.Name]
	if !ok {
		return Tier{}, fmt.Errorf("solver %s has no tier %s (hint: T1 to T5)", solver, t.Name)
	}
	return Tier{Name: t.Name, Candidates: n[0], Iterations: n[1]}, nil
}
