package report

import (
	"slices"
	"strconv"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// learned are the methods that are no floor, which have a colour and a mark each.
var learned = model.MethodNames(func(m model.Method) bool { return !m.Floor })

// mark is the number of an arm's method among them, or -1.
func mark(arm results.Arm) int { return slices.Index(learned, arm.Entry().Name) }

// class is an arm's style class on the page: its method's, whose style has colours for the
// first methods of the table, the two kinds of floors and all others.
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

// legend explains the colours of arms, which variants share with their method.
func legend(arms []results.Arm) (out []doc.Item) {
	for _, a := range arms {
		out = append(out, doc.Item{Name: words.Arm(a), Class: class(a)})
	}
	return out
}
