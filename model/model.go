// Package model says what a world model is to those who use one: it encodes
// frames into latents of P patches x D numbers and predicts the latents that
// follow from blocks of actions. Families live below it (lewm), as do
// layers (nn), objectives, training and weights. It knows no task and no simulator.
package model

import "scalewm/model/device"

// Schema is the version of the checkpoint sidecar that this program writes.
const Schema = 1

// Info is the shape of a world model.
type Info struct {
	Kind        string `json:"kind"`         // name of the family
	Patches     int    `json:"patches"`      // P latents a frame
	Dim         int    `json:"dim"`          // D numbers a latent
	History     int    `json:"history"`      // frames the predictor sees
	FrameSize   int    `json:"frame_size"`   // edge of the frames it encodes, pixels
	Patch       int    `json:"-"`            // edge of the encoder's patches, pixels
	ActionWidth int    `json:"action_width"` // numbers of a block: frame skip x action dim
	FrameSkip   int    `json:"frame_skip"`
	// CostMean: the planning cost is a mean over P*D (DINO-WM), not a sum (LeWM family).
	CostMean bool `json:"cost_mean"`
	// Backbone is the SHA-256 of the weights of a frozen encoder; "" where the encoder learns.
	Backbone string `json:"backbone,omitempty"`
	// Resample is how a frozen encoder resamples its table of positions, of which its features depend.
	Resample string `json:"-"`
}

// ClipFrames is T, the frames of a training clip.
func (i Info) ClipFrames() int { return i.History + 1 }

// ActionDim is the numbers of one action of the task.
func (i Info) ActionDim() int { return i.ActionWidth / i.FrameSkip }

// FrameBytes is the size of a frame.
func (i Info) FrameBytes() int { return 3 * i.FrameSize * i.FrameSize }

// SplitBlock divides the width of an action block into env steps and numbers a step,
// for published configs, which do not say how: every published data set has 5 steps.
func SplitBlock(width int) (frameSkip, actionDim int) {
	const published = 5
	if width%published == 0 {
		return published, width / published
	}
	return 1, width
}

// World is a model in evaluation mode on one device. It is used by one
// goroutine at a time.
type World interface {
	Info() Info
	Device() device.Device
	// Encode writes the latents of n frames (FrameSize^2 x 3 bytes each) into dst, (n*P) x D.
	Encode(dst device.Mat, frames device.Bytes, n int)
	// Rollout predicts from one context latent an episode, start (E*P) x D, under
	// candidates (E*C) x (H*ActionWidth) in z-scored action space. dst is
	// (E*C*P) x D: the latent after the last block. Those in between are what
	// the candidates' first blocks alone lead to.
	Rollout(dst, start, candidates device.Mat, h int)
	// PredictorCalls counts the predictor's calls for one candidate of h blocks (NFE).
	PredictorCalls(h int) int
	// Free gives the model's memory on its device back.
	Free()
}

// Predict is Rollout on the host's memory: start is E x P*D numbers, candidates of h blocks
// (E*C) x h*ActionWidth, and the result (E*C) x P*D, what each candidate leads to from its episode's start.
func Predict(w World, start, candidates []float32, h int) ([]float32, error) {
	return predict(w, start, candidates, nil, h)
}

// Costs are those of Predict's latents by Info: E x C distances from the episodes' goals, which are shaped as start.
func Costs(w World, start, candidates, goals []float32, h int) ([]float32, error) {
	return predict(w, start, candidates, goals, h)
}

// predict is Predict, or Costs where there are goals.
func predict(w World, start, candidates, goals []float32, h int) ([]float32, error) {
	d, info := w.Device(), w.Info()
	a := device.NewArena(d)
	defer a.Free()
	upload := func(x []float32, cols int) device.Mat {
		m := a.Mat(len(x)/cols, cols)
		d.Upload(m, x)
		return m
	}
	from, actions := upload(start, info.Dim), upload(candidates, h*info.ActionWidth)
	result := a.Mat(actions.Rows*info.Patches, info.Dim)
	w.Rollout(result, from, actions, h)
	if goals != nil {
		pred, episodes := result, from.Rows/info.Patches
		result = a.Mat(episodes, actions.Rows/episodes)
		d.LatentCost(result, pred, upload(goals, info.Dim), info.CostMean)
	}
	out := make([]float32, result.Len())
	d.Download(out, result)
	return out, d.Err()
}

// Counted is a World whose work can be counted and whose training can be timed.
type Counted interface {
	World
	Geometry() Geometry // that it was declared with
}

// Differentiable is a World whose planning cost has a gradient.
type Differentiable interface {
	World
	// CostGrad judges candidates (E*C) x (H*ActionWidth) by the cost of Info
	// between the latent that Rollout predicts and the goal's: cost is E x C, start
	// and goal (E*P) x D. grad, shaped as candidates, gets the gradient of every
	// cost in its own candidate.
	CostGrad(cost, grad, start, goal, candidates device.Mat, h int)
}
