package train

import (
	"encoding/json"
	"testing"

	"scalewm/model"
	"scalewm/model/weights"
)

// RecipeOf identifies the preset: the hash is the same for all its tasks, methods and
// seeds, and changes with every number that affects the weights.
func TestRecipeOf(t *testing.T) {
	side := func(method, task string, train, geometry map[string]any) *weights.Sidecar {
		all := map[string]any{"batch": 8, "lr": 5e-4, "q": "half", "scale_weight": map[string]float64{"cube": .3}, "log_every": 10}
		for k, v := range train {
			all[k] = v
		}
		shape := map[string]any{"dim": 48, "action_dim": 2}
		for k, v := range geometry {
			shape[k] = v
		}
		s := &weights.Sidecar{Kind: "lewm", Method: method, Task: task, QName: "half"}
		s.Train, _ = json.Marshal(all)
		s.Config, _ = json.Marshal(shape)
		return s
	}
	base := RecipeOf(side("lewm", "tworoom", nil, nil))
	if base.Hash == "" || base.Q != "" || base.Weight != 0 {
		t.Errorf("the baseline: %+v, want a hash, and neither q nor a weight", base)
	}
	for what, c := range map[string]struct {
		s    *weights.Sidecar
		want Recipe
	}{
		"another task":   {side("lewm", "cube", nil, map[string]any{"action_dim": 5}), base},
		"scale":          {side("scale", "tworoom", nil, nil), Recipe{base.Hash, "half", .1, ""}},
		"scale's weight": {side("scale", "cube", map[string]any{"q": "full"}, nil), Recipe{base.Hash, "half", .3, ""}},
		"a log":          {side("lewm", "tworoom", map[string]any{"log_every": 1}, nil), base},
		"own columns":    {side("lewm", "none", map[string]any{"q_columns": "state[0:2]"}, nil), Recipe{base.Hash, "", 0, "state[0:2]"}},
		"published":      {&weights.Sidecar{Method: model.Baseline, Train: []byte("{}"), Config: []byte(`{"dim":192}`)}, Recipe{}},
	} {
		if got := RecipeOf(c.s); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
	for what, s := range map[string]*weights.Sidecar{
		"lr":     side("lewm", "tworoom", map[string]any{"lr": 1e-4}, nil),
		"width":  side("lewm", "tworoom", nil, map[string]any{"dim": 96}),
		"family": func() *weights.Sidecar { s := side("lewm", "tworoom", nil, nil); s.Kind = "other"; return s }(),
	} {
		if got := RecipeOf(s); got.Hash == base.Hash || got.Hash == "" {
			t.Errorf("another %s has the recipe %q", what, got.Hash)
		}
	}
}
