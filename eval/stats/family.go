package stats

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Holm adjusts p-values so that the chance of any false rejection in the family
// is bounded (Holm 1979). The result is in the order of p.
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

// BenjaminiHochberg adjusts p-values so that the expected share of false
// rejections is bounded. The result is in the order of p.
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

// ascending is the stable order of x.
func ascending(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return order
}

// Hypothesis is one comparison of a family, "A and B do not differ here": the
// differences A - B in whole successes (over tiers, or seeds), each of a unit.
// Units are numbered through the whole family; what has one number belongs to
// one episode and is flipped together.
type Hypothesis struct {
	Units []int
	Diff  []int
}

// StepDown are the p-values of a family, adjusted by Westfall and Young's
// step-down maximum of |t| (docs/sources.md#multiplicity), in the order of h. Each of
// the draws flips the arms' labels of whole units, in all hypotheses at once,
// so that the dependence between them is the data's own:
// adjusted p = (1 + draws whose maximum is as large) / (1 + draws), monotone.
// A hypothesis without any difference has p = 1.
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
	order := ascending(observed) // from the least of them: each draw's maximum grows along it
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
	out := make([]float64, len(h))
	worst := 0.0
	for _, j := range slices.Backward(order) {
		worst = max(worst, float64(1+hits[j])/float64(1+draws))
		out[j] = worst
	}
	return out
}

// planes holds integer differences as bits, so that their sum under flipped
// signs is a count: plane k has the units with |difference| > k.
type planes struct {
	n       float64 // differences
	squares float64 // sum of their squares, which no flip changes
	weight  int     // sum of their magnitudes
	size    [][]uint64
	minus   []uint64 // units whose difference is below 0
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

// t is |mean| over its standard error once the units of flips have changed
// their sign; 0 where all differences are 0, +Inf where they are all alike.
func (p planes) t(flips []uint64) float64 {
	below := 0
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
