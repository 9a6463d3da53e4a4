package record

import (
	"fmt"
	"strconv"
	"strings"
)

// condition is something that two outcomes share if they may be paired, so that
// only the model differs. A text that is empty on one side says nothing.
type condition struct {
	name string
	of   func(c Cell, r Row) string
	plan bool // of a planner; random actions have none
	row  bool // differs from row to row
}

var conditions = []condition{
	{name: "task", of: func(c Cell, _ Row) string { return c.Spec.Task }},
	{name: "protocol", of: func(c Cell, _ Row) string { return c.Spec.Protocol }},
	{name: "data", of: func(c Cell, _ Row) string { return c.Spec.Data }},
	{name: "set_hash", of: func(c Cell, _ Row) string { return c.Spec.SetHash }},
	{name: "budget", of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.Budget) }},
	{name: "goal_offset", of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.GoalOffset) }},
	{name: "device", of: func(c Cell, _ Row) string { return c.Result.Device }},
	{name: "candidates", plan: true, of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.Candidates) }},
	{name: "iterations", plan: true, of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.Iterations) }},
	{name: "elites", plan: true, of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.Elites) }},
	{name: "horizon", plan: true, of: func(c Cell, _ Row) string { return strconv.Itoa(c.Spec.Horizon) }},
	{name: "clip", plan: true, of: func(c Cell, _ Row) string { return c.Spec.Clip }},
	{name: "temperature", plan: true, of: temperature},
	{name: "planner_seed", plan: true, row: true, of: func(_ Cell, r Row) string { return strconv.FormatUint(uint64(r.PlannerSeed), 10) }},
	{name: "trajectory", row: true, of: func(_ Cell, r Row) string { return strconv.Itoa(r.Trajectory) }},
	{name: "start", row: true, of: func(_ Cell, r Row) string { return strconv.Itoa(r.Start) }},
}

// temperature is shared within the LeWM family only: DINO-WM's costs have
// another scale and keep their own (docs/sources.md#mppi-temperature).
func temperature(c Cell, _ Row) string {
	if c.Spec.Temperature == 0 || c.Spec.Method == "dinowm" {
		return ""
	}
	return strconv.FormatFloat(c.Spec.Temperature, 'g', -1, 64)
}

// Conditions are the names of what must agree in both arms of a pair.
func Conditions() []string {
	names := make([]string, len(conditions))
	for i, k := range conditions {
		names[i] = k.name
	}
	return names
}

// Given are one outcome's values of Conditions, "" where it does not say.
type Given []string

// Given are the conditions of one row of a cell.
func (c Cell) Given(r Row) Given {
	g := make(Given, len(conditions))
	for i, k := range conditions {
		if c.Spec.Solver != "" || !k.plan {
			g[i] = k.of(c, r)
		}
	}
	return g
}

// Unlike names the condition in which two outcomes differ, or is nil. What to
// do about it the caller knows.
func (g Given) Unlike(o Given) error {
	for i, k := range conditions {
		if g[i] != "" && o[i] != "" && g[i] != o[i] {
			return k.differ(g[i], o[i])
		}
	}
	return nil
}

func (k condition) differ(a, b string) error {
	return fmt.Errorf("%s is %s in one arm and %s in the other", strings.ReplaceAll(k.name, "_", " "), short(a), short(b))
}

// short is the readable head of a fingerprint, and any other value whole.
func short(value string) string {
	if len(value) < 32 {
		return value
	}
	return value[:12]
}

// Unlike says why two cells must not be paired, or is nil: a condition differs,
// or an episode stands in one of them twice.
func Unlike(a, b Cell) error {
	rows := map[int]Row{}
	for i, c := range []Cell{a, b} {
		seen := map[int]bool{}
		for _, r := range c.Result.Rows {
			if seen[r.Episode] {
				return fmt.Errorf("episode %d stands twice in one cell", r.Episode)
			}
			seen[r.Episode] = true
			if i == 0 {
				rows[r.Episode] = r
			}
		}
	}
	if err := a.Given(Row{}).Unlike(b.Given(Row{})); err != nil {
		return err
	}
	plans := a.Spec.Solver != "" && b.Spec.Solver != ""
	for _, y := range b.Result.Rows {
		x, ok := rows[y.Episode]
		if !ok || x.PlannerSeed == y.PlannerSeed && x.Trajectory == y.Trajectory && x.Start == y.Start {
			continue
		}
		for _, k := range conditions {
			if k.row && (plans || !k.plan) && k.of(a, x) != k.of(b, y) {
				return fmt.Errorf("episode %d: %w", y.Episode, k.differ(k.of(a, x), k.of(b, y)))
			}
		}
	}
	return nil
}

// Unplanned is g without what only a planner has: an arm in CSV that names no
// tier is compared with every tier, like random actions.
func (g Given) Unplanned() Given {
	out := make(Given, len(g))
	for i, k := range conditions {
		if !k.plan {
			out[i] = g[i]
		}
	}
	return out
}
