package stats

import (
	"math"
	"slices"
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

// pairCounts are the numbers of pairs behind Kendall's coefficient.
type pairCounts struct{ all, tiedX, tiedY, netConcordant int }

// KendallB is Kendall's tau-b, in O(n log n) (Knight 1966).
func KendallB(x, y []float64) float64 {
	c := countPairs(x, y)
	if c.tiedX == c.all || c.tiedY == c.all { // also fewer than two values
		return math.NaN()
	}
	return float64(c.netConcordant) / math.Sqrt(float64(c.all-c.tiedX)*float64(c.all-c.tiedY))
}

func countPairs(x, y []float64) pairCounts {
	if len(x) != len(y) {
		panic("stats: Kendall's tau of slices of different lengths")
	}
	n := len(x)
	c := pairCounts{all: n * (n - 1) / 2}
	// Dense ranks; then y is read in the order of (x, y) and discordant pairs are
	// the inversions that sorting it undoes.
	rx, ry := dense(x), dense(y)
	for _, t := range sizes(rx) {
		c.tiedX += t * (t - 1) / 2
	}
	for _, t := range sizes(ry) {
		c.tiedY += t * (t - 1) / 2
	}
	both := make([]int, n) // (x, y) as one number
	for i := range both {
		both[i] = rx[i]*n + ry[i]
	}
	slices.Sort(both)
	tiedBoth := 0
	for i := 0; i < n; {
		j := i + 1
		for j < n && both[j] == both[i] {
			j++
		}
		tiedBoth += (j - i) * (j - i - 1) / 2
		i = j
	}
	for i := range both {
		both[i] %= n
	}
	c.netConcordant = c.all - c.tiedX - c.tiedY + tiedBoth - 2*inversions(both, make([]int, n))
	return c
}

// dense numbers the distinct values of x from 0 in ascending order.
func dense(x []float64) []int {
	distinct := slices.Clone(x)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	r := make([]int, len(x))
	for i, v := range x {
		r[i], _ = slices.BinarySearch(distinct, v)
	}
	return r
}

// sizes counts how often each of the ranks 0, 1, ... occurs.
func sizes(ranks []int) []int {
	var count []int
	for _, r := range ranks {
		for r >= len(count) {
			count = append(count, 0)
		}
		count[r]++
	}
	return count
}

// inversions sorts v by merging and counts the pairs that stood in descending order.
func inversions(v, spare []int) int {
	if len(v) < 2 {
		return 0
	}
	m := len(v) / 2
	count := inversions(v[:m], spare[:m]) + inversions(v[m:], spare[m:])
	copy(spare, v)
	l, r := spare[:m], spare[m:]
	for k := range v {
		if len(r) == 0 || len(l) > 0 && l[0] <= r[0] {
			v[k], l = l[0], l[1:]
		} else {
			v[k], r = r[0], r[1:]
			count += len(l)
		}
	}
	return count
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
