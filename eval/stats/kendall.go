package stats

import (
	"math"
	"slices"
)

// pairCounts are the numbers of pairs behind Kendall's coefficients.
type pairCounts struct {
	n                    int
	all, discordant      int
	tiedX, tiedY         int
	netConcordant        int // concordant minus discordant
	distinctX, distinctY int
}

// KendallB is Kendall's tau-b, in O(n log n) (Knight 1966). P is exact without
// ties up to 33 pairs of values (or where at most one pair is out of order),
// else from the normal law with correction for ties, as in SciPy.
func KendallB(x, y []float64) Correlation {
	c := countPairs(x, y)
	if c.tiedX == c.all || c.tiedY == c.all { // also fewer than two values
		return Correlation{math.NaN(), math.NaN()}
	}
	tau := float64(c.netConcordant) / math.Sqrt(float64(c.all-c.tiedX)*float64(c.all-c.tiedY))
	if c.tiedX == 0 && c.tiedY == 0 && (c.n <= 33 || min(c.discordant, c.all-c.discordant) <= 1) {
		return Correlation{tau, kendallExact(c.n, min(c.discordant, c.all-c.discordant))}
	}
	return Correlation{tau, 2 * normalTail(math.Abs(float64(c.netConcordant))/kendallSD(x, y))}
}

// KendallC is Stuart's tau-c, which does not shrink for tables that are not square.
func KendallC(x, y []float64) float64 {
	c := countPairs(x, y)
	m := float64(min(c.distinctX, c.distinctY))
	n := float64(c.n)
	return 2 * float64(c.netConcordant) / (n * n * (m - 1) / m)
}

func countPairs(x, y []float64) pairCounts {
	if len(x) != len(y) {
		panic("stats: Kendall's tau of slices of different lengths")
	}
	n := len(x)
	c := pairCounts{n: n, all: n * (n - 1) / 2}
	// Dense ranks; then y is read in the order of (x, y) and discordant pairs are
	// the inversions that sorting it undoes.
	rx, ry := dense(x), dense(y)
	for _, t := range sizes(rx) {
		c.tiedX += t * (t - 1) / 2
		c.distinctX++
	}
	for _, t := range sizes(ry) {
		c.tiedY += t * (t - 1) / 2
		c.distinctY++
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
	c.discordant = inversions(both, make([]int, n))
	c.netConcordant = c.all - c.tiedX - c.tiedY + tiedBoth - 2*c.discordant
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

// kendallExact is the two-sided p of at most k of the inversions of n values in
// random order.
func kendallExact(n, k int) float64 {
	if 4*k == n*(n-1) {
		return 1
	}
	law := make([]float64, k+1) // of the number of inversions, up to k
	law[0] = 1
	for m := 2; m <= n; m++ { // value m adds 0 to m-1 inversions
		next := make([]float64, k+1)
		var window float64
		for i := range next {
			window += law[i]
			if i >= m {
				window -= law[i-m]
			}
			next[i] = window / float64(m)
		}
		law = next
	}
	var p float64
	for _, q := range law {
		p += q
	}
	return min(1, 2*p)
}

// kendallSD is the standard deviation of concordant minus discordant pairs
// under independence, ties included.
func kendallSD(x, y []float64) float64 {
	n := float64(len(x))
	var pairs, triples, weighted [2]float64
	for side, v := range [][]float64{x, y} {
		for _, count := range sizes(dense(v)) {
			t := float64(count)
			pairs[side] += t * (t - 1) / 2
			triples[side] += t * (t - 1) * (t - 2)
			weighted[side] += t * (t - 1) * (2*t + 5)
		}
	}
	m := n * (n - 1)
	v := (m*(2*n+5)-weighted[0]-weighted[1])/18 + 2*pairs[0]*pairs[1]/m + triples[0]*triples[1]/(9*m*(n-2))
	return math.Sqrt(v)
}
