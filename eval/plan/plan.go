// Package plan implements the planners: CEM, ICEM, MPPI and Gradient, each a Solver.
//
// A planner searches for the sequence of actions with the lowest cost, for E episodes
// in one batch. It has C candidates per episode, each a sequence of W = H*A numbers
// in z-scored action space. It sees a batched Cost and the kernels of a device, but
// neither a model nor a task. All matrices stay on the device until the search ends.
//
// A plan of an episode is a function of its noise and its costs only. Noise, usually
// Keyed, gives each episode its own random stream, so that results do not depend on
// which episodes share a batch, and all arms of a paired comparison draw the same
// numbers.
package plan

import (
	"context"

	"scalewm/model/device"
)

// Cost computes the costs of candidates, (E*C) x W, and writes them to dst, E x C.
// Row e*C+c is candidate c of episode e. Lower is better.
type Cost interface {
	Costs(dst, candidates device.Mat) error
}

// GradCost is a Cost with a gradient, as Gradient requires.
type GradCost interface {
	Cost
	// CostGrads is Costs, and sets row e*C+c of grad, (E*C) x W, to the gradient of
	// dst[e,c] with respect to that candidate.
	CostGrads(dst, grad, candidates device.Mat) error
}

// Noise fills dst, (E*C) x W, with the standard normal numbers of an iteration,
// counted from 0. In a paired comparison every arm gets the same numbers (common
// random numbers), which reduces the variance of differences.
type Noise interface {
	Normal(dst device.Mat, iteration int)
}

// Problem describes a batch of plans. Width is W, and Horizon, the number of blocks,
// divides it.
type Problem struct {
	Episodes, Horizon, Width int
	Cost                     Cost
	Noise                    Noise
	// Init is the initial mean, E x W. If it is not given the initial mean is zero,
	// the data set's mean action.
	Init device.Mat
	// Low and High are the bounds of one action, in z-scored space (Clip.Bounds), to
	// which iCEM clips candidates. They are repeated over the width. nil means no
	// clipping. The other solvers never clip.
	Low, High []float64
	// Trace, if set, is called after each iteration. Tests use it.
	Trace func(Step)
}

// Plan is the result of a solver. Actions is E x W. The caller owns it and must free
// it. Cost is the cost that the solver reports for each episode
// (docs/sources.md#planner-common).
type Plan struct {
	Actions device.Mat
	Cost    []float64
	// NaNs counts the costs of each episode that were NaN or +Inf, over all
	// iterations. They rank last.
	NaNs []int
	// Blind reports for each episode that none of the costs of the last iteration was
	// finite, so that its actions were chosen by noise alone.
	Blind []bool
}

// Solver is a planner. Solvers have no state: each call of Solve starts from
// Problem.Init.
type Solver interface {
	Solve(ctx context.Context, d device.Device, p Problem) (Plan, error)
}

// Step is the state after an iteration. Its matrices are on the device and valid only
// during the call of Trace.
type Step struct {
	Iteration int
	Mean      device.Mat  // E x W, after the update; Gradient does not change it
	Std       device.Mat  // E x W, after the update; Gradient has none
	Costs     device.Mat  // E x C, with +Inf in place of NaN
	Elites    device.Ints // E x number of elites: candidates of each episode, best first
}

// KeyedNoise is counter-based noise. Each episode has its own stream, which continues from
// plan to plan. An episode's numbers depend only on its key, its number of earlier
// plans, and the iteration, and not on the batch or on the order of computation.
type KeyedNoise struct {
	Device     device.Device
	Keys       []uint64 // one per episode
	Replan     int      // number of earlier plans of these episodes
	Iterations int      // iterations per plan
}

// Normal implements Noise. It fills the C rows of episode e with the numbers of its
// stream that follow those of all earlier iterations and plans.
func (k KeyedNoise) Normal(dst device.Mat, iteration int) {
	perEpisode := uint64(dst.Len() / len(k.Keys))
	k.Device.Normal(dst, k.Keys, uint64(k.Replan*k.Iterations+iteration)*perEpisode)
}

// Clip selects the bounds to which iCEM clips (docs/sources.md#icem-clip).
type Clip string

const (
	// ClipRaw applies the task's bounds to z-scored actions without scaling them, as
	// stable-worldmodel does. It looks unintended, but the published numbers depend
	// on it.
	ClipRaw Clip = "raw"
	// ClipEnv applies the task's bounds as z-scores, which is the range that the task
	// executes.
	ClipEnv Clip = "env"
	// ClipNone disables clipping.
	ClipNone Clip = "none"
)

// Bounds returns Problem.Low and Problem.High. low and high are the task's bounds of
// one action, mean and std the scaler of actions.
func (c Clip) Bounds(low, high, mean, std []float64) (lo, hi []float64) {
	switch c {
	case ClipNone:
		return nil, nil
	case ClipEnv:
		return zScored(low, mean, std), zScored(high, mean, std)
	}
	return low, high
}

// zScored returns the z-scores of x.
func zScored(x, mean, std []float64) []float64 {
	z := make([]float64, len(x))
	for i := range z {
		z[i] = (x[i] - mean[i]) / std[i]
	}
	return z
}
