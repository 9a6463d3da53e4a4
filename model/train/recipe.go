package train

import (
	"encoding/json"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/model"
	"scalewm/model/weights"
)

// Recipe is how a checkpoint was trained, beside its task, method and seed.
type Recipe struct {
	// Hash names what all trainings of a preset share, whatever their task, method
	// and seed: recipe and geometry. "" where the sidecar does not say, as that of
	// a published checkpoint.
	Hash string
	// Q and Weight are the method's own: the task state that its loss sees, and the
	// weight of the term that sees it; absent where there is no such term.
	Q      string
	Weight float64
	// QColumns are those of the task state where the checkpoint is of no task.
	QColumns string
}

// notShared are the fields of a recipe and of a geometry that belong to a task or
// a method, or on which no weights depend.
var notShared = []string{"q", "q_columns", "scale_weight", "aux_weight", "action_dim", "log_every", "diagnostic_every", "save_every", "eval_every", "eval_batches"}

// RecipeOf reads the recipe from a checkpoint's sidecar.
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
	// Two objects of names and numbers always have a canonical form.
	r.Hash, _ = cell.ID("recipe", []any{s.Kind, shared(s.Config), shared(s.Train)})
	return r
}
