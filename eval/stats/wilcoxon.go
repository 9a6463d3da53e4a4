package stats

import "math"

// Zeros says how a signed-rank test treats differences of 0.
type Zeros int

const (
	DropZeros  Zeros = iota // left out (Wilcoxon)
	PrattZeros              // ranked, then left out (Pratt 1959)
	SplitZeros              // ranked, half of their ranks to either side
)

// Alternative is the direction of a test.
type Alternative int

const (
	TwoSided Alternative = iota
	Greater              // the differences tend to be positive
	Less
)

// SignedRank are the choices of a Wilcoxon signed-rank test; the zero value is
// the two-sided exact test with zeros dropped.
type SignedRank struct {
	Zeros       Zeros
	Alternative Alternative
	Approximate bool // normal law instead of the exact one
	Correction  bool // for continuity, of the normal law
}

// SignedRankResult is what SciPy's wilcoxon returns.
type SignedRankResult struct {
	Plus, Minus float64 // rank sums of positive and negative differences
	Statistic   float64 // the smaller of both when two-sided, else Plus
	Z           float64 // NaN for the exact law
	P           float64
}

// Wilcoxon is the signed-rank test of paired differences as SciPy computes it.
// Its exact law is the one without ties and zeros; where there are some, use
// SignedRankExact.
func Wilcoxon(d []float64, o SignedRank) SignedRankResult {
	s := signedRanks(d, o.Zeros)
	r := SignedRankResult{Plus: s.plus, Minus: s.minus, Statistic: s.plus, Z: math.NaN()}
	if o.Alternative == TwoSided {
		r.Statistic = min(s.plus, s.minus)
	}
	if o.Approximate {
		r.Z, r.P = s.normal(o)
	} else {
		r.P = s.exact(o.Alternative)
	}
	return r
}

// rankSums are the sums behind a signed-rank test.
type rankSums struct {
	plus, minus float64
	mean, sd    float64 // of plus under the null hypothesis
	n           int     // ranked differences
	ranks       []float64
	signs       []int // of the ranked differences
}

func signedRanks(d []float64, zeros Zeros) (s rankSums) {
	var size []float64
	nZero := 0.0
	for _, v := range d {
		if v == 0 {
			nZero++
			if zeros == DropZeros {
				continue
			}
		}
		size = append(size, math.Abs(v))
		s.signs = append(s.signs, sign(v))
	}
	s.n = len(size)
	s.ranks = Ranks(size)
	var zeroRanks float64
	for i, r := range s.ranks {
		switch s.signs[i] {
		case 1:
			s.plus += r
		case -1:
			s.minus += r
		default:
			zeroRanks += r
		}
	}
	n := float64(s.n)
	s.mean = n * (n + 1) / 4
	variance := n*(n+1)*(2*n+1) - tieSum(size, zeros == PrattZeros)/2
	switch zeros {
	case SplitZeros:
		s.plus += zeroRanks / 2
		s.minus += zeroRanks / 2
	case PrattZeros: // Cureton 1967
		s.mean -= nZero * (nZero + 1) / 4
		variance -= nZero * (nZero + 1) * (2*nZero + 1)
	}
	s.sd = math.Sqrt(variance / 24)
	return s
}

func sign(v float64) int {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

// tieSum is the sum of t^3 - t over groups of t equal sizes, that of the zeros
// left out on demand.
func tieSum(size []float64, skipZeros bool) (sum float64) {
	count := map[float64]float64{}
	for _, v := range size {
		count[v]++
	}
	for v, t := range count {
		if v != 0 || !skipZeros {
			sum += t*t*t - t // integers, so their order does not matter
		}
	}
	return sum
}

func (s rankSums) normal(o SignedRank) (z, p float64) {
	z = (s.plus - s.mean) / s.sd
	if o.Correction {
		side := float64(sign(z))
		switch o.Alternative {
		case Greater:
			side = 1
		case Less:
			side = -1
		}
		z -= side * 0.5 / s.sd
	}
	switch o.Alternative {
	case Greater:
		return z, normalTail(z)
	case Less:
		return z, normalTail(-z)
	}
	return -math.Abs(z), 2 * normalTail(math.Abs(z))
}

// exact uses the law without ties; a fractional sum is rounded to the safe side.
func (s rankSums) exact(alt Alternative) float64 {
	w := make([]int, s.n)
	for i := range w {
		w[i] = i + 1
	}
	law := subsetSums(w)
	var atLeast, atMost float64
	for x, p := range law {
		if x >= int(math.Floor(s.plus)) {
			atLeast += p
		}
		if x <= int(math.Ceil(s.plus)) {
			atMost += p
		}
	}
	switch alt {
	case Greater:
		return atLeast
	case Less:
		return atMost
	}
	return min(1, 2*min(atLeast, atMost))
}

// SignedRankExact is the two-sided signed-rank test from the law of the actual
// ranks, ties included: the share of all sign vectors of the non-zero
// differences whose rank sum is at least as far from its middle.
func SignedRankExact(d []float64, zeros Zeros) float64 {
	s := signedRanks(d, zeros)
	var doubled []int // average ranks are multiples of 1/2
	for i, r := range s.ranks {
		if s.signs[i] != 0 {
			doubled = append(doubled, s.signs[i]*int(math.Round(2*r)))
		}
	}
	return SignFlipExact(doubled)
}
