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

// ClopperPearson is the exact interval of k successes in n trials.
func ClopperPearson(k, n int, level float64) Interval {
	alpha := (1 - level) / 2
	iv := Interval{0, 1}
	if k > 0 {
		iv.Lo = betaQuantile(alpha, float64(k), float64(n-k+1))
	}
	if k < n {
		iv.Hi = betaQuantile(1-alpha, float64(k+1), float64(n-k))
	}
	return iv
}

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
