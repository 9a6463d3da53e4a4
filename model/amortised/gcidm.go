package amortised

import (
	"fmt"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/nn"
)

// GCIDM is the network of GC-IDM (docs/sources.md#gc-idm), a goal-conditioned inverse
// dynamics model: the action that leads from a frame to a goal in a number of env steps.
type GCIDM struct {
	Width   int     `toml:"width" json:"width"`
	Layers  int     `toml:"layers" json:"layers"`
	Dropout float64 `toml:"dropout" json:"dropout"`
	// MaxHorizon is the largest number of env steps to a goal, in training and in acting.
	MaxHorizon int `toml:"max_horizon" json:"max_horizon"`
}

func (g GCIDM) family() string { return model.FamilyGCIDM }
func (g GCIDM) history() int   { return 1 }
func (g GCIDM) maxGoal() int   { return g.MaxHorizon }

func (g GCIDM) validate() error {
	if !(g.Dropout >= 0 && g.Dropout < 1) {
		return fmt.Errorf("%s: dropout is %g (hint: it must be in [0, 1))", g.family(), g.Dropout)
	}
	return inRange(g.family(), field{"width", g.Width, 1, 1 << 14}, field{"layers", g.Layers, 1, 100}, field{"max_horizon", g.MaxHorizon, 1, 1 << 12})
}

func (g GCIDM) declare(s *nn.Set, dim, actions int) layers {
	return nn.NewInverse(s, policyPrefix, nn.InverseConfig{Dim: dim, Width: g.Width, Layers: g.Layers, Out: actions, Horizon: g.MaxHorizon, Dropout: g.Dropout})
}

// flop leaves out the layers of the modulations: their work depends on the largest number
// of steps, not on the number of clips.
func (g GCIDM) flop(clips, _, dim, actions int) float64 {
	w := float64(g.Width)
	return 2 * float64(clips) * (w*float64(2*dim+actions) + float64(g.Layers-1)*w*w + 2*w*float64(g.MaxHorizon+1))
}

func (g GCIDM) describe() string {
	return fmt.Sprintf("inverse dynamics: %d layers of %d, goals up to %d env steps away", g.Layers, g.Width, g.MaxHorizon)
}

func (g GCIDM) hydra(dim, actions int) (any, []tensorfile.Tensor) {
	return map[string]any{"_target_": "idm.model.GoalConditionedIDM", "cfg": map[string]any{"_target_": "idm.model.IDMConfig",
		"embed_dim": dim, "action_dim": actions, "frameskip": 1, "hidden_dim": g.Width, "n_layers": g.Layers, "dropout": g.Dropout,
		"max_horizon": g.MaxHorizon}}, nil
}
