package train

import "math"

// rate is the learning rate of 0-based step n of total (docs/sources.md#optimiser): linear
// from 0 over the first max(1, floor(warmUp*total)) steps, then a cosine to 0.
func rate(base, warmUp float64, n, total int) float64 {
	w := max(1, int(warmUp*float64(total)))
	if n < w {
		return base * float64(n) / float64(w)
	}
	return base / 2 * (1 + math.Cos(math.Pi*float64(n-w)/float64(total-w)))
}
