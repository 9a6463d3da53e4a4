// Package plan holds the planners. They see a batched cost and the kernels of
// a device, never a model or a task: E episodes side by side, C candidates each,
// sequences of W = H*A numbers in z-scored action space.
package plan

import (
	"context"

	"scalewm/model/device"
)

// Cost scores candidates, (E*C) x W, into dst, E x C; lower is better.
type Cost interface {
	Costs(dst, candidates device.Mat) error
}

// GradCost is a Cost that has a gradient, which Gradient needs.
type GradCost interface {
	Cost
	// CostGrads is Costs, and row e*C+c of grad, (E*C) x W, becomes the gradient
	// of dst[e,c] with respect to that candidate.
	CostGrads(dst, grad, candidates device.Mat) error
}

// Noise fills dst, (E*C) x W, with the standard normals of an iteration of
// this plan (0, 1, ...). Every arm of a paired comparison gets the same.
type Noise interface {
	Normal(dst device.Mat, iteration int)
}

// Problem is one batched plan. Width is W; Horizon blocks divide it evenly.
type Problem struct {
	Episodes, Horizon, Width int
	Cost                     Cost
	Noise                    Noise
	// Init is the first mean, E x W, where given; else it is zero, the data
	// set's mean action. Plans that are executed whole leave nothing to start from.
	Init device.Mat
	// Low and High are what iCEM clips candidates to, in z-scored space
	// (Clip.Bounds): the bounds of one action, repeated over the width. Nil: no
	// clipping. The other solvers never clip.
	Low, High []float64
	// Trace, where set, is called after each iteration (tests).
	Trace func(Step)
}

// Plan is what a solver found. Actions is E x W and belongs to the caller, who
// frees it; Cost is the solver's reported cost of each episode
// (docs/sources.md#planner-common).
type Plan struct {
	Actions device.Mat
	Cost    []float64
	NaNs    []int // costs of each episode that were NaN or +Inf, which count as the worst
	// Blind says of each episode that none of its last costs was finite: nothing but noise chose its actions.
	Blind []bool
}

// Solver is a planner. Solvers keep no state from plan to plan.
type Solver interface {
	Solve(ctx context.Context, d device.Device, p Problem) (Plan, error)
}

// Step is an iteration as it stands on the device; its matrices are valid
// during the call of Trace.
type Step struct {
	Iteration int
	Mean      device.Mat  // E x W, after the iteration; Gradient's stays where it began
	Std       device.Mat  // E x W, after the iteration; Gradient has none
	Costs     device.Mat  // E x C, NaN already +Inf
	Elites    device.Ints // E*K, best first
}

// Keyed is counter-based noise: each episode has its own stream, which goes on
// from plan to plan. What an episode draws depends on nothing but its key, its
// replan and the iteration, so that any batch gives the same numbers.
type Keyed struct {
	Device     device.Device
	Keys       []uint64 // one an episode
	Replan     int      // plans made before by these episodes
	Iterations int      // of a plan
}

// Normal fills the rows of episode e with the normals of its stream that
// follow those of all earlier iterations and plans.
func (k Keyed) Normal(dst device.Mat, iteration int) {
	perEpisode := uint64(dst.Len() / len(k.Keys))
	k.Device.Normal(dst, k.Keys, uint64(k.Replan*k.Iterations+iteration)*perEpisode)
}

// Clip names the bounds that iCEM clips to (docs/sources.md#icem-clip).
type Clip string

const (
	// ClipRaw is the original: the task's own bounds, applied to z-scored
	// actions. It looks unintended, but is behind the published numbers.
	ClipRaw Clip = "raw"
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
