package eval

import (
	"context"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Policy is a model that chooses actions without a search. A policy that keeps state keeps
// it by the ids of episodes: which episodes share a call, and in which order, must not
// change an answer.
type Policy interface {
	Model
	// Reset is called before the first call for these episodes. An earlier evaluation may
	// have used the same ids, and may have been aborted.
	Reset(ids []int) error
	// Act returns the z-scored actions of the episodes of o, row by row: an E x A matrix, which
	// is one action for each episode, or an E x (k*ActionWidth) matrix, which is k blocks
	// each, from 1 to o.Horizon. A proposal returns o.Horizon blocks.
	Act(ctx context.Context, o Observation) ([]float32, error)
}

// Observation is what a policy knows of E episodes when it acts. A is the number of values
// of an action. The slices are valid until Act returns.
type Observation struct {
	// IDs are the episodes' indices in the job. They are the same in all calls of an
	// evaluation and nothing else: results must not depend on their values.
	IDs    []int
	Frames []byte // current frames, back to back, at the model's frame size
	Goals  []byte // goal frames; that of an id never changes, so its encoding can be cached
	Step   []int  // env steps taken
	Left   []int  // env steps left: Budget - Step
	// Previous are the last executed actions, E x A in the task's units, and PreviousZ the
	// same as z-scores. Before the first step the action is 0 in the task's units.
	Previous  []float64
	PreviousZ []float32
	Actions   dataset.Moments // scale z-scores to the task's units
	Low, High []float64       // bounds of one action, in the task's units
	Noise     []uint64        // keys for random draws, one per episode; combine them with Step
	Horizon   int             // the largest number of blocks of an answer
}

// caller calls a policy for episodes of a job.
type caller struct {
	policy  Policy
	rules   results.Rules
	spec    *envs.Spec
	actions dataset.Moments
	noise   func(ep *episode) uint64
}

// reset announces episodes to the policy.
func (c *caller) reset(eps []*episode) error {
	ids := make([]int, len(eps))
	for i, ep := range eps {
		ids[i] = ep.id
	}
	if err := c.policy.Reset(ids); err != nil {
		return fmt.Errorf("resetting a policy: %w", err)
	}
	return nil
}

// act returns one answer of the policy for each episode, z-scored, and its length in blocks;
// 0 means one action. It returns an error for an answer of another size, or if a number is
// not finite: executing it would corrupt the simulation and, as a proposal, every candidate
// of the search.
func (c *caller) act(ctx context.Context, eps []*episode) (z []float32, blocks int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	for _, ep := range eps {
		ep.result.PredictorCalls++
	}
	if z, err = c.policy.Act(ctx, c.observe(eps)); err != nil {
		return nil, 0, err
	}
	n, dim, width := len(z)/len(eps), c.spec.ActionDim, c.policy.Info().ActionWidth
	switch {
	case n*len(eps) == len(z) && n > 0 && n%width == 0 && n/width <= c.rules.Horizon:
		blocks = n / width
	case len(z) != len(eps)*dim:
		return nil, 0, fmt.Errorf("a policy answered %d numbers for %d episodes (hint: return %d x %d for one action each, or %d x (k*%d) for k blocks, k from 1 to %d)",
			len(z), len(eps), len(eps), dim, len(eps), width, c.rules.Horizon)
	}
	if i := slices.IndexFunc(z, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }); i >= 0 {
		return nil, 0, fmt.Errorf("a policy's plan has %g at %d (hint: look at what the model returns for one frame; its training may have diverged)", z[i], i%n)
	}
	return z, blocks, nil
}

// observe returns what the policy sees of the episodes.
func (c *caller) observe(eps []*episode) Observation {
	dim := c.spec.ActionDim
	o := Observation{Frames: startFrames(eps), Goals: goals(eps), Actions: c.actions, Low: c.spec.ActionLow, High: c.spec.ActionHigh, Horizon: c.rules.Horizon,
		Previous: make([]float64, len(eps)*dim), PreviousZ: make([]float32, len(eps)*dim)}
	for i, ep := range eps {
		o.IDs, o.Noise = append(o.IDs, ep.id), append(o.Noise, c.noise(ep))
		o.Step, o.Left = append(o.Step, ep.step), append(o.Left, c.rules.Budget-ep.step)
		copy(o.Previous[i*dim:], ep.previous)
	}
	for i, v := range o.Previous {
		o.PreviousZ[i] = float32((v - c.actions.Mean[i%dim]) / c.actions.Std[i%dim])
	}
	return o
}

// startFrames returns the episodes' current frames, back to back.
func startFrames(eps []*episode) []byte {
	all := make([]byte, 0, len(eps)*len(eps[0].frame))
	for _, ep := range eps {
		all = append(all, ep.frame...)
	}
	return all
}

// goals returns the episodes' goal frames, back to back.
func goals(eps []*episode) []byte {
	all := make([]byte, 0, len(eps)*len(eps[0].goalFrame))
	for _, ep := range eps {
		all = append(all, ep.goalFrame...)
	}
	return all
}
