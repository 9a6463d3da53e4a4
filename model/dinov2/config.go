// Package dinov2 implements the frozen encoder of DINO-WM (docs/sources.md#dinov2): a
// ViT with LayerScale, whose patch tokens are the features of a frame. It runs in
// evaluation mode only.
//
// Read reads published weights from a file and returns them with their geometry. New
// declares an Encoder in a set of parameters, File.Set uploads a file's weights into
// it, and Encoder.Into computes features. Without a file the weights can be random.
// The package does not depend on world models.
package dinov2

import (
	"fmt"
	"slices"

	"scalewm/model/nn"
)

// Hub is the rule for resampling positions in the code that was published with the
// weights. The empty string is the rule of the transformers library
// (docs/sources.md#dinov2).
const Hub = "hub"

// Config is the geometry of a backbone.
type Config struct {
	Width     int `toml:"width" json:"width"`
	Layers    int `toml:"layers" json:"layers"`
	Heads     int `toml:"heads" json:"heads"`
	MLP       int `toml:"mlp" json:"mlp"`               // hidden width of a layer's MLP
	Patch     int `toml:"patch" json:"patch"`           // edge of a patch in pixels
	Positions int `toml:"positions" json:"positions"`   // edge of the stored position grid in patches
	FrameSize int `toml:"frame_size" json:"frame_size"` // edge of the frames in pixels
	// Resample is the rule by which the position table is resampled to the frames'
	// grid: "" or Hub. The two differ in the ratio of the grids.
	Resample string `toml:"resample" json:"resample,omitempty"`
}

// Small returns the published facebook/dinov2-small for frames of 224 pixels.
func Small() Config {
	return Config{Width: 384, Layers: 12, Heads: 6, MLP: 1536, Patch: 14, Positions: 37, FrameSize: 224}
}

// SmallName is the name of Small, the backbone of the paper's DINO-WM.
const SmallName = "dinov2-small"

// smallFiles are the SHA-256 of the published files of Small: model.safetensors of
// Hugging Face, and dinov2_vits14_pretrain.pth of the hub (docs/sources.md#dinov2-files).
var smallFiles = []string{
	"ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
	"b938bf1bc15cd2ec0feacfe3a1bb553fe8ea9ca46a7e1d8d00217f29aef60cd9",
}

// Name describes a backbone for readers: SmallName if its file has a published hash,
// otherwise what is known from its geometry. It begins with SmallName if the geometry is
// that of Small, whose weights work with any size of frames and position grid.
func (c Config) Name(sha256 string) string {
	small := Small()
	small.FrameSize, small.Positions, small.Resample = c.FrameSize, c.Positions, c.Resample
	switch {
	case c != small:
		return fmt.Sprintf("DINOv2 (layers %d, width %d, heads %d, MLP %d, patch %d)", c.Layers, c.Width, c.Heads, c.MLP, c.Patch)
	case slices.Contains(smallFiles, sha256):
		return SmallName
	}
	return SmallName + " by its geometry"
}

// side returns the edge of a frame in patches.
func (c Config) side() int { return c.FrameSize / c.Patch }

// Patches returns P, the number of feature rows per frame.
func (c Config) Patches() int { return c.side() * c.side() }

// Validate returns an error that names the first invalid field.
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
	case c.FrameSize < c.Patch: // pixels beyond the last complete patch are dropped, as in transformers
		return fmt.Errorf("backbone: patch %d is larger than frame_size %d (hint: choose a divisor)", c.Patch, c.FrameSize)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("backbone: heads %d do not divide width %d (hint: choose a divisor)", c.Heads, c.Width)
	case c.Resample != "" && c.Resample != Hub:
		return fmt.Errorf("backbone: resample is %q (hint: leave it out for transformers' rule, or use %q)", c.Resample, Hub)
	}
	return nil
}

// vit returns the geometry in the form that nn.NewViT takes.
func (c Config) vit() nn.ViTConfig {
	return nn.ViTConfig{ImageSize: c.FrameSize, Patch: c.Patch, Width: c.Width, Layers: c.Layers, Heads: c.Heads, MLP: c.MLP,
		Positions: c.Positions, Kind: nn.DINOv2}
}

// FrameFLOP returns the floating point operations of the matrix multiplications for
// one frame, with a multiply-add as two operations.
func (c Config) FrameFLOP() float64 {
	patches, w := float64(c.Patches()), float64(c.Width)
	tokens := patches + 1
	layer := tokens * (4*w*w + 2*tokens*w + 2*w*float64(c.MLP))
	return 2 * (patches*float64(3*c.Patch*c.Patch)*w + float64(c.Layers)*layer)
}

// table returns the position table for the frames' grid, (1 + P) x Width, resampled
// from the stored one in float32, as both rules do.
func (c Config) table(stored []float32) []float32 {
	from, to := c.Positions, c.side()
	ratio := float32(from) / float32(to)
	// The hub's code passes a scale factor, enlarged by 0.1 patches so that rounding
	// does not make the result one patch smaller.
	if c.Resample == Hub {
		ratio = float32(float64(from) / (float64(to) + 0.1))
	}
	return nn.ResamplePositions(stored, c.Width, from, to, ratio)
}
