package paired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/record"
	"scalewm/model"
)

// condition is something that two outcomes share if they may be paired, so that
// only the model differs. A text that is empty on one side says nothing.
type condition struct {
	name string
	of   func(c record.Cell, r record.Row) string
	plan bool // of a planner; random actions have none
	row  bool // differs from row to row
}

var conditions = []condition{
	{name: "task", of: func(c record.Cell, _ record.Row) string { return c.Spec.Task }},
	{name: "protocol", of: func(c record.Cell, _ record.Row) string { return c.Spec.Protocol }},
	{name: "data", of: func(c record.Cell, _ record.Row) string { return c.Spec.Data }},
	{name: "set_hash", of: func(c record.Cell, _ record.Row) string { return c.Spec.SetHash }},
	{name: "budget", of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.Budget) }},
	{name: "goal_offset", of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.GoalOffset) }},
	{name: "device", plan: true, of: func(c record.Cell, _ record.Row) string { return c.Result.Device }},
	{name: "candidates", plan: true, of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.Candidates) }},
	{name: "iterations", plan: true, of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.Iterations) }},
	{name: "elites", plan: true, of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.Elites) }},
	{name: "horizon", plan: true, of: func(c record.Cell, _ record.Row) string { return strconv.Itoa(c.Spec.Horizon) }},
	{name: "clip", plan: true, of: func(c record.Cell, _ record.Row) string { return c.Spec.Clip }},
	{name: "temperature", plan: true, of: temperature},
	{name: "planner_seed", plan: true, row: true, of: func(_ record.Cell, r record.Row) string { return strconv.FormatUint(uint64(r.PlannerSeed), 10) }},
	{name: "trajectory", row: true, of: func(_ record.Cell, r record.Row) string { return strconv.Itoa(r.Trajectory) }},
	{name: "start", row: true, of: func(_ record.Cell, r record.Row) string { return strconv.Itoa(r.Start) }},
}

// device is the place of the one condition that is noted and not demanded: a
// result depends on the kind of device in its last bits, which is no reason to
// throw the pairs away.
var device = slices.IndexFunc(conditions, func(k condition) bool { return k.name == "device" })

// temperature is shared within a group of methods only: others' costs have
// another scale.
func temperature(c record.Cell, _ record.Row) string {
	if c.Spec.Temperature == 0 || model.MethodOf(c.Spec.Method).Group == "" {
		return ""
	}
	return strconv.FormatFloat(c.Spec.Temperature, 'g', -1, 64)
}

// Conditions are the names of what must agree in both arms of a pair, which are
// columns of an arm in CSV too.
func Conditions() []string {
	names := make([]string, len(conditions))
	for i, k := range conditions {
		names[i] = k.name
	}
	return names
}

// given are one outcome's values of the conditions, "" where it does not say.
type given []string

// ofCell are the conditions that all rows of a cell share.
func ofCell(c record.Cell) given {
	g := make(given, len(conditions))
	for i, k := range conditions {
		if !k.row && (c.Spec.Solver != "" || !k.plan) {
			g[i] = k.of(c, record.Row{})
		}
	}
	return g
}

// ofRow adds those of one row.
func (g given) ofRow(c record.Cell, r record.Row) given {
	g = slices.Clone(g)
	for i, k := range conditions {
		if k.row && (c.Spec.Solver != "" || !k.plan) {
			g[i] = k.of(c, r)
		}
	}
	return g
}

// unplanned is g without what only a planner has: an arm in CSV that names no
// tier is compared with every tier, like random actions.
func (g given) unplanned() given {
	g = slices.Clone(g)
	for i, k := range conditions {
		if k.plan {
			g[i] = ""
		}
	}
	return g
}

// unlike names the first condition in which two outcomes differ, or is nil.
func (g given) unlike(o given, sameDevice bool) error {
	for i, k := range conditions {
		if g[i] != "" && o[i] != "" && g[i] != o[i] && (i != device || sameDevice) {
			return fmt.Errorf("%s is %s in one arm and %s in the other", strings.ReplaceAll(k.name, "_", " "), short(g[i]), short(o[i]))
		}
	}
	return nil
}

// short is the readable head of a fingerprint, and any other value whole.
func short(value string) string {
	if len(value) < 32 {
		return value
	}
	return value[:12]
}
