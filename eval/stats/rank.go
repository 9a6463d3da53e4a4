package stats

import (
	"cmp"
	"math"
)

// Ranks returns the rank of each value of x, from 1 in ascending order. Ties get the
// average of their ranks.
func Ranks(x []float64) []float64 {
	order := ascending(x)
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// Spearman returns the rank correlation of x and y with average ranks for ties, in
// [-1, 1]. It is NaN if one of them is constant.
func Spearman(x, y []float64) float64 { return Pearson(Ranks(x), Ranks(y)) }

// Pearson returns the linear correlation of x and y in [-1, 1], NaN if one of them is
// constant. It panics if their lengths differ.
func Pearson(x, y []float64) float64 {
	if len(x) != len(y) {
		panic("stats: correlation of slices of different lengths")
	}
	// Test for constants explicitly: the mean of equal values may be off by rounding, which
	// would give a tiny variance instead of none.
	if constant(x) || constant(y) {
		return math.NaN()
	}
	mx, _ := MeanSD(x)
	my, _ := MeanSD(y)
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx += dx * dx
		xy += dx * dy
		yy += dy * dy
	}
	return max(-1, min(1, xy/(math.Sqrt(xx)*math.Sqrt(yy))))
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

// KendallB returns Kendall's tau-b: concordant minus discordant pairs, over the geometric
// mean of the numbers of pairs that x and y do not tie. It takes O(n²) time, which is
// enough for the hundreds of candidates of a plan.
func KendallB(x, y []float64) float64 {
	var net, freeX, freeY float64
	for i := range x {
		for j := range i {
			dx, dy := float64(cmp.Compare(x[i], x[j])), float64(cmp.Compare(y[i], y[j]))
			net += dx * dy
			freeX += dx * dx
			freeY += dy * dy
		}
	}
	return net / math.Sqrt(freeX*freeY)
}

// Ranking measures how well the predicted costs of candidates order them, judged by
// their true costs.
type Ranking struct {
	Tau         float64 // Kendall's tau-b
	Regret      float64 // true rank of the chosen candidate: 0 best, 1 worst
	Overlap     float64 // share of the predicted elites that are true elites
	EliteRegret float64 // mean true rank of the elites
	ValueRegret float64 // (true cost of the choice - best) / (mean - best)
}

// RankMetrics compares the order of predicted costs with that of true costs of the same
// candidates; elites is the number of elites. Regrets are in ranks, because a few very
// bad candidates would make any regret in costs look small. Ties are broken by the
// candidates' order, as planners do.
func RankMetrics(predicted, actual []float64, elites int) Ranking {
	chosen, best := ascending(predicted), ascending(actual)
	n := len(actual)
	rank := make([]float64, n) // true rank of a candidate, in [0, 1]
	for r, i := range best {
		rank[i] = float64(r) / float64(n-1)
	}
	m := Ranking{Tau: KendallB(predicted, actual), Regret: rank[chosen[0]]}
	isElite := map[int]bool{}
	for _, i := range best[:elites] {
		isElite[i] = true
	}
	for _, i := range chosen[:elites] {
		m.EliteRegret += rank[i] / float64(elites)
		if isElite[i] {
			m.Overlap += 1 / float64(elites)
		}
	}
	mean, _ := MeanSD(actual)
	least := actual[best[0]]
	m.ValueRegret = (actual[chosen[0]] - least) / math.Max(mean-least, 1e-12)
	return m
}

// FisherZ returns Fisher's transformation, atanh, of a rank correlation of n pairs. That
// of ±1 would be infinite, so a rank correlation of ±1 is first moved half a step towards
// 0: the next value that n pairs can have is 12/(n^3 - n) away.
func FisherZ(rho float64, n int) float64 { return math.Atanh(attainable(rho, n)) }

// attainable limits rho to the values whose transformation is finite, see [FisherZ].
func attainable(rho float64, n int) float64 {
	most := 1 - 6/(math.Pow(float64(n), 3)-float64(n))
	return max(-most, min(most, rho))
}

// SpearmanInterval returns the interval of a rank correlation of n pairs by [FisherZ], with
// the variance (1 + rho^2/2)/(n - 3) of Bonett and Wright, Psychometrika 65 (2000). If
// the means of groups > 1 groups were subtracted from the pairs before, each group but
// one costs a degree of freedom. The interval of ±1 ends at ±1. It is NaN if there are
// too few pairs.
func SpearmanInterval(rho float64, n, groups int, level float64) Interval {
	free := float64(n - 3 - max(groups-1, 0))
	if free < 1 {
		return Interval{math.NaN(), math.NaN()}
	}
	r, z := attainable(rho, n), FisherZ(rho, n)
	half := normalQuantile((1+level)/2) * math.Sqrt((1+r*r/2)/free)
	return Interval{min(rho, math.Tanh(z-half)), max(rho, math.Tanh(z+half))}
}
