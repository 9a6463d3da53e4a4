// Package lewm implements the LeWorldModel family (docs/sources.md#model).
//
// The encoder is a ViT. A projector maps its class token to the latent of a frame,
// one row of D numbers (P = 1). The predictor is a causal transformer that predicts
// the next latent from up to History latents and the action blocks that follow each
// of them. The methods LeWM, SCALE and Aux share these models and differ only in
// their loss.
//
// Config is the geometry (model.Geometry and model.Section), and Model is a model in
// training and in evaluation (model.Learner, model.Differentiable). Importing the
// package registers the family. It depends on layers and on the kernels' contract,
// but not on tasks, files or planners.
package lewm

import (
	"cmp"
	"fmt"
	"strconv"
)

// Config is the geometry of a model, the [model] table of a preset.
type Config struct {
	// Encoder.
	ImageSize int `toml:"image_size" json:"image_size"` // edge of the frames in pixels
	Patch     int `toml:"patch" json:"patch"`           // edge of a patch in pixels
	Width     int `toml:"width" json:"width"`
	Layers    int `toml:"layers" json:"layers"`
	Heads     int `toml:"heads" json:"heads"`
	MLP       int `toml:"mlp" json:"mlp"` // hidden width of a layer's MLP

	Dim int `toml:"dim" json:"dim"` // D, the width of a latent
	// Projector is the hidden width of both projectors. If it is 0, a projector is a
	// Linear and a BatchNorm. Presets have the key linear_projector for that.
	Projector       int  `toml:"projector" json:"projector"`
	LinearProjector bool `toml:"linear_projector,omitempty" json:"-"`

	// Predictor.
	PredictorDepth   int `toml:"predictor_depth" json:"predictor_depth"`
	PredictorHeads   int `toml:"predictor_heads" json:"predictor_heads"`
	PredictorHeadDim int `toml:"predictor_head_dim" json:"predictor_head_dim"`
	PredictorMLP     int `toml:"predictor_mlp" json:"predictor_mlp"`
	// Dimensions that only published configs can vary, and 0 for their defaults: the
	// width of the predictor's blocks (default dim) and of its output (dim), the
	// hidden width of its projector (projector), and that of the action embedder in
	// units of dim (4).
	PredictorWidth int `toml:"-" json:"predictor_width,omitempty"`
	PredictorOut   int `toml:"-" json:"predictor_out,omitempty"`
	PredProjector  int `toml:"-" json:"pred_projector,omitempty"`
	ActionScale    int `toml:"-" json:"action_scale,omitempty"`

	Dropout float64 `toml:"dropout" json:"dropout"` // of the predictor; the encoder has none

	History   int `toml:"history" json:"history"`       // frames that the predictor sees
	FrameSkip int `toml:"frame_skip" json:"frame_skip"` // env steps between frames of a clip
	// Smoothed is the number of channels of the action embedder's convolution.
	Smoothed int `toml:"smoothed_dim" json:"smoothed_dim"`
	// ActionDim is the number of components of the task's actions. Presets do not set
	// it.
	ActionDim int `toml:"-" json:"action_dim"`
}

// ActionWidth returns A, the width of an action block.
func (c Config) ActionWidth() int { return c.FrameSkip * c.ActionDim }

// Describe implements model.Geometry.
func (c Config) Describe() (encoder, latents, predictor string) {
	return fmt.Sprintf("%d px, patch %d, %d layers of %d, %d heads", c.ImageSize, c.Patch, c.Layers, c.Width, c.Heads), strconv.Itoa(c.Dim),
		fmt.Sprintf("%d frames, %d blocks, %d heads of %d", c.History, c.PredictorDepth, c.PredictorHeads, c.PredictorHeadDim)
}

// Tokens returns the number of tokens of a frame: its patches and the class token.
func (c Config) Tokens() int { g := c.ImageSize / c.Patch; return g*g + 1 }

// actionHidden returns the hidden width of the action embedder.
func (c Config) actionHidden() int { return cmp.Or(c.ActionScale, 4) * c.Dim }

// Validate returns an error that names the first invalid field. Upper limits keep the
// sizes of malformed sidecars from overflowing or exhausting memory.
func (c Config) Validate() error {
	positive := []struct {
		name string
		v    int
	}{{"image_size", c.ImageSize}, {"patch", c.Patch}, {"width", c.Width}, {"layers", c.Layers}, {"heads", c.Heads},
		{"mlp", c.MLP}, {"dim", c.Dim}, {"predictor_depth", c.PredictorDepth},
		{"predictor_heads", c.PredictorHeads}, {"predictor_head_dim", c.PredictorHeadDim}, {"predictor_mlp", c.PredictorMLP},
		{"history", c.History}, {"frame_skip", c.FrameSkip}, {"smoothed_dim", c.Smoothed}, {"action_dim", c.ActionDim}}
	for _, f := range positive {
		if f.v < 1 || f.v > 1<<16 {
			return fmt.Errorf("model: %s is %d (hint: from 1 to %d; the published model's are in presets/paper.toml)", f.name, f.v, 1<<16)
		}
	}
	for _, v := range []int{c.Projector, c.PredictorWidth, c.PredictorOut, c.PredProjector, c.ActionScale} {
		if v < 0 || v > 1<<16 {
			return fmt.Errorf("model: projector %d, predictor_width %d, predictor_out %d, pred_projector %d, action_scale %d (hint: the published projector is 2048; leave the others 0)",
				c.Projector, c.PredictorWidth, c.PredictorOut, c.PredProjector, c.ActionScale)
		}
	}
	switch {
	case c.Layers > 1000 || c.PredictorDepth > 1000:
		return fmt.Errorf("model: layers %d and predictor_depth %d (hint: the published model has 12 and 6)", c.Layers, c.PredictorDepth)
	case c.ImageSize < c.Patch: // pixels beyond the last complete patch are dropped, as in stable-worldmodel
		return fmt.Errorf("model: patch %d is larger than image_size %d (hint: choose a divisor)", c.Patch, c.ImageSize)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("model: heads %d do not divide width %d (hint: choose a divisor)", c.Heads, c.Width)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("model: dropout is %g (hint: it must be in [0, 1))", c.Dropout)
	}
	return nil
}
