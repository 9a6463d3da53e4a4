package train

import (
	"encoding/json"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/model"
	"scalewm/model/weights"
)

// Recipe identifies how a checkpoint was trained, apart from its task, method and
// seed.
type Recipe struct {
	// Hash identifies what all runs of a preset share for any task, method and seed:
	// the recipe and the geometry. It is "" if the sidecar does not record a recipe,
	// as for a published checkpoint.
	Hash string
	// Q and Weight are particular to the method: the task state that its loss uses,
	// and the weight of the term that uses it. They are zero if there is no such
	// term.
	Q      string
	Weight float64
	// QColumns selects the task state of a checkpoint without a task.
	QColumns string
}

// notShared are the JSON fields of a recipe or a geometry that differ between runs of
// one preset because they belong to a task, a method or an encoder, or that do not affect
// the weights.
var notShared = []string{"encoder", "q", "q_columns", "scale_weight", "aux_weight", "action_dim", "log_every", "diagnostic_every", "save_every", "eval_every", "eval_batches"}

// RecipeOf returns the Recipe in a checkpoint's sidecar. It is zero if there is none.
func RecipeOf(s *weights.Sidecar) (r Recipe) {
	var c Config
	if json.Unmarshal(s.Train, &c) != nil || c.Batch == 0 {
		return r
	}
	r.QColumns = c.QColumns
	if own := slices.IndexFunc(model.MethodOf(s.Method).Terms, func(t model.Term) bool { return t.UsesQ }); own >= 0 {
		r.Q = s.QName
		r.Weight, _ = c.Weights.On(model.MethodOf(s.Method).Terms[own].Name, s.Task)
	}
	shared := func(raw json.RawMessage) map[string]any {
		var fields map[string]any
		if json.Unmarshal(raw, &fields) != nil {
			return nil
		}
		for _, name := range notShared {
			delete(fields, name)
		}
		return fields
	}
	// The values come from JSON and therefore always have a canonical form: no error.
	r.Hash, _ = cell.ID("recipe", []any{s.Kind, shared(s.Config), shared(s.Train)})
	return r
}
