package report

import (
	"math"
	"slices"

	"scalewm/eval/record"
	"scalewm/eval/stats"
)

// scoreOf is the success of an arm at one tier; cells are its sets in order.
func scoreOf(tier string, cells []record.Cell) Score {
	s := Score{Tier: tier, Sets: len(cells)}
	budget := 0
	for _, c := range cells {
		budget = max(budget, c.Spec.Budget)
	}
	solvedAt := make([]int, budget+1) // episodes first solved after k env steps
	pre, restHits := 0, 0
	for _, c := range cells {
		s.BySet = append(s.BySet, SetRate{c.Spec.Set, len(c.Result.Rows), c.Result.Rate()})
		for _, row := range c.Result.Rows {
			s.N++
			if row.PreSolved {
				pre++
			}
			if !row.Success {
				continue
			}
			s.Hits++
			if !row.PreSolved {
				restHits++
			}
			solvedAt[min(max(row.Steps, 0), budget)]++
		}
	}
	s.Mean, s.SD = overSets(s.BySet)
	s.Lo, s.Hi = wilson(s.Hits, s.N)
	s.Solved = cumulative(solvedAt, s.N)
	s.PreRate = percent(pre, s.N)
	s.Filtered = percent(restHits, s.N-pre)
	return s
}

// meanScore averages an arm over tiers: set by set first, so that the spread
// over sets keeps its meaning. Sets missing at a tier are left out.
func meanScore(tiers []Tier, scores map[string]Score) Score {
	sums, counts := map[string]float64{}, map[string]int{}
	m := Score{Tier: MeanTier}
	var order []string
	used := 0
	for _, t := range tiers {
		s, ok := scores[t.Name]
		if !ok {
			continue
		}
		used++
		m.N = max(m.N, s.N)
		for _, r := range s.BySet {
			if counts[r.Set] == 0 {
				order = append(order, r.Set)
			}
			counts[r.Set]++
			sums[r.Set] += r.Rate
		}
	}
	slices.Sort(order)
	for _, set := range order {
		if counts[set] == used {
			m.BySet = append(m.BySet, SetRate{Set: set, Rate: sums[set] / float64(used)})
		}
	}
	m.Sets = len(m.BySet)
	m.Mean, m.SD = overSets(m.BySet)
	m.Lo, m.Hi = math.NaN(), math.NaN()
	return m
}

// overSets is the mean over sets and its SD with ddof 1 (NaN below two sets).
func overSets(rates []SetRate) (mean, sd float64) {
	x := make([]float64, len(rates))
	for i, r := range rates {
		x[i] = r.Rate
	}
	return stats.MeanSD(x)
}

func wilson(hits, n int) (lo, hi float64) {
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	iv := stats.Wilson(hits, n, 0.95)
	return 100 * iv.Lo, 100 * iv.Hi
}

// cumulative turns counts by step into the percent of n reached by each step.
func cumulative(counts []int, n int) []float64 {
	out := make([]float64, len(counts))
	sum := 0
	for k, c := range counts {
		sum += c
		out[k] = percent(sum, n)
	}
	return out
}

// percent is 100 k/n, NaN for n = 0.
func percent(k, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return 100 * float64(k) / float64(n)
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
