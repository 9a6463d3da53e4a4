package amortised

import (
	"fmt"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/nn"
)

// GCBC is the network of goal-conditioned behavioural cloning in stable-worldmodel
// (docs/sources.md#gcbc): the action that the data have in each frame of an episode that
// reaches the goal at any later time.
type GCBC struct {
	Depth   int `toml:"depth" json:"depth"`
	Heads   int `toml:"heads" json:"heads"`
	HeadDim int `toml:"head_dim" json:"head_dim"`
	MLP     int `toml:"mlp" json:"mlp"`
	// History is the number of frames of a training clip. The policy acts on one.
	History int `toml:"history" json:"history"`
}

func (g GCBC) family() string { return model.FamilyGCBC }
func (g GCBC) history() int   { return g.History }
func (g GCBC) maxGoal() int   { return 0 }

func (g GCBC) validate() error {
	// Below a depth of 3 no layer attends to the goal.
	return inRange(g.family(), field{"depth", g.Depth, 3, 100}, field{"heads", g.Heads, 1, 1 << 10}, field{"head_dim", g.HeadDim, 1, 1 << 12},
		field{"mlp", g.MLP, 1, 1 << 16}, field{"history", g.History, 1, 1 << 10})
}

func (g GCBC) declare(s *nn.Set, dim, actions int) layers {
	return nn.NewGoalPredictor(s, policyPrefix, nn.GoalConfig{Frames: g.History, Dim: dim, Depth: g.Depth, Heads: g.Heads, HeadDim: g.HeadDim, MLP: g.MLP, Out: actions})
}

// flop leaves out the queries of the last layer, which all clips share.
func (g GCBC) flop(clips, frames, dim, actions int) float64 {
	d, inner, t := float64(dim), float64(g.Heads*g.HeadDim), float64(frames)
	pairs := t * (t + 1) / 2 // a frame attends to itself and to earlier ones
	goals := float64((g.Depth - 1) / 2)
	self := float64(g.Depth-1) - goals
	values := 2 * d * inner * goals
	attention := self*(t*4*d*inner+2*pairs*inner) + t*3*d*inner + 2*pairs*inner
	return 2 * float64(clips) * (values + attention + t*(float64(g.Depth)*2*d*float64(g.MLP)+d*float64(actions)))
}

func (g GCBC) describe() string {
	return fmt.Sprintf("behavioural cloning: %d frames, %d layers, %d heads of %d", g.History, g.Depth, g.Heads, g.HeadDim)
}

// hydra returns the arguments of stable-worldmodel's Predictor, and the masks that its
// attentions hold.
func (g GCBC) hydra(dim, actions int) (any, []tensorfile.Tensor) {
	var masks []tensorfile.Tensor
	for i := range g.Depth {
		if i%2 == 0 || i == g.Depth-1 { // the other layers attend to the goal
			masks = append(masks, g.mask(fmt.Sprintf("%stransformer.layers.%d.0%s", policyPrefix, i, maskSuffix)))
		}
	}
	return map[string]any{"_target_": "stable_worldmodel.wm.gcrl.module.Predictor", "num_patches": 1, "num_frames": g.History, "dim": dim,
		"depth": g.Depth, "heads": g.Heads, "mlp_dim": g.MLP, "out_dim": actions, "dim_head": g.HeadDim}, masks
}

// maskSuffix ends the names of the attentions' masks, which the geometry determines.
const maskSuffix = ".causal_mask"

// mask returns the buffer with a mask: 1 if a frame (row) attends to another (column).
func (g GCBC) mask(name string) tensorfile.Tensor {
	n := g.History
	t := tensorfile.Tensor{Name: name, Shape: []int{1, 1, n, n}, F32: make([]float32, n*n)}
	for i := range n {
		for j := range i + 1 {
			t.F32[i*n+j] = 1
		}
	}
	return t
}
