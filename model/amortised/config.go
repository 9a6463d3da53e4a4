// Package amortised implements policies that answer an action from the latents of a frame
// and of a goal, without a search (docs/sources.md#policies): the families gcidm and gcbc.
//
// A policy is trained on the latents of another checkpoint, its encoder, which may be of
// any family of world models and does not change. An encoder with several patches is
// pooled: the policy sees the mean of a frame's patches.
//
// Config is the geometry (model.Geometry) of both families, which differ in their
// network, GCIDM or GCBC. Model is a policy in training, and its World is a model.Actor.
// A checkpoint includes the encoder's tensors, so that it is complete without other
// files. Importing the package registers both families. It depends on layers and on the
// kernels' contract, but not on tasks or planners; it knows the encoder by its
// model.Geometry only.
package amortised

import (
	"encoding/json"
	"errors"
	"fmt"

	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Config is the geometry of a policy.
type Config struct {
	Network   Network  `toml:"network" json:"network"`
	ActionDim int      `toml:"-" json:"action_dim"` // components of the task's actions
	Encoder   *Encoder `toml:"-" json:"encoder"`    // nil in a preset, which serves any encoder
}

// Network is the geometry of the layers that a policy trains.
type Network interface {
	// family returns the name of the network's family, history the number of frames that
	// it sees, and maxGoal model.Info.MaxGoal.
	family() string
	history() int
	maxGoal() int
	// validate returns an error that names the first invalid field.
	validate() error
	// declare declares the layers' tensors for latents of dim numbers.
	declare(s *nn.Set, dim, actions int) layers
	// flop returns the operations of a forward pass over clips of that many frames.
	flop(clips, frames, dim, actions int) float64
	// describe describes the layers for human readers, and hydra for PyTorch, with tensors
	// that its modules have and the layers do not.
	describe() string
	hydra(dim, actions int) (config any, more []tensorfile.Tensor)
}

// layers are the layers of a policy.
type layers interface {
	// Forward returns the action of each frame, (n*h) x A, from the latents z of h frames,
	// (n*h) x D, goal, n x D, and left, n x 1, the number of env steps to the goal.
	Forward(p *nn.Pass, z, goal, left device.Mat) device.Mat
	// Backward adds the gradients of the parameters for that of the actions.
	Backward(p *nn.Pass, dactions device.Mat)
	// Acting returns Forward for weights that do not change any more.
	Acting(p *nn.Pass) func(p *nn.Pass, z, goal, left device.Mat) device.Mat
}

// Encoder identifies the checkpoint whose latents a policy sees.
type Encoder struct {
	Arm      string         `json:"arm"`    // name of its arm, such as lewm or scale@half
	Kind     string         `json:"kind"`   // its family
	Geometry model.Geometry `json:"config"` // in the JSON form of a sidecar
	SHA256   string         `json:"sha256"` // of its weights file

	// tensors are its weights in a new training. They are nil if a checkpoint of the
	// policy holds them.
	tensors []tensorfile.Tensor
}

// UnmarshalJSON decodes the encoder in a sidecar.
func (e *Encoder) UnmarshalJSON(b []byte) error {
	var s struct {
		Arm, Kind, SHA256 string
		Config            json.RawMessage
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if err := safefile.CheckNames(s); err != nil {
		return err
	}
	if isPolicy(s.Kind) { // checked before its config is decoded, which could nest without a limit
		return errPolicy
	}
	f, err := model.FamilyOf(s.Kind)
	if err != nil {
		return err
	}
	*e = Encoder{Arm: s.Arm, Kind: s.Kind, SHA256: s.SHA256}
	e.Geometry, err = f.Decode(s.Config)
	return err
}

// isPolicy reports whether a family is of this package.
func isPolicy(family string) bool { return family == model.FamilyGCIDM || family == model.FamilyGCBC }

// Errors about an encoder.
var (
	errPolicy    = errors.New("the encoder is itself a policy (hint: give the checkpoint of a world model, such as that of lewm)")
	errNoEncoder = errors.New("a policy is trained on the latents of a checkpoint, and none is given (hint: train --encoder FOLDER)")
)

// decode implements model.Family.Decode for networks of the type N.
func decode[N Network](config []byte) (model.Geometry, error) {
	var c struct {
		Network   N
		ActionDim int `json:"action_dim"`
		Encoder   *Encoder
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("the sidecar's config: %v (hint: the file is torn; train again)", err)
	}
	if c.Encoder == nil || c.Encoder.Geometry == nil {
		return nil, errors.New("the sidecar's config names no encoder (hint: the file is torn; train again)")
	}
	return Config{c.Network, c.ActionDim, c.Encoder}, nil
}

// on returns the geometry of a policy on the latents of backbone, a *model.FrozenEncoder,
// or on none if it is of another type.
func on(n Network, actionDim int, backbone any) (model.Geometry, error) {
	c := Config{Network: n, ActionDim: actionDim}
	if f, _ := backbone.(*model.FrozenEncoder); f != nil {
		c.Encoder = &Encoder{Arm: f.Arm, Kind: f.Geometry.Info().Kind, Geometry: f.Geometry, SHA256: f.SHA256, tensors: f.Tensors}
	}
	return c, c.Validate()
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if err := c.Network.validate(); err != nil {
		return err
	}
	if err := inRange(c.Network.family(), field{"action_dim", c.ActionDim, 1, 1 << 12}); err != nil || c.Encoder == nil {
		return err
	}
	e := c.Encoder
	if err := e.Geometry.Validate(); err != nil {
		return fmt.Errorf("the encoder of a policy: %w", err)
	}
	if g, ok := e.Geometry.(interface{ Usable() error }); ok && g.Usable() != nil {
		return fmt.Errorf("the encoder of a policy: %w", g.Usable())
	}
	info := e.Geometry.Info()
	switch {
	case info.Goals:
		return errPolicy
	case info.ActionDim() != c.ActionDim:
		return fmt.Errorf("the encoder %s was trained with actions of %d numbers, the policy's have %d (hint: give an encoder of the same task)", e.Arm, info.ActionDim(), c.ActionDim)
	}
	return nil
}

// field is a number of a geometry, and its limits. Upper limits keep malformed sidecars
// from exhausting memory.
type field struct {
	name         string
	v, low, high int
}

// inRange returns an error that names the first field that is not within its limits.
func inRange(table string, fields ...field) error {
	for _, f := range fields {
		if f.v < f.low || f.v > f.high {
			return fmt.Errorf("%s: %s is %d (hint: from %d to %d; the published sizes are in presets/paper.toml)", table, f.name, f.v, f.low, f.high)
		}
	}
	return nil
}

// Info implements model.Geometry. It describes the training: a frame is one latent, and a
// clip consists of consecutive rows and a goal.
func (c Config) Info() model.Info {
	i := model.Info{Kind: c.Network.family(), Patches: 1, Dim: 1, History: c.Network.history(), FrameSize: 1, Patch: 1,
		ActionWidth: c.ActionDim, FrameSkip: 1, Goals: true, MaxGoal: c.Network.maxGoal()}
	if e := c.Encoder; e != nil {
		of := e.Geometry.Info()
		i.Dim, i.FrameSize, i.Patch, i.Resample, i.BackboneName = of.Dim, of.FrameSize, of.Patch, of.Resample, of.BackboneName
		i.Backbone, i.Encoder = e.SHA256, e.Arm
	}
	return i
}

// Describe implements model.Geometry.
func (c Config) Describe() (encoder, latents, predictor string) {
	if c.Encoder == nil {
		return "none", "none", c.Network.describe()
	}
	encoder, latents, _ = c.Encoder.Geometry.Describe()
	if c.Encoder.Geometry.Info().Patches > 1 {
		latents += ", their mean"
	}
	return fmt.Sprintf("%s, frozen: %s", c.Encoder.Arm, encoder), latents, c.Network.describe()
}

// Hydra implements model.Geometry. No class of the reference implementations holds both
// parts: each has its own tree.
func (c Config) Hydra() (any, []tensorfile.Tensor) {
	network, masks := c.Network.hydra(c.Info().Dim, c.ActionDim)
	encoder, more := c.Encoder.Geometry.Hydra()
	for _, t := range more {
		t.Name = encoderPrefix + t.Name
		masks = append(masks, t)
	}
	return map[string]any{"policy": network, "encoder": encoder}, masks
}

// StepFLOP implements model.Geometry: one step on batch clips, forward and backward,
// including the encoder, which encodes all frames.
func (c Config) StepFLOP(batch, _ int) float64 {
	i := c.Info()
	return 3*c.Network.flop(batch, i.History, i.Dim, c.ActionDim) + c.EncodeFLOP(batch*i.ClipFrames())
}

// EncodeFLOP implements model.Geometry: the operations of the encoder.
func (c Config) EncodeFLOP(frames int) float64 {
	if c.Encoder == nil {
		return 0
	}
	return c.Encoder.Geometry.EncodeFLOP(frames)
}

// PlanFLOP implements model.Geometry. A rollout is the encoder's. Without an encoder
// there are only actions: one for each block.
func (c Config) PlanFLOP(candidates, h int) float64 {
	if c.Encoder == nil {
		return c.Network.flop(candidates*h, 1, 1, c.ActionDim)
	}
	return c.Encoder.Geometry.PlanFLOP(candidates, h)
}
