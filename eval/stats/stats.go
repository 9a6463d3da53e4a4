// Package stats computes the statistics of paired comparisons: intervals, tests,
// corrections for several tests, rank correlations and power.
//
// Functions take slices and return numbers. A number that is undefined (no data, no
// variance) is NaN, as in SciPy; the tests compare the package with SciPy. Functions
// with a *rand.Rand are deterministic given its state. None of them modifies its
// arguments.
//
//	proportion.go  rates: Wilson, Newcombe, McNemar, equivalence, spread over sets
//	signflip.go    sign-flip tests, exact and Monte Carlo
//	bootstrap.go   bootstraps, quantiles and interquartile means
//	family.go      adjustments for several tests: Holm, Benjamini-Hochberg, Westfall-Young
//	rank.go        ranks and rank correlations
//	power.go       seeds and episodes that an effect needs, variance components
//
// The package depends on no other package of this program. Package infer decides which
// of these statistics a comparison gets.
package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a two-sided confidence interval, both ends included. Unknown ends are NaN.
type Interval struct{ Lo, Hi float64 }

// MeanSD returns the mean and the standard deviation with divisor n-1. The mean of no
// value and the deviation of fewer than two are NaN.
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

// StudentMean returns Student's interval of the mean of independent values, NaN for
// fewer than two. It assumes normal values; infer uses it for differences by training
// seed, of which there are too few for a bootstrap.
func StudentMean(x []float64, level float64) Interval {
	mean, sd := MeanSD(x)
	n := float64(len(x))
	if n < 2 {
		return Interval{math.NaN(), math.NaN()}
	}
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1+level)/2) * sd / math.Sqrt(n)
	return Interval{mean - half, mean + half}
}

// Together returns the factor by which the half width of one of n 95 % intervals grows
// if all of them are to hold at once, by Bonferroni's inequality and the normal
// distribution.
func Together(n int) float64 {
	return normalQuantile(1-0.025/float64(max(n, 1))) / normalQuantile(0.975)
}
