package report

import (
	"slices"
	"strconv"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// learned lists the methods that are not floors, in the order of the table of methods.
// Each has a colour and a mark.
var learned = model.MethodNames(func(m model.Method) bool { return !m.Floor })

// mark returns the index of an arm's method in learned, or -1. It selects the shape of
// the arm's marks.
func mark(arm results.Arm) int { return slices.Index(learned, arm.Entry().Name) }

// class returns the CSS class of an arm: that of its method. The style sheet has
// colours for the first methods of the table (m-0 to m-3), for random actions
// (m-random), for other floors (m-floor), and one for all other methods (m-other). A
// method keeps its colour in all figures, whichever methods a folder has.
func class(arm results.Arm) string {
	const coloured = 4
	switch i := mark(arm); {
	case arm.Floor() && !arm.Plans():
		return "m-random"
	case arm.Floor():
		return "m-floor"
	case i >= 0 && i < coloured:
		return "m-" + strconv.Itoa(i)
	}
	return "m-other"
}

// legend explains the colours of arms. Variants have the colour of their method.
func legend(arms []results.Arm) (out []doc.Item) {
	for _, a := range arms {
		out = append(out, doc.Item{Name: words.Arm(a), Class: class(a)})
	}
	return out
}
