package stats

import (
	"math/rand/v2"
	"slices"
)

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

// Aggregated bootstraps a statistic of cells x sets: the sets of each cell are
// drawn anew, cell by cell (the stratified bootstrap of Agarwal et al. 2021).
func Aggregated(cells [][]float64, statistic func([]float64) float64, r *rand.Rand) Resamples {
	const resamples = 2000
	out := make(Resamples, resamples)
	var drawn []float64
	for i := range out {
		drawn = drawn[:0]
		for _, sets := range cells {
			for range sets {
				drawn = append(drawn, sets[r.IntN(len(sets))])
			}
		}
		out[i] = statistic(drawn)
	}
	slices.Sort(out)
	return out
}
