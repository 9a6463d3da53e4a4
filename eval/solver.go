package eval

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/eval/plan"
)

// Names of the planners.
const (
	CEM     = "cem"
	ICEM    = "icem"
	MPPI    = "mppi"
	Descent = "gd" // outside the default grid
)

// Solvers are the names of the planners, those of the default grid first.
func Solvers() []string { return []string{CEM, ICEM, MPPI, Descent} }

// ParseSolvers reads a comma-separated list of planners; "all" is the paper's three.
func ParseSolvers(s string) ([]string, error) {
	if s == "all" {
		return []string{CEM, ICEM, MPPI}, nil
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

// ParseClip reads the bounds that iCEM clips to: raw (the task's own, applied to
// z-scored actions as in the original), env (the task's as z-scores) or none.
func ParseClip(s string) (plan.Clip, error) {
	switch s {
	case rawClip:
		return plan.ClipRaw, nil
	case string(plan.ClipEnv), string(plan.ClipNone):
		return plan.Clip(s), nil
	}
	return "", fmt.Errorf("unknown bounds %q (hint: raw, env or none)", s)
}

// rawClip is plan.ClipRaw by name.
const rawClip = "raw"

// clipName is what a cell's spec says of the bounds.
func clipName(c plan.Clip) string {
	if c == plan.ClipRaw {
		return rawClip
	}
	return string(c)
}

// newSolver makes the job's planner at the job's tier.
func (j Job) newSolver() (plan.Solver, error) {
	t := j.Tier
	switch j.Solver {
	case CEM:
		return plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}, nil
	case ICEM:
		return plan.ICEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}, nil
	case MPPI:
		return plan.MPPI{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites, Temperature: j.Temperature}, nil
	case Descent:
		return plan.Gradient{Candidates: t.Candidates, Iterations: t.Iterations}, nil
	}
	_, err := ParseSolvers(j.Solver)
	return nil, err
}
