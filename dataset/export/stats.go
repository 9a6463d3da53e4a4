package export

import (
	"math"
	"slices"
)

// stats are the statistics that LeRobot has of a feature: a number for each entry of
// a row. NaN and infinite values do not count.
type stats struct {
	min, max, mean, std []float64
	// quantiles has those of quantileNames.
	quantiles [len(levels)][]float64
	// count is the number of rows.
	count int
}

// levels are the quantiles that LeRobot has, by the names of quantileNames.
var (
	levels        = [...]float64{.01, .1, .5, .9, .99}
	quantileNames = [...]string{"q01", "q10", "q50", "q90", "q99"}
)

// describe returns the statistics of columns of width numbers.
func describe(values []float64, width int) stats {
	s := stats{count: len(values) / width}
	for i := range width {
		var of []float64
		for k := i; k < len(values); k += width {
			// Not NaN, and squares are finite, as JSON requires.
			if math.Abs(values[k]) < 1e150 {
				of = append(of, values[k])
			}
		}
		slices.Sort(of)
		times := make([]int, len(of))
		for k := range times {
			times[k] = 1
		}
		s.entry(of, times)
	}
	return s
}

// describeFrames returns the statistics of the three colours of frames, from 0 to 1.
func describeFrames(frames []byte, rows int) stats {
	s := stats{count: rows}
	var counts [3][256]int
	for i, v := range frames {
		counts[i%3][v]++
	}
	for _, of := range counts {
		var values []float64
		var times []int
		for v, n := range of {
			if n > 0 {
				values, times = append(values, float64(v)/255), append(times, n)
			}
		}
		s.entry(values, times)
	}
	return s
}

// entry appends the statistics of sorted values, each of which occurs times[i] times.
func (s *stats) entry(values []float64, times []int) {
	if len(values) == 0 {
		values, times = []float64{0}, []int{1}
	}
	n, mean, variance := 0, 0., 0.
	for i, v := range values {
		n += times[i]
		mean += (v - mean) * float64(times[i]) / float64(n)
	}
	for i, v := range values {
		variance += (v - mean) * (v - mean) * float64(times[i]) / float64(n)
	}
	s.min, s.max = append(s.min, values[0]), append(s.max, values[len(values)-1])
	s.mean, s.std = append(s.mean, mean), append(s.std, math.Sqrt(variance))
	for q, level := range levels {
		at := level * float64(n-1)
		low := nth(values, times, int(at))
		high := nth(values, times, min(int(at)+1, n-1))
		s.quantiles[q] = append(s.quantiles[q], low+(high-low)*(at-math.Floor(at)))
	}
}

// nth returns value k of sorted values that occur several times.
func nth(values []float64, times []int, k int) float64 {
	i := 0
	for k >= times[i] {
		k -= times[i]
		i++
	}
	return values[i]
}

// add combines the statistics of further rows as LeRobot's aggregate_stats does:
// exact, except the quantiles, which are means weighted by the numbers of rows.
func (s *stats) add(e stats) {
	if s.count == 0 {
		*s = e
		return
	}
	n := float64(s.count + e.count)
	a, b := float64(s.count)/n, float64(e.count)/n
	for i := range s.mean {
		s.min[i], s.max[i] = min(s.min[i], e.min[i]), max(s.max[i], e.max[i])
		between := e.mean[i] - s.mean[i]
		s.std[i] = math.Sqrt(a*s.std[i]*s.std[i] + b*e.std[i]*e.std[i] + a*b*between*between)
		s.mean[i] += b * between
		for q := range s.quantiles {
			s.quantiles[q][i] = a*s.quantiles[q][i] + b*e.quantiles[q][i]
		}
	}
	s.count += e.count
}
