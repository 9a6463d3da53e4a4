// Package model defines what a world model is to the code that trains it or plans
// with it.
//
// A world model encodes a frame into a latent of P patches x D numbers, and predicts
// the latents that follow from blocks of actions. The package has two views of it:
//
//   - World is a model in evaluation mode. Planners call Encode and Rollout. Load
//     reads one from a checkpoint, and Encoder runs one over frames in host memory.
//   - Trainable is a model in training. Package model/train drives it.
//
// The architectures are in families, packages below this one (lewm, dinowm) that call
// Register. A family's Geometry is the shape of its models. The table of methods, in
// method.go, says which family and which loss terms a method has.
//
// The package does not depend on tasks or simulators. Layers are in model/nn, loss
// terms in model/objective, file formats in model/weights.
//
// Shapes in comments use these letters: B clips, T frames of a clip, N = B*T, D
// latent width, P patches, E episodes, C candidates, H horizon in blocks, A width of
// an action block, K pairs.
package model

import (
	"fmt"
	"strings"

	"scalewm/model/device"
)

// Schema is the version of the checkpoint sidecar. Read rejects other versions.
const Schema = 1

// Info is the shape of a world model.
type Info struct {
	Kind    string `json:"kind"`    // name of the family
	Patches int    `json:"patches"` // P, latent rows per frame
	Dim     int    `json:"dim"`     // D, numbers per latent row
	// History is the number of frames that the predictor sees.
	History int `json:"history"`
	// FrameSize is the edge of the square frames that the model encodes, and Patch
	// that of the encoder's patches, both in pixels.
	FrameSize int `json:"frame_size"`
	Patch     int `json:"-"`
	// ActionWidth is A, the numbers in an action block: FrameSkip env steps times the
	// components of one action.
	ActionWidth int `json:"action_width"`
	FrameSkip   int `json:"frame_skip"`
	// CostMean means that the planning cost is the mean over the P*D squared differences
	// (DINO-WM) instead of their sum (LeWM family).
	CostMean bool `json:"cost_mean"`
	// Backbone is the SHA-256 of the weights of a frozen encoder, or "" if the
	// encoder learns.
	Backbone string `json:"backbone,omitempty"`
	// BackboneName describes that encoder for readers, such as dinov2-small.
	BackboneName string `json:"-"`
	// Resample names the way in which a frozen encoder resamples its position table. Its
	// features depend on it, so caches of features are keyed by it.
	Resample string `json:"-"`

	// Goals says that the model is a policy: the last frame of a training clip is not the
	// next one but a goal, drawn uniformly from the later rows of the episode, at most
	// MaxGoal rows after the frame before it (0: any later row).
	Goals   bool `json:"-"`
	MaxGoal int  `json:"-"`
	// Encoder is the name of the arm whose checkpoint encodes the frames of a policy.
	Encoder string `json:"-"`
}

// paperBackbone is the encoder of the paper's DINO-WM (docs/sources.md#dinov2).
const paperBackbone = "dinov2-small"

// Note describes a frozen encoder that is not the paper's, for readers. It is "" for the
// paper's and for models without one.
func (i Info) Note() string {
	if strings.HasPrefix(i.BackboneName, paperBackbone) || i.BackboneName == "" {
		return ""
	}
	return fmt.Sprintf("the paper's backbone is %s; this is %s", paperBackbone, i.BackboneName)
}

// ClipFrames returns T, the number of frames in a training clip: the history and the
// frame that follows it.
func (i Info) ClipFrames() int { return i.History + 1 }

// ActionDim returns the number of components of one action of the task.
func (i Info) ActionDim() int { return i.ActionWidth / i.FrameSkip }

// FrameBytes returns the size in bytes of one RGB frame.
func (i Info) FrameBytes() int { return 3 * i.FrameSize * i.FrameSize }

// SplitBlock divides the width of an action block into env steps and numbers per
// step. Published configs give only the product. Every published data set uses 5
// steps per block, so a width that 5 does not divide is taken as one step.
func SplitBlock(width int) (frameSkip, actionDim int) {
	const published = 5
	if width%published == 0 {
		return published, width / published
	}
	return 1, width
}

// World is a model in evaluation mode on one device. It must be used by one goroutine
// at a time.
type World interface {
	Info() Info
	Device() device.Device
	// Encode writes the latents of n frames, FrameSize x FrameSize x 3 bytes each, to
	// dst, (n*P) x D.
	Encode(dst device.Mat, frames device.Bytes, n int)
	// Rollout predicts the effect of action sequences. start, (E*P) x D, holds one
	// latent per episode. candidates, (E*C) x (H*A), holds C sequences of h blocks
	// for each episode, z-scored as in training. dst, (E*C*P) x D, receives the
	// latent after the last block of each. The intermediate latents are not returned:
	// a rollout of the first blocks alone gives the same values.
	Rollout(dst, start, candidates device.Mat, h int)
	// PredictorCalls returns the number of evaluations of the predictor (NFE) for one
	// candidate of h blocks.
	PredictorCalls(h int) int
	// Free releases the model's memory on its device.
	Free()
}

// Predict is Rollout on host memory. start has E x P*D numbers and candidates (E*C) x
// h*A. The result has (E*C) x P*D numbers: the latent that each candidate reaches
// from its episode's start.
func Predict(w World, start, candidates []float32, h int) ([]float32, error) {
	return predict(w, start, candidates, nil, h)
}

// Costs returns the planning costs of the latents that Predict computes: E x C
// distances to the goals of the episodes. goals is shaped as start. Info.CostMean
// selects the kind of distance.
func Costs(w World, start, candidates, goals []float32, h int) ([]float32, error) {
	return predict(w, start, candidates, goals, h)
}

// predict implements Predict, and Costs if goals is not nil.
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

// Counted is a World that exposes its geometry, so that its work can be counted in
// floating point operations and its training timed.
type Counted interface {
	World
	// Geometry returns the geometry that the model was declared with.
	Geometry() Geometry
}

// Differentiable is a World whose planning cost has a gradient with respect to the
// actions.
type Differentiable interface {
	World
	// CostGrad computes the planning cost of candidates, (E*C) x (H*A), and its
	// gradient. The cost is the distance between the latent that Rollout predicts and the
	// goal's: as defined by Info, or by metric if that is not nil. cost is E x C, and
	// start and goal are (E*P) x D. grad, shaped as candidates, receives the gradient of
	// each candidate's cost with respect to that candidate.
	CostGrad(cost, grad, start, goal, candidates device.Mat, h int, metric EndCost)
}

// EndCost computes the costs of n predicted latents, z, (n*P) x D, and of their goals, shaped
// as z. It sets cost, n x 1, and dz, shaped as z, to the gradient of each cost with respect
// to its latent.
type EndCost func(cost, dz, z, goal device.Mat)

// Actor is a World with a policy on its latents. The methods of World are those of the
// checkpoint that encodes its frames.
type Actor interface {
	World
	// Pool writes the policy's view of n latents, (n*P) x D, to dst, n x D: the mean over
	// the P patches of each.
	Pool(dst, latents device.Mat)
	// Act writes the actions of one env step to dst, n x Info.ActionDim, z-scored as in
	// training. z and goal, n x D, are pooled latents of the current frames and of the
	// goals. left, n x 1, is the number of env steps in which each goal is to be reached.
	Act(dst, z, goal, left device.Mat)
}
