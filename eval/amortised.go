package eval

import (
	"context"
	"slices"

	"scalewm/model"
	"scalewm/model/device"
)

// Amortised is the Policy of a model.Actor: it chooses actions from latents, without a
// search. As a proposal it plans by rolling out the actor's own world.
type Amortised struct {
	model.Actor
	proposes bool
	encoder  *model.Encoder
	arena    *device.Arena
	goals    map[int][]float32 // pooled latents of goals, by episode
}

// NewAmortised returns the policy of a model. A policy that proposes answers
// o.Horizon blocks; others answer one action.
func NewAmortised(m model.Actor, proposes bool) *Amortised {
	return &Amortised{m, proposes, model.NewEncoder(m), device.NewArena(m.Device()), map[int][]float32{}}
}

// Close releases the policy's buffers, but not its model.
func (p *Amortised) Close() {
	p.encoder.Free()
	p.arena.Free()
}

// Free releases the policy and its model.
func (p *Amortised) Free() {
	p.Close()
	p.Actor.Free()
}

// Reset implements Policy. It drops the latents of the episodes' goals.
func (p *Amortised) Reset(ids []int) error {
	for _, id := range ids {
		delete(p.goals, id)
	}
	return nil
}

// Act implements Policy.
func (p *Amortised) Act(ctx context.Context, o Observation) ([]float32, error) {
	p.arena.Reset()
	goal, err := p.goal(ctx, o)
	if err != nil {
		return nil, err
	}
	start := p.arena.Mat(len(o.IDs)*p.Info().Patches, p.Info().Dim)
	if err := p.encoder.Into(ctx, start, o.Frames); err != nil {
		return nil, err
	}
	actions := p.action(start, goal, o.Left)
	if p.proposes {
		actions = p.plan(start, goal, o.Horizon)
	}
	z := make([]float32, actions.Len())
	p.Device().Download(z, actions)
	return z, p.Device().Err()
}

// goal returns the pooled latents of the episodes' goals, E x D. A goal is encoded once.
func (p *Amortised) goal(ctx context.Context, o Observation) (device.Mat, error) {
	info, size := p.Info(), len(o.Goals)/len(o.IDs)
	var fresh []int // episodes without a latent
	var frames []byte
	for i, id := range o.IDs {
		if p.goals[id] == nil {
			fresh, frames = append(fresh, id), append(frames, o.Goals[i*size:(i+1)*size]...)
		}
	}
	if len(fresh) > 0 {
		latents := p.arena.Mat(len(fresh)*info.Patches, info.Dim)
		if err := p.encoder.Into(ctx, latents, frames); err != nil {
			return device.Mat{}, err
		}
		z := make([]float32, len(fresh)*info.Dim)
		p.Device().Download(z, p.pooled(latents))
		for i, id := range fresh {
			p.goals[id] = z[i*info.Dim : (i+1)*info.Dim]
		}
	}
	var all []float32
	for _, id := range o.IDs {
		all = append(all, p.goals[id]...)
	}
	goal := p.arena.Mat(len(o.IDs), info.Dim)
	p.Device().Upload(goal, all)
	return goal, nil
}

// pooled returns the policy's view of latents, n x D.
func (p *Amortised) pooled(latents device.Mat) device.Mat {
	z := p.arena.Mat(latents.Rows/p.Info().Patches, latents.Cols)
	p.Pool(z, latents)
	return z
}

// action returns an action for each latent, n x A.
func (p *Amortised) action(latents, goal device.Mat, left []int) device.Mat {
	steps := make([]float32, len(left))
	for i, n := range left {
		steps[i] = float32(n)
	}
	column := p.arena.Mat(len(left), 1)
	p.Device().Upload(column, steps)
	actions := p.arena.Mat(len(left), p.Info().ActionDim())
	p.Actor.Act(actions, p.pooled(latents), goal, column)
	return actions
}

// plan returns plans of h blocks, E x h*ActionWidth. The policy chooses one action for each
// block, which the block repeats, from the latent that the world predicts for the block's
// start. The steps left are those to the end of the plan, where a search compares the
// latent with the goal's.
func (p *Amortised) plan(start, goal device.Mat, h int) device.Mat {
	d, info := p.Device(), p.Info()
	plans := p.arena.Mat(goal.Rows, h*info.ActionWidth)
	latents := start
	for b := range h {
		if b > 0 {
			latents = p.arena.Mat(start.Rows, start.Cols)
			p.Rollout(latents, start, plans.Columns(0, b*info.ActionWidth), b)
		}
		action := p.action(latents, goal, slices.Repeat([]int{(h - b) * info.FrameSkip}, goal.Rows))
		for k := range info.FrameSkip {
			d.Copy(plans.Columns(b*info.ActionWidth+k*action.Cols, action.Cols), action)
		}
	}
	return plans
}
