package pipeline

import (
	"fmt"
	"slices"

	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// variant is how an arm differs from its method in the preset.
type variant struct {
	// The task state that the loss sees, and the weight of the correlation term. "" and 0
	// mean the preset's.
	q      string
	weight float64
	// proposal is the method of the policy whose plans begin the searches, "" for none. It is
	// trained on the latents of the arm.
	proposal string
}

// label returns the arm's method and variant as they appear in names of folders and
// films. results.Spec.Arm gives its cells the same name.
func (a arm) label() results.Arm {
	out := results.Arm{Wrappers: a.method.Replaced.String(), Method: a.method.Name, Variants: a.method.Encoder}
	if a.q != "" {
		out = out.With(a.q)
	}
	if a.weight != 0 {
		out = out.With(results.WeightVariant(a.weight))
	}
	if a.proposal != "" {
		out = out.WithProposal(a.proposal)
	}
	return out
}

// searcher returns the arm without its proposal and its replacement: the arm that is
// trained.
func (a arm) searcher() arm {
	a.proposal = ""
	if a.method.HasModel() {
		a.method.Replaced = model.Replacement{}
	}
	return a
}

// proposer returns the policy that proposes the arm's plans.
func (a arm) proposer() arm {
	m := model.MethodOf(a.proposal)
	m.Encoder = a.method.Name
	return arm{task: a.task, method: m, seed: a.seed}
}

// encoder returns the arm on whose latents a policy is trained.
func (a arm) encoder() arm { return arm{task: a.task, method: a.method.Latents(), seed: a.seed} }

// variants returns the variants of a method on a task: every state with every weight,
// if the method has them. A state that the task lacks gives no variant. The preset's
// own value gives the plain arm, not a variant of it: otherwise the same training
// would exist under two names.
func (g *Grid) variants(task envs.Task, m model.Method) (out []variant) {
	qs, weights := []string{""}, []float64{0}
	if m.UsesQ() && len(g.Qs) > 0 {
		qs = nil
		for _, q := range g.Qs {
			if HasQ(task, q) {
				qs = append(qs, unlessPreset(g.Preset.Train.ForTask(task.Spec.Name).Q, q))
			}
		}
	}
	if slices.ContainsFunc(m.Terms, func(t model.Term) bool { return t.Name == model.Correlation }) && len(g.ScaleWeights) > 0 {
		weights = nil
		preset, _ := g.Preset.Train.Weights.On(model.Correlation, task.Spec.Name)
		for _, w := range g.ScaleWeights {
			weights = append(weights, unlessPreset(preset, w))
		}
	}
	for _, q := range qs {
		for _, w := range weights {
			out = append(out, variant{q: q, weight: w})
		}
	}
	return out
}

// unlessPreset returns value, or the zero value if it equals the preset's.
func unlessPreset[T comparable](preset, value T) (v T) {
	if value != preset {
		v = value
	}
	return v
}

// HasQ reports whether a task has a state of that name.
func HasQ(task envs.Task, name string) bool {
	return slices.ContainsFunc(task.Spec.Qs, func(q envs.Q) bool { return q.Name == name })
}

// drawnTiers are the tiers at which candidates are drawn unless the user names others.
var drawnTiers = []string{"T4", "T5"}

// tiers returns the tiers of a method.
func (g *Grid) tiers(m model.Method) []eval.Tier {
	if g.TiersChosen || !m.Replaced.Draws() {
		return g.Tiers
	}
	return slices.DeleteFunc(slices.Clone(g.Tiers), func(t eval.Tier) bool { return !slices.Contains(drawnTiers, t.Name) })
}

// WithoutTiers returns a line for each method that is not evaluated at all tiers or with all
// solvers of the grid, since a component of its search is replaced.
func (g *Grid) WithoutTiers() (gaps []string) {
	for _, m := range g.Methods {
		if n := len(g.Tiers) - len(g.tiers(m)); n > 0 {
			gaps = append(gaps, leftOut(m.Arm(), n))
		}
		if m.Replaced.Simulator && slices.Contains(g.Solvers, results.Descent) {
			gaps = append(gaps, fmt.Sprintf("%s: without %s, for which the simulator has no gradient", m.Arm(), results.Descent))
		}
	}
	return gaps
}

// leftOut says that n tiers of an arm are not evaluated.
func leftOut(arm string, n int) string {
	return fmt.Sprintf("%s: without %s, since a frame is drawn for every candidate (hint: name tiers with --tiers or --tier)", arm, words.Count(n, "tier"))
}

// WithoutQ returns a line for each task that lacks a state of the grid's axis, and so
// has no arms with it.
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

// preset returns p for the arm's task, with its variant applied. It does not change p.
func (a arm) preset(p Preset) Preset {
	p.Train = p.Train.ForTask(a.task.Spec.Name)
	if a.q != "" {
		p.Train.Q = a.q
	}
	if a.weight != 0 {
		p.Train.Weights = p.Train.Weights.With(model.Correlation, a.task.Spec.Name, a.weight)
	}
	return p
}
