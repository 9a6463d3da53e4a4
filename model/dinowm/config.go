// Package dinowm implements the DINO-WM family (docs/sources.md#dino-wm).
//
// The encoder is a frozen DINOv2, whose P patch tokens of D numbers are the latent of
// a frame. The predictor is a transformer over the patches of the last frames, which
// predicts the patch tokens of the next frame. Its tokens are a patch's features
// followed by a few numbers that embed the action, the same for all patches of a
// frame.
//
// Config is the geometry (model.Geometry), and Model is a model in training and in
// evaluation. A Model is not a model.Learner: its encoder does not change, so that
// training works on features that were computed before. Importing the package
// registers the family. It depends on layers and on the kernels' contract, but not on
// tasks or planners.
package dinowm

import (
	"fmt"
	"strings"

	"scalewm/model"
	"scalewm/model/dinov2"
)

// Config is the geometry of a model. It is part of the [dinowm] table of a preset.
type Config struct {
	Backbone dinov2.Config `toml:"backbone" json:"backbone"`
	// SHA256 identifies the backbone's weights, see With and Random.
	SHA256 string `toml:"-" json:"backbone_sha256"`

	ActionEmbedding  int     `toml:"action_embedding" json:"action_embedding"` // numbers of a token that embed the action
	PredictorDepth   int     `toml:"predictor_depth" json:"predictor_depth"`
	PredictorHeads   int     `toml:"predictor_heads" json:"predictor_heads"`
	PredictorHeadDim int     `toml:"predictor_head_dim" json:"predictor_head_dim"`
	PredictorMLP     int     `toml:"predictor_mlp" json:"predictor_mlp"`
	Dropout          float64 `toml:"dropout" json:"dropout"`                 // of the predictor
	PositionFrames   int     `toml:"position_frames" json:"position_frames"` // of the position table: 4 in the authors' code, 3 in stable-worldmodel
	History          int     `toml:"history" json:"history"`                 // frames that the predictor sees
	FrameSkip        int     `toml:"frame_skip" json:"frame_skip"`           // env steps between frames of a clip
	// ActionDim is the number of components of the task's actions. Presets do not set
	// it.
	ActionDim int `toml:"-" json:"action_dim"`

	// Proprio is the width of the proprioception in stable-worldmodel's variant,
	// whose tokens hold ProprioEmbedding more numbers. Checkpoints of that variant
	// can be converted but not trained here. 0: none.
	Proprio          int `toml:"-" json:"proprio,omitempty"`
	ProprioEmbedding int `toml:"-" json:"proprio_embedding,omitempty"`

	// Weights are the backbone's weights in a new training. nil means that they are
	// random, or that a checkpoint holds them.
	Weights *dinov2.File `toml:"-" json:"-"`
}

// With returns the geometry with the backbone in f.
func (c Config) With(f *dinov2.File) Config {
	c.Backbone, c.SHA256, c.Weights = f.Config, f.SHA256, f
	return c
}

// ActionWidth returns A, the width of an action block.
func (c Config) ActionWidth() int { return c.FrameSkip * c.ActionDim }

// State returns the numbers of a token that are predicted: features and
// proprioception.
func (c Config) State() int { return c.Backbone.Width + c.ProprioEmbedding }

// Token returns the width of a token.
func (c Config) Token() int { return c.State() + c.ActionEmbedding }

// Info implements model.Geometry.
func (c Config) Info() model.Info {
	return model.Info{Kind: model.FamilyDinoWM, Patches: c.Backbone.Patches(), Dim: c.Backbone.Width, History: c.History,
		FrameSize: c.Backbone.FrameSize, Patch: c.Backbone.Patch, Resample: c.Backbone.Resample, ActionWidth: c.ActionWidth(), FrameSkip: c.FrameSkip, CostMean: true, Backbone: c.SHA256, BackboneName: c.backboneName()}
}

// backboneName describes the backbone for readers.
func (c Config) backboneName() string {
	name := c.Backbone.Name(c.SHA256)
	if c.SHA256 == c.Random().SHA256 {
		name = "a random " + strings.TrimSuffix(name, " by its geometry")
	}
	return name
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if err := c.Backbone.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		v, most int
	}{{"action_embedding", c.ActionEmbedding, 1 << 12}, {"predictor_depth", c.PredictorDepth, 1000}, {"predictor_heads", c.PredictorHeads, 1 << 12},
		{"predictor_head_dim", c.PredictorHeadDim, 1 << 12}, {"predictor_mlp", c.PredictorMLP, 1 << 16}, {"position_frames", c.PositionFrames, 1 << 10},
		{"history", c.History, c.PositionFrames}, {"frame_skip", c.FrameSkip, 1 << 12}, {"action_dim", c.ActionDim, 1 << 12}} {
		if f.v < 1 || f.v > f.most {
			return fmt.Errorf("dinowm: %s is %d (hint: from 1 to %d; the published model's are in presets/paper.toml)", f.name, f.v, f.most)
		}
	}
	if (c.Proprio > 0) != (c.ProprioEmbedding > 0) || min(c.Proprio, c.ProprioEmbedding) < 0 || max(c.Proprio, c.ProprioEmbedding) > 1<<12 {
		return fmt.Errorf("dinowm: proprio %d and proprio_embedding %d (hint: leave both 0, or both positive)", c.Proprio, c.ProprioEmbedding)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		return fmt.Errorf("dinowm: dropout is %g (hint: it must be in [0, 1))", c.Dropout)
	}
	return nil
}
