package clear

import (
	"math"
	"slices"

	"scalewm/dataset/rng/numpy"
)

// resamples is the number of bootstrap samples of an interval.
const resamples = 10_000

// metrics returns the metrics of a result by their keys, in percent. random has the
// outcomes of random actions on the same pairs; nil if there are none. The intervals
// depend on the policy seed.
// Source: clear_lewm/metrics.py, summarize_success and bootstrap_ci, at ab8849c.
func metrics(successes, random []bool, seed uint64) map[string]any {
	hits := numbers(successes)
	rate := mean(hits) * 100
	m := map[string]any{"episodes": len(hits), "success_rate_percent": rate, "success_rate_ci95_percent": interval(hits, seed)}
	if random == nil {
		return m
	}
	floor, gains := numbers(random), make([]float64, len(random))
	for i := range gains {
		gains[i] = hits[i] - floor[i]
	}
	least := mean(floor) * 100
	m["random_success_rate_percent"], m["excess_over_random_pp"], m["paired_gain_ci95_pp"] = least, rate-least, interval(gains, seed)
	m["normalized_success_percent"] = nil
	if least < 100 {
		m["normalized_success_percent"] = (rate - least) / (100 - least) * 100
	}
	return m
}

// numbers returns 1 for each success and 0 for each failure.
func numbers(successes []bool) []float64 {
	out := make([]float64, len(successes))
	for i, success := range successes {
		if success {
			out[i] = 1
		}
	}
	return out
}

// interval returns the 95 % bootstrap interval of a mean, in percent.
func interval(values []float64, seed uint64) [2]float64 {
	g, means := numpy.New(seed), make([]float64, resamples)
	sample := make([]float64, len(values))
	for i := range means {
		for k := range sample {
			sample[k] = values[g.Integers(0, int64(len(values)))]
		}
		means[i] = mean(sample)
	}
	slices.Sort(means)
	const level = 0.95
	tail := (1 - float64(level)) / 2
	return [2]float64{quantile(means, tail) * 100, quantile(means, 1-tail) * 100}
}

// quantile returns the quantile q of sorted values as NumPy's default method computes it,
// to the last bit.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	a, b, t := sorted[i], sorted[min(i+1, len(sorted)-1)], at-math.Floor(at)
	if t >= 0.5 {
		return b - float64((b-a)*(1-t))
	}
	return a + float64((b-a)*t)
}

// mean returns the mean of values whose sum is exact.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
