// Package eval judges world models by planning with them: it draws the
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
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/plan"
)

// The published evaluation (eval-spec sections 2 and 3): a plan of Horizon
// blocks of Block env steps is executed whole, at most twice in an episode.
const (
	Horizon    = 5  // blocks of a plan, all executed before the next plan
	Block      = 5  // env steps of a block, the frame skip of training
	Budget     = 50 // env steps of an episode
	GoalOffset = 25 // rows from start to goal
)

// schema is the version of record.Spec that this package writes.
const schema = 1

// Protocol is one of two ways to evaluate, whose results are never mixed.
type Protocol string

const (
	// Paper repeats the published evaluation: starts from the whole file, the
	// last valid row never drawn, noise shared by all sets.
	Paper Protocol = "paper"
	// Strict draws from held-out episodes, leaves out starts that already meet
	// the goal, and gives every set its own noise.
	Strict Protocol = "strict"
)

// ParseProtocol reads a protocol's name.
func ParseProtocol(s string) (Protocol, error) {
	switch p := Protocol(s); p {
	case Paper, Strict:
		return p, nil
	}
	return "", fmt.Errorf("unknown protocol %q (hint: paper or strict)", s)
}

// noiseKey is the stream of an episode's planner noise, the same for every arm.
func (p Protocol) noiseKey(set string, seed uint32) uint64 {
	if p == Strict {
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
// code ran; the paper prints 100/20, which is T2p (eval-spec section 1.6).
func Tiers() []Tier {
	return []Tier{newTier("T1", 300, 30), newTier("T2", 150, 15), newTier("T3", 50, 10), newTier("T4", 20, 5), newTier("T5", 10, 3)}
}

// ParseTiers reads a comma-separated list of tiers; "all" is T1 to T5.
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
				out = append(out, t)
				continue next
			}
		}
		return nil, fmt.Errorf("unknown tier %q (hint: T1, T2, T2p, T3, T4, T5 or all)", name)
	}
	return out, nil
}

// Solvers are the names of the planners.
func Solvers() []string { return []string{"cem"} }

// ParseSolvers reads a comma-separated list of planners.
func ParseSolvers(s string) ([]string, error) {
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		if _, err := newSolver(name, Tier{}); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

// newSolver makes the named solver at a tier.
func newSolver(name string, t Tier) (plan.Solver, error) {
	switch name {
	case "cem":
		return plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}, nil
	}
	return nil, fmt.Errorf("unknown solver %q (hint: one of %s)", name, strings.Join(Solvers(), ", "))
}
