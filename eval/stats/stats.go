// Package stats has the statistics of paired arms. Slices in,
// numbers out; where there is nothing to say (no data, no variance) the number
// is NaN, as in SciPy, against which the package is held.
//
//	proportion.go  rates: Wilson, Newcombe, McNemar, equivalence, spread over sets
//	signflip.go    tests by flipping signs, exact and drawn; bootstraps
//	family.go      adjustments for several tests: Holm, Benjamini-Hochberg, Westfall-Young
//	rank.go        ranks and correlations of them
//
// It knows nothing of cells, models or files.
package stats

import "math"

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
