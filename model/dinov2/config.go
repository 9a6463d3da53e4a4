// Package dinov2 is the frozen encoder of DINO-WM (docs/sources.md#dinov2): a ViT with
// LayerScale whose patch tokens are the features of a frame. Its weights come
// from a published file, or are random where none can be had. It runs in
// evaluation mode only and knows no world model.
package dinov2

import (
	"fmt"

	"scalewm/model/nn"
)

// Hub is the resampling rule of the code that was published with the weights; the
// empty rule is that of transformers (docs/sources.md#dinov2).
const Hub = "hub"

// Config is the geometry of a backbone.
type Config struct {
	Width     int `toml:"width" json:"width"`
	Layers    int `toml:"layers" json:"layers"`
	Heads     int `toml:"heads" json:"heads"`
	MLP       int `toml:"mlp" json:"mlp"`               // hidden width of a layer
	Patch     int `toml:"patch" json:"patch"`           // edge of a patch, pixels
	Positions int `toml:"positions" json:"positions"`   // edge of the stored position table, patches
	FrameSize int `toml:"frame_size" json:"frame_size"` // edge of the frames, pixels
	// Resample is how the table is brought to the frames' patches: "" or Hub.
	Resample string `toml:"resample" json:"resample,omitempty"`
}

// Small is the published facebook/dinov2-small for frames of 224 pixels.
func Small() Config {
	return Config{Width: 384, Layers: 12, Heads: 6, MLP: 1536, Patch: 14, Positions: 37, FrameSize: 224}
}

// side is the edge of a frame in patches.
func (c Config) side() int { return c.FrameSize / c.Patch }

// Patches is P, the features of a frame.
func (c Config) Patches() int { return c.side() * c.side() }

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		v, at int
	}{{"width", c.Width, 1 << 13}, {"layers", c.Layers, 1000}, {"heads", c.Heads, 1 << 10}, {"mlp", c.MLP, 1 << 15},
		{"patch", c.Patch, 1 << 10}, {"positions", c.Positions, 1 << 10}, {"frame_size", c.FrameSize, 1 << 12}} {
		if f.v < 1 || f.v > f.at {
			return fmt.Errorf("backbone: %s is %d (hint: it must be in 1 to %d)", f.name, f.v, f.at)
		}
	}
	switch {
	case c.FrameSize < c.Patch: // the original drops what a patch does not divide
		return fmt.Errorf("backbone: patch %d is larger than frame_size %d (hint: choose a divisor)", c.Patch, c.FrameSize)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("backbone: heads %d do not divide width %d (hint: choose a divisor)", c.Heads, c.Width)
	case c.Resample != "" && c.Resample != Hub:
		return fmt.Errorf("backbone: resample is %q (hint: leave it out for transformers' rule, or say %q)", c.Resample, Hub)
	}
	return nil
}

// vit is the config as layers know it.
func (c Config) vit() nn.ViTConfig {
	return nn.ViTConfig{ImageSize: c.FrameSize, Patch: c.Patch, Width: c.Width, Layers: c.Layers, Heads: c.Heads, MLP: c.MLP,
		Positions: c.Positions, Kind: nn.DINOv2}
}

// FrameFLOP counts the floating point operations of a frame's matrix products, a
// multiply-add as two.
func (c Config) FrameFLOP() float64 {
	patches, w := float64(c.Patches()), float64(c.Width)
	tokens := patches + 1
	layer := tokens * (4*w*w + 2*tokens*w + 2*w*float64(c.MLP))
	return 2 * (patches*float64(3*c.Patch*c.Patch)*w + float64(c.Layers)*layer)
}

// table is the position table for the frames, made from the stored one, in float32 as
// both rules do.
func (c Config) table(stored []float32) []float32 {
	from, to := c.Positions, c.side()
	ratio := float32(from) / float32(to)
	if c.Resample == Hub { // that code asks for a factor, a little larger so that rounding cannot cost a patch
		ratio = float32(float64(from) / (float64(to) + 0.1))
	}
	return nn.ResamplePositions(stored, c.Width, from, to, ratio)
}
