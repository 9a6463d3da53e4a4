package report

import (
	"cmp"
	"slices"
	"strings"
)

// Methods that are compared by name.
const (
	lewm      = "lewm"
	scale     = "scale"
	aux       = "aux"
	random    = "random"
	untrained = "untrained"
)

// methodOrder is the order of methods in every table and figure: the paper's,
// then the floors.
var methodOrder = []string{lewm, scale, aux, "dinowm", untrained, random}

var methodNames = map[string]string{
	lewm: "LeWM", scale: "SCALE", aux: "Aux", "dinowm": "DINO-WM", untrained: "Untrained", random: "Random",
}

var taskNames = map[string]string{
	"pusht": "Push-T", "reacher": "Reacher", "cube": "Cube", "tworoom": "Two-Room", "pointmaze": "PointMaze",
}

var taskOrder = []string{"pusht", "reacher", "cube", "tworoom", "pointmaze"}

var solverNames = map[string]string{"cem": "CEM", "icem": "iCEM", "mppi": "MPPI", stockMPPI: "MPPI at stock temperature"}

// name looks a display name up; what is unknown is shown as it is.
func name(table map[string]string, key string) string {
	if n, ok := table[key]; ok {
		return n
	}
	return key
}

func methodName(m string) string { return name(methodNames, m) }
func taskName(t string) string   { return name(taskNames, t) }
func solverName(s string) string { return name(solverNames, s) }

// floor says whether a method is a reference without learning.
func floor(m string) bool { return m == random || m == untrained }

// byOrder compares two names by their place in a list; unlisted names come
// last, by alphabet.
func byOrder(order []string, a, b string) int {
	return cmp.Or(cmp.Compare(rank(order, a), rank(order, b)), strings.Compare(a, b))
}

func rank(order []string, s string) int {
	if i := slices.Index(order, s); i >= 0 {
		return i
	}
	return len(order)
}

// label names an arm; the seed is said only where a block has several.
func (b *Block) label(a Arm) string {
	for _, o := range b.Arms {
		if o.Method == a.Method && o.Seed != a.Seed {
			return methodName(a.Method) + " seed " + itoa(a.Seed)
		}
	}
	return methodName(a.Method)
}

// title names a block.
func (b *Block) title() string {
	if b.Solver == "" {
		return taskName(b.Task)
	}
	return taskName(b.Task) + ", " + solverName(b.Solver)
}
