package stats

import "math"

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
