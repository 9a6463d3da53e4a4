package pipeline

import (
	"fmt"
	"slices"

	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/model"
)

// variant is what an arm's loss has otherwise than the preset says: the task state
// that it sees, and the weight of the correlation. "" and 0 are the preset's.
type variant struct {
	q      string
	weight float64
}

// label is the arm's method and variant, as folders and films are named
// (results.Spec.Arm calls its cells the same).
func (a arm) label() results.Arm {
	out := results.Arm{Method: a.method.Name}
	if a.q != "" {
		out = out.With(a.q)
	}
	if a.weight != 0 {
		out = out.With(results.WeightVariant(a.weight))
	}
	return out
}

// variants are those of a method on a task: all states with all weights, if the
// method has them. A state that the task does not have gives none.
func (g *Grid) variants(task envs.Task, m model.Method) (out []variant) {
	qs, weights := []string{""}, []float64{0}
	if m.UsesQ() && len(g.Qs) > 0 {
		qs = nil
		for _, q := range g.Qs {
			if HasQ(task, q) {
				qs = append(qs, otherThan(g.Preset.Train.Q, q))
			}
		}
	}
	if slices.ContainsFunc(m.Terms, func(t model.Term) bool { return t.Name == model.Correlation }) && len(g.ScaleWeights) > 0 {
		weights = nil
		preset, _ := g.Preset.Train.Weights.On(model.Correlation, task.Spec.Name)
		for _, w := range g.ScaleWeights {
			weights = append(weights, otherThan(preset, w))
		}
	}
	for _, q := range qs {
		for _, w := range weights {
			out = append(out, variant{q, w})
		}
	}
	return out
}

// otherThan is a value, or nothing where it is the preset's.
func otherThan[T comparable](preset, value T) (v T) {
	if value != preset {
		v = value
	}
	return v
}

// HasQ says whether a task has a state of that name.
func HasQ(task envs.Task, name string) bool {
	return slices.ContainsFunc(task.Spec.Qs, func(q envs.Q) bool { return q.Name == name })
}

// WithoutQ says which tasks lack a state of the grid's axis, and so have no arms with it.
func (g *Grid) WithoutQ() (gaps []string) {
	for _, t := range g.Tasks {
		for _, q := range g.Qs {
			if !HasQ(t, q) {
				gaps = append(gaps, fmt.Sprintf("the task %s has no state %s: no arms with it", t.Spec.Name, q))
			}
		}
	}
	return gaps
}

// preset is the one that an arm is trained with.
func (a arm) preset(p Preset) Preset {
	if a.q != "" {
		p.Train.Q = a.q
	}
	if a.weight != 0 {
		p.Train.Weights = p.Train.Weights.With(model.Correlation, a.task.Spec.Name, a.weight)
	}
	return p
}
