package stats

import (
	"cmp"
	"math"
)

// Ranks numbers x from 1 in ascending order; equal values share their average.
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

// Spearman is the rank correlation with average ranks.
func Spearman(x, y []float64) float64 { return Pearson(Ranks(x), Ranks(y)) }

// Pearson is the linear correlation.
func Pearson(x, y []float64) float64 {
	if len(x) != len(y) {
		panic("stats: correlation of slices of different lengths")
	}
	if constant(x) || constant(y) { // rounding of the means must not hide it
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

// KendallB is Kendall's tau-b, from all pairs: concordant minus discordant ones
// over the geometric mean of those that x and y do not tie.
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

// Ranking says how well one cost orders candidates that another one judges.
type Ranking struct {
	Tau         float64 // Kendall's tau-b
	Regret      float64 // true rank of the chosen candidate: 0 best, 1 worst
	Overlap     float64 // share of the elites that are true elites
	EliteRegret float64 // mean true rank of the elites
	ValueRegret float64 // true cost of the choice beyond the best, in units of mean minus best
}

// RankMetrics compares the order of predicted costs with that of true costs.
// Regrets are in ranks, since a few very bad candidates would make any regret
// in costs look small. Equal costs keep the order of their candidates.
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

// FisherZ is Fisher's transformation of a rank correlation of n pairs. One of ±1, whose own is infinite, is taken
// half a step of the ranks nearer to 0: the next one that n pairs can have is 12/(n^3 - n) away.
func FisherZ(rho float64, n int) float64 { return math.Atanh(attainable(rho, n)) }

func attainable(rho float64, n int) float64 {
	most := 1 - 6/(math.Pow(float64(n), 3)-float64(n))
	return max(-most, min(most, rho))
}

// SpearmanInterval is that of a rank correlation of n pairs, from which the means of so
// many groups were taken beforehand (1 or none: plain pairs), by FisherZ
// with the variance (1 + rho^2/2)/(n - 3) of Bonett and Wright, Psychometrika 65 (2000).
// That of ±1 ends there. It is NaN of too few pairs.
func SpearmanInterval(rho float64, n, groups int, level float64) Interval {
	free := float64(n - 3 - max(groups-1, 0))
	if free < 1 {
		return Interval{math.NaN(), math.NaN()}
	}
	r, z := attainable(rho, n), FisherZ(rho, n)
	half := normalQuantile((1+level)/2) * math.Sqrt((1+r*r/2)/free)
	return Interval{min(rho, math.Tanh(z-half)), max(rho, math.Tanh(z+half))}
}
