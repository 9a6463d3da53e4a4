package stats

import "math"

// Wilson returns the score interval (Wilson 1927) of the success probability after k
// successes in n > 0 trials. Unlike the normal interval it stays within [0, 1], and has a
// positive width at k = 0 and k = n. k is a fraction if the outcomes of a trial are
// averaged.
func Wilson(k, n, level float64) Interval {
	z := normalQuantile((1 + level) / 2)
	p := k / n
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Interval{max(mid-half, 0), min(mid+half, 1)}
}

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// Fourfold is the 2 x 2 table of the outcomes of two paired arms: the numbers of pairs in
// which both succeed, only A, only B, neither. The numbers are fractions if a pair is an
// episode with several outcomes, of which each counts equally.
type Fourfold struct{ Both, OnlyA, OnlyB, Neither float64 }

// Newcombe returns the hybrid score interval of the difference of two paired proportions,
// P(A) - P(B) (Newcombe 1998, method 10; docs/sources.md#newcombe), in [-1, 1]. It combines
// the Wilson intervals of both arms and the correlation of their outcomes. It has a
// positive width even if no pair differs, where a bootstrap collapses to a point.
//
// A table of fractions gives the interval of as many episodes with one outcome each, drawn
// from those of the episode. The average of several outcomes varies at most as much, so the
// interval is conservative.
func Newcombe(t Fourfold, level float64) Interval {
	n := t.Both + t.OnlyA + t.OnlyB + t.Neither
	pA, pB := (t.Both+t.OnlyA)/n, (t.Both+t.OnlyB)/n
	a, b := Wilson(t.Both+t.OnlyA, n, level), Wilson(t.Both+t.OnlyB, n, level)
	phi := pairing(t.Both, t.OnlyA, t.OnlyB, t.Neither)
	return Interval{
		Lo: pA - pB - hybrid(pA-a.Lo, b.Hi-pB, phi),
		Hi: pA - pB + hybrid(a.Hi-pA, pB-b.Lo, phi),
	}
}

// hybrid combines the distances x and y of two Wilson limits from their estimates, given
// the correlation phi. Only rounding can make the argument of the root negative.
func hybrid(x, y, phi float64) float64 { return math.Sqrt(max(x*x-2*phi*x*y+y*y, 0)) }

// pairing returns the phi coefficient of a 2 x 2 table, with Newcombe's continuity
// correction if it is positive. It is 0 if a margin is empty.
func pairing(a, b, c, d float64) float64 {
	margins := (a + b) * (c + d) * (a + c) * (b + d)
	if margins == 0 {
		return 0
	}
	m := a*d - b*c
	if m > 0 {
		m = max(m-(a+b+c+d)/2, 0)
	}
	return m / math.Sqrt(margins)
}

// McNemar tests whether two paired arms have the same success rate, from the discordant
// pairs: b in which only A succeeds, c in which only B does. It returns the exact
// two-sided p of the binomial distribution, and the mid-p, which counts only half of the
// probability of the observed count and is less conservative.
func McNemar(b, c int) (exact, mid float64) {
	n, k := b+c, min(b, c)
	var tail float64
	for i := 0; i <= k; i++ {
		tail += fairCoins(n, i)
	}
	return min(1, 2*tail), min(1, 2*tail-fairCoins(n, k))
}

// fairCoins returns the probability of k heads in n tosses. Logarithms avoid overflow.
func fairCoins(n, k int) float64 {
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
}

func logFactorial(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l }

// Verdict is the result of comparing the interval of a difference A - B with a margin
// that was fixed in advance (docs/sources.md#equivalence).
type Verdict string

const (
	Equivalent  Verdict = "equivalent"  // the difference is within the margin on both sides
	NonInferior Verdict = "noninferior" // A is at most the margin below B
	Inferior    Verdict = "inferior"    // A is more than the margin below B
	Undecided   Verdict = "undecided"
)

// EquivalenceLevel is the level of the interval that is compared with the margins. An
// interval of 90 % within them is equivalent to two one-sided tests at 5 % (TOST).
const EquivalenceLevel = 0.90

// Margin is the largest difference, in points of success, of two arms that count as
// equivalent (docs/sources.md#equivalence). It was fixed before any evaluation.
const Margin = 5

// Within compares an interval of level [EquivalenceLevel] with a margin > 0 in the
// interval's unit.
func (iv Interval) Within(margin float64) Verdict {
	switch {
	case iv.Lo > -margin && iv.Hi < margin:
		return Equivalent
	case iv.Lo > -margin:
		return NonInferior
	case iv.Hi < -margin:
		return Inferior
	}
	return Undecided
}

// Homogeneity compares the variance of success between evaluation sets with the binomial
// variance that the draw of episodes alone explains (docs/sources.md#set-spread).
type Homogeneity struct {
	Ratio float64 // sum of the variances between sets over the sum of the binomial ones; 1: no excess
	Cells int     // cells that contribute: those at 0 % or 100 % in all sets do not
	Above int     // contributing cells whose own ratio is above 1.5
}

// Homogeneous computes the Homogeneity of cells: successes[i][s] of trials[i][s] episodes
// in set s of cell i. Ratio is NaN if no cell contributes.
func Homogeneous(successes, trials [][]int) Homogeneity {
	var between, binomial float64
	var h Homogeneity
	for i, k := range successes {
		v, b := spread(k, trials[i])
		if !(b > 0) {
			continue
		}
		h.Cells++
		between += v
		binomial += b
		if v > 1.5*b {
			h.Above++
		}
	}
	h.Ratio = between / binomial
	return h
}

// spread returns the variance of the rates between sets (divisor S-1) and the binomial
// variance at their pooled rate. Both are NaN for fewer than two sets.
func spread(successes, trials []int) (between, binomial float64) {
	if len(successes) < 2 {
		return math.NaN(), math.NaN()
	}
	rates := make([]float64, len(successes))
	var k, n, inverse float64
	for i := range rates {
		rates[i] = float64(successes[i]) / float64(trials[i])
		k += float64(successes[i])
		n += float64(trials[i])
		inverse += 1 / float64(trials[i])
	}
	_, sd := MeanSD(rates)
	p := k / n
	return sd * sd, p * (1 - p) * inverse / float64(len(rates))
}
