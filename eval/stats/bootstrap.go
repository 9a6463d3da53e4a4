package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// bootstraps is the number of resamples that Bootstrap draws (docs/sources.md#bootstrap).
const bootstraps = 10000

// Resamples are the means of bootstrap resamples, in ascending order.
type Resamples []float64

// Interval returns the percentile interval of a level in (0, 1).
func (m Resamples) Interval(level float64) Interval {
	return Interval{Quantile(m, (1-level)/2), Quantile(m, (1+level)/2)}
}

// Bootstrap returns the resampled means of paired differences bySet[set][episode]. It
// draws episodes with replacement within their set, so that sets keep their sizes, and a
// pair stays together.
func Bootstrap(bySet [][]float64, r *rand.Rand) Resamples { return bootstrap(bySet, bootstraps, r) }

func bootstrap(bySet [][]float64, resamples int, r *rand.Rand) Resamples {
	means := make([]float64, resamples)
	for i := range means {
		means[i] = resampledMean(bySet, func(_, _, n int) int { return r.IntN(n) })
	}
	slices.Sort(means)
	return means
}

// resampledMean returns the mean over the episodes of all sets, with episode e of set s
// replaced by episode draw(s, e, n) of the n in that set.
func resampledMean(bySet [][]float64, draw func(s, e, n int) int) float64 {
	var sum float64
	n := 0
	for s, set := range bySet {
		for e := range set {
			sum += set[draw(s, e, len(set))]
		}
		n += len(set)
	}
	return sum / float64(n)
}

// Resampler is Bootstrap with the random numbers of one stream for all differences. Sets of the
// same sizes draw the same episodes each time, so it keeps what they drew, which is most of the
// work. Several goroutines may use it at once.
type Resampler struct {
	stream func() *rand.Rand
	mu     sync.Mutex
	kept   map[string]func() []uint16 // by the sizes of the sets: the drawn episodes of all resamples
	n      int                        // episodes in kept
}

// NewResampler returns a Resampler for the numbers of stream, which returns them from their
// start each time.
func NewResampler(stream func() *rand.Rand) *Resampler {
	return &Resampler{stream: stream, kept: map[string]func() []uint16{}}
}

// maxKept is the number of drawn episodes that a Resampler keeps: 64 MB, or eleven sizes of 300
// episodes.
const maxKept = 1 << 25

// Bootstrap returns what [Bootstrap] returns with the stream.
func (r *Resampler) Bootstrap(bySet [][]float64) Resamples {
	values := slices.Concat(bySet...)
	if len(values) > maxKept/bootstraps {
		return Bootstrap(bySet, r.stream())
	}
	drawn, means := r.drawn(bySet, len(values)), make(Resamples, bootstraps)
	for i := range means {
		var sum float64
		for _, e := range drawn[i*len(values):][:len(values)] {
			sum += values[e]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return means
}

// drawn returns the episodes that sets of these sizes draw, one resample after the other, each
// as its index among the n of all sets.
func (r *Resampler) drawn(bySet [][]float64, n int) []uint16 {
	sizes := make([]int, len(bySet))
	for s, set := range bySet {
		sizes[s] = len(set)
	}
	key := fmt.Sprint(sizes)
	r.mu.Lock()
	draw, ok := r.kept[key]
	if !ok {
		if r.n += n * bootstraps; r.n > maxKept {
			clear(r.kept)
			r.n = n * bootstraps
		}
		draw = sync.OnceValue(func() []uint16 {
			random, drawn := r.stream(), make([]uint16, 0, n*bootstraps)
			for range bootstraps {
				before := 0
				for _, size := range sizes {
					for range size {
						drawn = append(drawn, uint16(before+random.IntN(size)))
					}
					before += size
				}
			}
			return drawn
		})
		r.kept[key] = draw
	}
	r.mu.Unlock()
	return draw()
}

// Quantile returns the quantile q in [0, 1] of sorted values, interpolated linearly as in
// NumPy's default. It is NaN if there are none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (at-float64(i))*(sorted[j]-sorted[i])
}

// IQM returns the interquartile mean of all scores, the mean of the middle half (Agarwal
// et al. 2021). As in SciPy's trim_mean(x, 0.25), the quarter removed at each end is
// rounded down. It is NaN without scores.
func IQM(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	cut := len(x) / 4
	mean, _ := MeanSD(sorted[cut : len(x)-cut])
	return mean
}

// OptimalityGap returns the mean amount by which scores fall short of a target (Agarwal et
// al. 2021). Scores above the target count as equal to it.
func OptimalityGap(x []float64, target float64) float64 {
	short := make([]float64, len(x))
	for i, v := range x {
		short[i] = target - min(v, target)
	}
	mean, _ := MeanSD(short)
	return mean
}

// Aggregated bootstraps a statistic of cells[cell][run]. It resamples the runs of each
// cell separately (the stratified bootstrap of Agarwal et al. 2021) and passes all drawn
// values to the statistic, in a slice that it reuses.
func Aggregated(cells [][]float64, statistic func([]float64) float64, r *rand.Rand) Resamples {
	const resamples = 2000
	out := make(Resamples, resamples)
	var drawn []float64
	for i := range out {
		drawn = drawn[:0]
		for _, runs := range cells {
			for range runs {
				drawn = append(drawn, runs[r.IntN(len(runs))])
			}
		}
		out[i] = statistic(drawn)
	}
	slices.Sort(out)
	return out
}
