package stats

import "math"

// Wilson is the score interval of k successes in n trials (Wilson 1927).
func Wilson(k, n int, level float64) Interval {
	z := normalQuantile((1 + level) / 2)
	p, m := float64(k)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{max(mid-half, 0), min(mid+half, 1)}
}

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// Fourfold counts the pairs of two arms' outcomes: both succeed, only A, only
// B, neither.
type Fourfold struct{ Both, OnlyA, OnlyB, Neither int }

// Newcombe is the hybrid score interval of the difference of two paired
// proportions, P(A) - P(B) (Newcombe 1998, method 10; docs/sources.md#newcombe). It
// stays informative where the arms never differ.
func Newcombe(t Fourfold, level float64) Interval {
	n := t.Both + t.OnlyA + t.OnlyB + t.Neither
	pA, pB := float64(t.Both+t.OnlyA)/float64(n), float64(t.Both+t.OnlyB)/float64(n)
	a, b := Wilson(t.Both+t.OnlyA, n, level), Wilson(t.Both+t.OnlyB, n, level)
	phi := pairing(float64(t.Both), float64(t.OnlyA), float64(t.OnlyB), float64(t.Neither))
	return Interval{
		Lo: pA - pB - hybrid(pA-a.Lo, b.Hi-pB, phi),
		Hi: pA - pB + hybrid(a.Hi-pA, pB-b.Lo, phi),
	}
}

// hybrid combines the distances of two Wilson limits from their estimates. The
// square is not negative but for rounding.
func hybrid(x, y, phi float64) float64 { return math.Sqrt(max(x*x-2*phi*x*y+y*y, 0)) }

// pairing is the correlation of the outcomes of a 2 x 2 table, with Newcombe's
// continuity correction where it is positive; 0 where a margin is empty.
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

// McNemar tests the discordant pairs of two paired arms, b where only A and c
// where only B succeeds: the exact two-sided p of the binomial law, and mid-p,
// which counts only half of the observed count's probability.
func McNemar(b, c int) (exact, mid float64) {
	n, k := b+c, min(b, c)
	var tail float64
	for i := 0; i <= k; i++ {
		tail += fairCoins(n, i)
	}
	return min(1, 2*tail), min(1, 2*tail-fairCoins(n, k))
}

// fairCoins is the probability of k heads in n tosses.
func fairCoins(n, k int) float64 {
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
}

func logFactorial(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l }

// Verdict is what an interval says of a difference A - B beside a margin that
// was fixed in advance (docs/sources.md#equivalence).
type Verdict string

const (
	Equivalent  Verdict = "equivalent"  // the difference lies within the margin, either way
	NonInferior Verdict = "noninferior" // A is at most the margin below B
	Inferior    Verdict = "inferior"    // A is more than the margin below B
	Undecided   Verdict = "undecided"
)

// EquivalenceLevel is the level of the interval whose place within the margins
// is two one-sided tests at 5 % (TOST).
const EquivalenceLevel = 0.90

// Margin is how far apart, in points, two success rates may be and still count
// as equivalent (docs/sources.md#equivalence); it was fixed before any evaluation.
const Margin = 5

// Within places an interval of level EquivalenceLevel against a margin > 0 in
// the interval's unit.
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

// Homogeneity compares how success varies between sets with what the draw of
// episodes alone explains (docs/sources.md#set-spread).
type Homogeneity struct {
	Ratio float64 // sum of the sets' variances over the sum of the binomial ones; 1 is no excess
	Cells int     // that are neither 0 nor 100 % in all sets: others say nothing
	Above int     // of them with a ratio of their own above 1.5
}

// Homogeneous measures cells of successes by set, episodes of trials by set.
// Ratio is NaN where no cell says anything.
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

// spread is the variance of the rates between sets (divisor S-1) and the
// binomial one of their pooled rate, NaN for fewer than two sets.
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
