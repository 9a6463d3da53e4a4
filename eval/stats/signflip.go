package stats

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// SignFlipExact returns the p-value of the exact two-sided sign-flip test of integer
// differences, such as successes of A minus successes of B per set: the share of all
// 2^len(d) sign vectors whose sum is at least as far from 0 as the observed one. It
// counts them by convolution, in time len(d) x sum |d|.
func SignFlipExact(d []int) float64 {
	var sum, weight int
	w := make([]int, len(d))
	for i, v := range d {
		w[i] = max(v, -v)
		sum += v
		weight += w[i]
	}
	var p float64
	// The sum of a sign vector is twice the sum of the magnitudes with a plus, minus weight.
	for x, q := range subsetSums(w) {
		if s := 2*x - weight; max(s, -s) >= max(sum, -sum) {
			p += q
		}
	}
	return p
}

// subsetSums returns the distribution of the sum of a random subset of w, to which each
// weight belongs with probability 1/2: entry x is the probability of sum x.
func subsetSums(w []int) []float64 {
	law := []float64{1}
	for _, v := range w {
		next := make([]float64, len(law)+v)
		for x, p := range law {
			next[x] += p / 2
			next[x+v] += p / 2
		}
		law = next
	}
	return law
}

// SignedRankExact returns the p-value of the two-sided Wilcoxon signed-rank test, from
// the exact distribution of the actual ranks with ties. Zeros are dropped. It is the
// share of all sign vectors whose rank sum is at least as far from its centre as the
// observed one.
func SignedRankExact(d []float64) float64 {
	d = slices.DeleteFunc(slices.Clone(d), func(v float64) bool { return v == 0 })
	size := make([]float64, len(d))
	for i, v := range d {
		size[i] = math.Abs(v)
	}
	doubled := make([]int, len(d)) // average ranks are multiples of 1/2
	for i, r := range Ranks(size) {
		doubled[i] = int(math.Copysign(math.Round(2*r), d[i]))
	}
	return SignFlipExact(doubled)
}

// signFlips is the number of random sign vectors that SignFlip draws
// (docs/sources.md#sign-flip).
const signFlips = 100000

// SignFlip returns the p-value of the two-sided Monte Carlo sign-flip test of paired
// differences of any score, bySet[set][episode]: (1 + hits) / (1 + 100,000). The added 1
// makes the test valid with any number of draws. Signs are flipped by episode, so the
// division into sets does not matter.
func SignFlip(bySet [][]float64, r *rand.Rand) float64 {
	var sum, weight float64
	count := map[float64]int{} // of episodes by magnitude
	for _, set := range bySet {
		for _, v := range set {
			sum += v
			weight += math.Abs(v)
			if v != 0 {
				count[math.Abs(v)]++
			}
		}
	}
	sizes := make([]magnitude, 0, len(count))
	for v, n := range count {
		sizes = append(sizes, magnitude{v, n})
	}
	slices.SortFunc(sizes, func(a, b magnitude) int { return cmp.Compare(a.value, b.value) })
	hits := 0
	for range signFlips {
		var s float64
		for _, m := range sizes {
			s += m.value * float64(2*heads(m.count, r)-m.count)
		}
		// Equal sums count as hits, whatever the order in which rounding added them up.
		if math.Abs(s) >= math.Abs(sum)-1e-12*weight {
			hits++
		}
	}
	return float64(1+hits) / float64(1+signFlips)
}

// magnitude is the number of episodes whose differences have the same absolute value.
// Differences of successes take few values, so flipping the signs of all episodes of one
// value amounts to counting heads in as many coin tosses.
type magnitude struct {
	value float64
	count int
}

// heads returns the number of heads in n coin tosses, 64 per random word.
func heads(n int, r *rand.Rand) (h int) {
	for ; n >= 64; n -= 64 {
		h += bits.OnesCount64(r.Uint64())
	}
	if n > 0 {
		h += bits.OnesCount64(r.Uint64() >> (64 - n))
	}
	return h
}
