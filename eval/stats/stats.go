// Package stats has the statistics of paired arms. Slices in,
// numbers out; where there is nothing to say (no data, no variance) the number
// is NaN, as in SciPy, against which the package is held.
//
//	proportion.go  rates: Wilson, Newcombe, McNemar, equivalence, spread over sets
//	signflip.go    tests by flipping signs, exact and drawn; bootstraps
//	family.go      adjustments for several tests: Holm, Benjamini-Hochberg, Westfall-Young
//	rank.go        ranks and correlations of them
//	power.go       how many seeds and episodes an effect needs, and the variances that it takes
//
// It knows nothing of cells, models or files.
package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
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

// StudentMean is Student's interval of the mean of independent values; NaN of fewer
// than two.
func StudentMean(x []float64, level float64) Interval {
	mean, sd := MeanSD(x)
	n := float64(len(x))
	if n < 2 {
		return Interval{math.NaN(), math.NaN()}
	}
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1+level)/2) * sd / math.Sqrt(n)
	return Interval{mean - half, mean + half}
}

// Together is by how much the half width of one of n intervals of 95 % grows if all are
// to hold at once, by Bonferroni and the normal law.
func Together(n int) float64 {
	return normalQuantile(1-0.025/float64(max(n, 1))) / normalQuantile(0.975)
}
