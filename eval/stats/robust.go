package stats

import "slices"

// IQM is the interquartile mean of all scores, the mean of the middle half
// (Agarwal et al. 2021, as SciPy's trim_mean(x, 0.25): the quarter that is cut
// at each end is rounded down). NaN without scores.
func IQM(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	cut := len(x) / 4
	mean, _ := MeanSD(sorted[cut : len(x)-cut])
	return mean
}

// OptimalityGap is how far scores fall short of a target on average; those
// above it do not make up for others.
func OptimalityGap(x []float64, target float64) float64 {
	short := make([]float64, len(x))
	for i, v := range x {
		short[i] = target - min(v, target)
	}
	mean, _ := MeanSD(short)
	return mean
}

// Profile is the share of scores strictly above each threshold.
func Profile(x, thresholds []float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	out := make([]float64, len(thresholds))
	for i, tau := range thresholds {
		above, _ := slices.BinarySearchFunc(sorted, tau, func(v, tau float64) int {
			if v > tau {
				return 1
			}
			return -1
		})
		out[i] = float64(len(x)-above) / float64(len(x))
	}
	return out
}
