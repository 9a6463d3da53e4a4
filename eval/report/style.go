package report

import (
	"slices"
	"strconv"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// palette returns the arms of a report in the order of their colours. The world models
// of the table of methods are first, so that a method has the same colour in the reports of
// all folders. Every other arm of this folder has its own colour after them, except for
// the floors, which are grey, and for searches with replaced components, which have the
// colour of their method. The one without a model is last.
func palette(t *infer.Table) []results.Arm {
	var arms []results.Arm
	for _, name := range model.MethodNames(func(m model.Method) bool { return m.HasModel() && !m.Floor && !m.Policy }) {
		arms = append(arms, results.Arm{Method: name})
	}
	others := infer.ArmsOf(t.Blocks)
	for _, a := range t.Analyses {
		others = append(others, a.Spec.Arm())
	}
	for _, c := range t.Curves {
		others = append(others, c.Arm)
	}
	for _, c := range t.Clips {
		others = append(others, c.Arm)
	}
	slices.SortFunc(others, results.CompareArms)
	arms = append(arms, slices.DeleteFunc(slices.Compact(others), func(a results.Arm) bool { return grey(a) || a.Replaced() || slices.Contains(arms, a) })...)
	oracle := results.Arm{Method: model.OracleState}
	if slices.ContainsFunc(t.Blocks, func(b *infer.Block) bool { return len(b.SeedsOf(oracle)) > 0 }) {
		arms = append(arms, oracle)
	}
	return arms
}

// grey reports whether an arm is a floor of the table of methods, without variants.
func grey(arm results.Arm) bool { return arm.Floor() && arm == results.Arm{Method: arm.Method} }

// mark returns the index of an arm's colour, or -1. It selects the shape of the arm's
// marks too.
func (r *Report) mark(arm results.Arm) int {
	arm.Wrappers = ""
	return slices.Index(r.arms, arm)
}

// class returns the CSS class of an arm, which has its colour: m-0, m-1, ..., m-random for
// random actions, and m-floor for other floors.
func (r *Report) class(arm results.Arm) string {
	arm.Wrappers = ""
	switch {
	case grey(arm) && !arm.Plans():
		return "m-random"
	case grey(arm):
		return "m-floor"
	}
	return "m-" + strconv.Itoa(r.mark(arm))
}

// legend explains the colours and marks of arms.
func (r *Report) legend(arms []results.Arm) (out []doc.Item) {
	for _, a := range arms {
		out = append(out, doc.Item{Name: words.Arm(a), Class: r.class(a), Mark: r.mark(a)})
	}
	return out
}
