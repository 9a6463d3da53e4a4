// Package stats compares paired arms and measures embeddings: exact and
// Monte-Carlo tests, intervals, multiplicity, rank statistics, spectra. Slices
// in, numbers out; where there is nothing to say (no data, no variance) the
// number is NaN, as in SciPy, against which the package is held.
//
// It knows nothing of cells, models or files.
package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Interval is a two-sided confidence interval.
type Interval struct{ Lo, Hi float64 }

// MeanSD is the mean and the standard deviation with divisor n-1.
func MeanSD(x []float64) (mean, sd float64) {
	if len(x) == 0 {
		return math.NaN(), math.NaN()
	}
	n := float64(len(x))
	for _, v := range x {
		mean += v
	}
	mean /= n
	var ss float64
	for _, v := range x {
		ss += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(ss / (n - 1))
}

// PairedT is the t test of paired differences.
type PairedT struct {
	Mean, SD  float64 // of the differences, divisor n-1
	T, DF, P  float64 // P two-sided
	Interval  Interval
	Confident float64 // level of Interval
}

// TTest tests whether the mean of paired differences is 0. Without variance T
// is infinite or, for all zeros, NaN.
func TTest(d []float64) PairedT {
	r := PairedT{DF: float64(len(d)) - 1, Confident: 0.95}
	r.Mean, r.SD = MeanSD(d)
	se := r.SD / math.Sqrt(float64(len(d)))
	r.T = r.Mean / se
	r.P = tTwoSided(r.T, r.DF)
	half := tQuantile((1+r.Confident)/2, r.DF) * se
	r.Interval = Interval{r.Mean - half, r.Mean + half}
	return r
}

// tTwoSided is P(|T| >= |t|) for Student's T with df degrees of freedom.
func tTwoSided(t, df float64) float64 {
	switch {
	case math.IsNaN(t) || df <= 0:
		return math.NaN()
	case math.IsInf(t, 0):
		return 0
	}
	return mathext.RegIncBeta(df/2, 0.5, df/(df+t*t))
}

// tQuantile is the quantile p > 1/2 of Student's T.
func tQuantile(p, df float64) float64 {
	if !(df > 0) {
		return math.NaN()
	}
	x := betaQuantile(2*(1-p), df/2, 0.5)
	return math.Sqrt(df * (1 - x) / x)
}

// betaQuantile inverts the regularised incomplete beta function by bisection
// down to neighbouring floats.
func betaQuantile(p, a, b float64) float64 {
	lo, hi := 0.0, 1.0
	for {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break
		}
		if mathext.RegIncBeta(a, b, mid) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// normalTail is P(Z >= z).
func normalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
