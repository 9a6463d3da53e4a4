package infer

import (
	"scalewm/dataset/rng"
	"scalewm/eval/stats"
)

// labelFlips is the number of draws of the step-down test.
const labelFlips = 100000

// Adjust corrects the p-values of comparisons over tasks and solvers for the number of tests
// (docs/sources.md#multiplicity). Every pair of arms has two families: the means over tiers, which
// confirm, are corrected by Holm and by Westfall and Young; single tiers, which explore, by
// Benjamini and Hochberg. A comparison that was corrected before, in another family, keeps the
// larger p-value.
func Adjust(all []*Comparison) {
	families := map[[2]string][]*Comparison{}
	for _, c := range all {
		families[[2]string{c.A, c.B}] = append(families[[2]string{c.A, c.B}], c)
	}
	for name, family := range families {
		adjust(family, name)
	}
}

func adjust(family []*Comparison, name [2]string) {
	var means, tiers []*Difference
	h := hypotheses{units: map[taskEpisode]int{}}
	for _, c := range family {
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

// larger returns the larger of old and p, and p if old is NaN.
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

// hypotheses numbers the episodes of a family's means. An episode of a task has the same number
// under all solvers, so that the step-down test flips its labels together.
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
