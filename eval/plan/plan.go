// Package plan holds the planners. They see a batched cost and the kernels of
// a device, never a model or a task: E episodes side by side, C candidates each,
// sequences of W = H*A numbers in z-scored action space.
package plan

import (
	"context"

	"scalewm/model/device"
)

// Cost judges candidates, (E*C) x W; lower is better. dst is E x C. C may
// shrink from call to call (ICEM.Decay), but never grows.
type Cost interface {
	Costs(dst, candidates device.Mat) error
}

// GradCost is a Cost that knows its slope, as Gradient needs it.
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
	// Carried are sequences that an earlier plan left unexecuted, (E*n) x w with
	// w <= W and n < C: Plan.Elites without the columns that were executed.
	// ICEM.ShiftElites puts them first among the first samples, which keep their
	// own tails.
	Carried device.Mat
	// Trace, where set, is called after each iteration (tests, reports).
	Trace func(Step)
}

// Plan is what a solver found. Actions is E x W and belongs to the caller, who
// frees it; Cost is the solver's reported cost of each episode
// (docs/sources.md#planner-common).
type Plan struct {
	Actions device.Mat
	Cost    []float64
	NaNs    []int // costs of each episode that were NaN and counted as +Inf
	// Elites are the last kept elites, (E*n) x W, the caller's too: ICEM.ShiftElites only.
	Elites device.Mat
}

// Solver is a planner. Solvers keep no state from plan to plan.
type Solver interface {
	Solve(ctx context.Context, d device.Device, p Problem) (Plan, error)
}
