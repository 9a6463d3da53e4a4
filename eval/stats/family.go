package stats

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Holm returns p-values adjusted by Holm's step-down procedure (Holm 1979), in the order
// of p. Rejecting those below a level bounds the probability of any false rejection in
// the family by that level, whatever the dependence between the tests.
func Holm(p []float64) []float64 {
	order := ascending(p)
	out := make([]float64, len(p))
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(1, float64(len(p)-k)*p[i]))
		out[i] = worst
	}
	return out
}

// BenjaminiHochberg returns p-values adjusted by Benjamini and Hochberg's procedure
// (1995), in the order of p. Rejecting those below a level bounds the expected share of
// false rejections by that level for independent tests.
func BenjaminiHochberg(p []float64) []float64 {
	order := ascending(p)
	out := make([]float64, len(p))
	best := 1.0
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		best = min(best, p[i]*float64(len(p))/float64(k+1))
		out[i] = best
	}
	return out
}

// ascending returns the indices of x in ascending order of its values. It is stable, so
// that ties do not depend on the sorting algorithm.
func ascending(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return order
}

// Hypothesis is one null hypothesis of a family, "A and B do not differ here", with its
// data: differences A - B as counts of successes (summed over tiers or seeds).
type Hypothesis struct {
	// Units[i] is the episode of Diff[i]. Episodes are numbered through the entire
	// family. Differences of one episode are dependent, so their signs are flipped
	// together, in all hypotheses.
	Units []int
	Diff  []int
}

// StepDown returns the p-values of a family, in the order of h, adjusted by Westfall and
// Young's step-down maximum of |t| (docs/sources.md#multiplicity).
//
// Each draw exchanges the labels of the two arms for random units, in all hypotheses at
// once. The maximum over hypotheses then has the dependence that the data have, which
// makes the procedure more powerful than Holm's if the hypotheses share episodes. The
// adjusted p is (1 + draws whose maximum is at least as large) / (1 + draws), made
// monotone. A hypothesis without any difference has p = 1.
func StepDown(h []Hypothesis, draws int, r *rand.Rand) []float64 {
	units := 0
	for _, x := range h {
		for _, u := range x.Units {
			units = max(units, u+1)
		}
	}
	planes := make([]planes, len(h))
	observed := make([]float64, len(h))
	for j, x := range h {
		planes[j] = newPlanes(x, units)
		observed[j] = planes[j].t(make([]uint64, (units+63)/64))
	}
	// Step-down: the maximum that hypothesis j is compared with is over the hypotheses
	// whose observed statistic is at most its own, a running maximum in this order.
	order := ascending(observed)
	hits := make([]int, len(h))
	flips := make([]uint64, (units+63)/64)
	for range draws {
		for i := range flips {
			flips[i] = r.Uint64()
		}
		largest := 0.0
		for _, j := range order {
			largest = max(largest, planes[j].t(flips))
			if largest >= observed[j] {
				hits[j]++
			}
		}
	}
	// A hypothesis may not have a smaller p than one with a larger statistic.
	out := make([]float64, len(h))
	worst := 0.0
	for _, j := range slices.Backward(order) {
		worst = max(worst, float64(1+hits[j])/float64(1+draws))
		out[j] = worst
	}
	return out
}

// planes holds the integer differences of a hypothesis as bit vectors over units. The sum
// of the differences under flipped signs is then a count of bits, 64 units at a time,
// which makes many draws over many hypotheses fast.
type planes struct {
	n       float64    // number of differences
	squares float64    // sum of their squares, which no flip changes
	weight  int        // sum of their magnitudes
	size    [][]uint64 // size[k] has the units whose |difference| exceeds k
	minus   []uint64   // units whose difference is negative
}

func newPlanes(h Hypothesis, units int) planes {
	words := (units + 63) / 64
	p := planes{n: float64(len(h.Diff)), minus: make([]uint64, words)}
	for i, u := range h.Units {
		d, bit := h.Diff[i], uint64(1)<<(u%64)
		if d < 0 {
			d = -d
			p.minus[u/64] |= bit
		}
		p.squares += float64(d * d)
		p.weight += d
		for k := range d {
			if k == len(p.size) {
				p.size = append(p.size, make([]uint64, words))
			}
			p.size[k][u/64] |= bit
		}
	}
	return p
}

// t returns |mean| over its standard error after the signs of the units in flips were
// changed. It is 0 if the sum is 0, and +Inf if all differences are equal.
func (p planes) t(flips []uint64) float64 {
	below := 0 // sum of the magnitudes of differences that are negative after the flips
	for _, plane := range p.size {
		for i, w := range plane {
			below += bits.OnesCount64(w & (p.minus[i] ^ flips[i]))
		}
	}
	s := math.Abs(float64(p.weight - 2*below))
	if s == 0 {
		return 0
	}
	return s / math.Sqrt(max(p.squares-s*s/p.n, 0)*p.n/(p.n-1))
}
