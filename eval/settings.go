// Package eval evaluates world models by planning with them.
//
// An evaluation takes a task, a data set of it (Data), an arm (Arm: whose model or random
// actions act), a solver with a Tier, and evaluation sets (Set: lists of starts and goals
// drawn from the data set). Together they form a Job. Run returns the outcome of every
// episode of a Job; Evaluation.Run evaluates only the sets whose cells are missing from a
// store, and saves one cell per set. Further entry points are Verify, which evaluates
// existing cells again, Tune, which chooses MPPI's temperature, Watch, which films an
// episode, and Unroller, which compares predictions with the simulator.
//
// Comparisons of arms are paired, so the package makes sure that all arms face the same
// problem. Starts and goals depend on the data set and the set's seed only. The noise of
// an episode's planner depends on its index in the set and the tier only, and in no case
// on the model. Batch size, number of workers and resuming do not change a result on one
// kind of device.
//
// The package uses tasks through envs.Env, models through model.World or the interfaces
// CostModel and Policy, and solvers through package eval/plan. It neither trains nor
// reports.
package eval

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/plan"
	"scalewm/eval/results"
)

// noiseKey returns the key of an episode's stream of planner noise. It is the same
// for every arm, so that two arms differ in their models and not in their luck. With
// the published NoiseByIndex, episodes of equal index share a stream across sets
// (docs/sources.md#planner-seeds); NoiseBySet gives each set its own. A PlannerNoise
// other than 0 selects another draw, to measure how much of a result is due to the
// noise.
func noiseKey(r results.Rules, set string, seed uint32) uint64 {
	if r.PlannerNoise != 0 {
		return rng.Key("planner noise", r.PlannerNoise, set, int(seed))
	}
	if r.Full().NoiseKey == results.NoiseBySet {
		return rng.Key("planner", set, int(seed))
	}
	return rng.Key("planner", int(seed))
}

// Tier is a planning budget: what a solver may spend on one plan. For gradient
// descent Candidates is the number of restarts and Iterations that of steps, and
// Elites is 0.
type Tier struct {
	Name                           string
	Candidates, Iterations, Elites int
}

// newTier returns a tier with the usual number of elites.
func newTier(name string, candidates, iterations int) Tier {
	return Tier{Name: name, Candidates: candidates, Iterations: iterations, Elites: results.Elites(candidates)}
}

// Tiers returns the five tiers of the published numbers.
func Tiers() []Tier { return known()[:5] }

// known returns the tiers that have a name of their own.
func known() (out []Tier) {
	for _, t := range results.NamedTiers {
		out = append(out, newTier(t.Name, t.Candidates, t.Iterations))
	}
	return out
}

// ParseTiers parses a comma-separated list of tiers. "all" means T1 to T5. Repeated
// names count once. A tier may also be given by its numbers,
// candidates/iterations/elites, and has the name of the known tier with these numbers or
// one such as c50-i10-e5.
func ParseTiers(s string) ([]Tier, error) {
	if s == "all" {
		return Tiers(), nil
	}
	var out []Tier
	for name := range strings.SplitSeq(s, ",") {
		t, err := parseTier(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// parseTier parses one tier, by its name or its numbers.
func parseTier(text string) (Tier, error) {
	if i := slices.IndexFunc(known(), func(t Tier) bool { return t.Name == text }); i >= 0 {
		return known()[i], nil
	}
	numbers := strings.Split(text, "/")
	if strings.HasPrefix(text, "c") { // the name of a tier with other numbers
		numbers = strings.Split(strings.NewReplacer("c", "", "-i", "/", "-e", "/").Replace(text), "/")
	}
	var n [3]int
	for i, digits := range numbers {
		v, err := strconv.Atoi(digits)
		if err != nil || len(numbers) != 3 || v < 1 || v > maxTier {
			return Tier{}, fmt.Errorf("unknown tier %q (hint: T1, T2, T2p, T3, T4, T5, all, or candidates/iterations/elites such as 50/10/5)", text)
		}
		n[i] = v
	}
	t := Tier{results.TierName(n[0], n[1], n[2]), n[0], n[1], n[2]}
	if t.Elites < 2 || t.Elites > t.Candidates {
		return t, fmt.Errorf("tier %q has %d elites of %d candidates (hint: from 2, whose deviation is needed, to all of them)", text, t.Elites, t.Candidates)
	}
	return t, nil
}

// maxTier limits each number of a tier.
const maxTier = 1 << 20

// descent holds the tiers of gradient descent as {restarts, steps}. The authors ran
// it in addition to the paper's solvers (docs/sources.md#tiers).
var descent = map[string][2]int{"T1": {100, 90}, "T2": {75, 30}, "T3": {50, 10}, "T4": {20, 5}, "T5": {10, 3}}

// For returns the tier as a solver runs it: gradient descent has its own numbers of
// restarts and steps and no elites, all others use t.
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

// Solvers returns the names of the solvers, those of the default grid first.
func Solvers() []string { return []string{results.CEM, results.ICEM, results.MPPI, results.Descent} }

// ParseSolvers parses a comma-separated list of solvers. "all" means the paper's
// three.
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

// newSolver returns the job's solver at the job's tier.
func (j Job) newSolver() (plan.Solver, error) {
	t, std := j.Tier, math.Sqrt(j.Variance)
	switch j.Solver {
	case results.CEM:
		return plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites, VarScale: std}, nil
	case results.ICEM:
		return plan.ICEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites, VarScale: std}, nil
	case results.MPPI:
		return plan.MPPI{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites, Temperature: j.Temperature, VarScale: std}, nil
	case results.Descent:
		return plan.Gradient{Candidates: t.Candidates, Iterations: t.Iterations, VarScale: std}, nil
	}
	_, err := ParseSolvers(j.Solver)
	return nil, err
}
