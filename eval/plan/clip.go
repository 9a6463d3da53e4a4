package plan

// Clip names the bounds that iCEM clips to (docs/sources.md#icem-clip).
type Clip string

const (
	// ClipRaw is the original: the task's own bounds, applied to z-scored
	// actions. It looks unintended, but is behind the published numbers.
	ClipRaw Clip = ""
	// ClipEnv are the task's bounds as z-scores: what the task can execute.
	ClipEnv Clip = "env"
	// ClipNone clips nothing.
	ClipNone Clip = "none"
)

// Bounds are Problem.Low and High from a task's bounds of one action, and the
// mean and deviation that actions are z-scored by.
func (c Clip) Bounds(low, high, mean, std []float64) (lo, hi []float64) {
	switch c {
	case ClipNone:
		return nil, nil
	case ClipEnv:
		return scored(low, mean, std), scored(high, mean, std)
	}
	return low, high
}

func scored(x, mean, std []float64) []float64 {
	z := make([]float64, len(x))
	for i := range z {
		z[i] = (x[i] - mean[i]) / std[i]
	}
	return z
}
