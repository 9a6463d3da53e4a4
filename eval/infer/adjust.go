package infer

import (
	"scalewm/dataset/rng"
	"scalewm/eval/stats"
)

// labelFlips is the number of draws of the step-down test. It makes the Monte Carlo
// error (one standard deviation) of an adjusted p of 0.05 less than 0.001.
const labelFlips = 100000

// Adjust corrects the p-values of comparisons for multiplicity, in place
// (docs/sources.md#multiplicity). The comparisons of one pair of arms, over tasks and
// solvers, give two families of tests:
//
//   - the means over tiers, which are confirmatory. They are adjusted by Holm's
//     procedure, and by Westfall and Young's, which takes the dependence between
//     solvers into account. Both bound the probability of any false rejection.
//   - the single tiers, which are exploratory. Benjamini and Hochberg's procedure
//     bounds their false discovery rate.
//
// The evaluation set is too coarse a unit here: with six sets no p-value is below .031,
// so none of 15 would remain significant. A block can be in several groups, whose
// comparisons are adjusted one group after the other. A comparison keeps its largest
// adjusted p-value, so the order of the calls does not matter.
func Adjust(all []*Comparison) {
	families := map[[2]string][]*Comparison{}
	for _, c := range all {
		families[[2]string{c.A, c.B}] = append(families[[2]string{c.A, c.B}], c)
	}
	for name, family := range families {
		adjust(family, name)
	}
}

// adjust adjusts the two families of one pair of arms. The names of the arms seed the
// step-down test, so its result does not depend on the other pairs.
func adjust(family []*Comparison, name [2]string) {
	var means, tiers []*Difference
	h := hypotheses{units: map[taskEpisode]int{}}
	for _, c := range family {
		// The only tier of a comparison is its mean, and belongs to the first family.
		if len(c.ByTier) > 1 {
			for i := range c.ByTier {
				tiers = append(tiers, &c.ByTier[i])
			}
		}
		if c.Mean != nil {
			means = append(means, c.Mean)
			h.add(c)
		}
	}
	for i, p := range stats.Holm(pvalues(means)) {
		if old := means[i].HolmP; old == nil || p > *old {
			means[i].HolmP = &p
		}
	}
	for i, p := range stats.StepDown(h.tests, labelFlips, rng.Stream("report step-down", name[0], name[1])) {
		means[i].StepDown = larger(means[i].StepDown, p)
	}
	for i, p := range stats.BenjaminiHochberg(pvalues(tiers)) {
		tiers[i].BH = larger(tiers[i].BH, p)
	}
}

// larger returns the larger of two p-values. The old one is NaN before the first
// adjustment.
func larger(old, p float64) float64 {
	if old > p {
		return old
	}
	return p
}

func pvalues(rows []*Difference) []float64 {
	p := make([]float64, len(rows))
	for i, r := range rows {
		p[i] = r.P
	}
	return p
}

// hypotheses collects the hypotheses of the step-down test, one for each mean of a
// family, and numbers their episodes. Solvers run the same episodes of a task, so an
// episode has one number for all solvers, and its differences are flipped together.
// Episodes of different tasks are independent.
type hypotheses struct {
	units map[taskEpisode]int
	tests []stats.Hypothesis
}

type taskEpisode struct {
	task string
	episode
}

func (h *hypotheses) add(c *Comparison) {
	t := stats.Hypothesis{Diff: c.Mean.diffs}
	for _, e := range c.Mean.episodes {
		key := taskEpisode{c.Task, e}
		if _, ok := h.units[key]; !ok {
			h.units[key] = len(h.units)
		}
		t.Units = append(t.Units, h.units[key])
	}
	h.tests = append(h.tests, t)
}
