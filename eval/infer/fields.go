package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/results"
	"scalewm/model"
)

// role is what a field of a cell is to a comparison.
type role int

const (
	ofPlace    role = iota // where an outcome stands
	ofArm                  // who acted
	ofSettings             // how it was evaluated: what differs in it stands apart
	ofResult
)

// field is what a cell or one of its rows says. A text that is empty says nothing
// and agrees with any.
type field struct {
	name string // in CSV, and in the JSON of a spec
	role role
	of   func(c results.Cell, r results.Row) string
	pair bool // two outcomes share it if they may be paired
	plan bool // of a planner; random actions have none
	row  bool // differs from row to row
	// per names what a setting is of, where tiers, sets or methods differ in it.
	per func(s results.Spec) string
	// open: a cell that lacks the setting stands with all others, not with one of them
	// that is unknown.
	open bool
	// usual is the value of what may be varied of an evaluation, a factor, where it is not.
	usual string
	say   string // the setting in words, %s being its value
}

// fields is the table of all that cells say. Every field of results.Spec but its
// schema is in it, so that two different cells never stand in one place: they
// differ in place, arm or settings.
var fields = slices.Concat([]field{
	{name: "task", role: ofPlace, pair: true, of: func(c results.Cell, _ results.Row) string { return c.Spec.Task }},
	{name: "solver", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Solver }},
	{name: "tier", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Tier }},
	{name: "set", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Set }},
	{name: "method", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Method }},
	{name: "python", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Python }},
	{name: "q", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Q }},
	{name: "loss_weight", role: ofArm, of: func(c results.Cell, _ results.Row) string { return number(c.Spec.LossWeight) }},
	{name: "train_seed", role: ofArm, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.TrainSeed) }},
	{name: "weights", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Weights }},
	{name: "code", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Code }},
}, rules(), []field{
	{name: "data", role: ofSettings, pair: true, say: "data %s", of: func(c results.Cell, _ results.Row) string { return c.Spec.Data }},
	{name: "recipe", role: ofSettings, plan: true, say: "recipe %s", per: alone, of: func(c results.Cell, _ results.Row) string { return c.Spec.Recipe }},
	{name: "backbone", role: ofSettings, plan: true, say: "backbone %s", per: alone, of: func(c results.Cell, _ results.Row) string { return c.Spec.Backbone }},
	{name: "episodes", role: ofSettings, say: "%s episodes a set", of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Episodes) }},
	{name: "set_hash", role: ofSettings, pair: true, say: "starts %s", per: func(s results.Spec) string { return s.Set }, of: func(c results.Cell, _ results.Row) string { return c.Spec.SetHash }},
	{name: "device", role: ofResult, pair: true, plan: true, of: func(c results.Cell, _ results.Row) string { return c.Result.Device }},
	{name: "candidates", role: ofSettings, pair: true, plan: true, say: "%s candidates", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Candidates) }},
	{name: "iterations", role: ofSettings, pair: true, plan: true, say: "%s iterations", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Iterations) }},
	{name: "elites", role: ofSettings, pair: true, plan: true, say: "%s elites", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Elites) }},
	{name: "actions", role: ofSettings, plan: true, say: "actions scaled as the %s's", of: func(c results.Cell, _ results.Row) string { return cmp.Or(c.Spec.Actions, "data set") }},
	{name: "planner_seed", role: ofResult, pair: true, plan: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.FormatUint(uint64(r.PlannerSeed), 10) }},
	{name: "trajectory", role: ofResult, pair: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.Itoa(r.Trajectory) }},
	{name: "start", role: ofResult, pair: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.Itoa(r.Start) }},
})

// device is the place of the one condition that is noted and not demanded: a
// result depends on the kind of device in its last bits, which is no reason to
// throw the pairs away.
var device = slices.IndexFunc(fields, func(f field) bool { return f.name == "device" })

// firstOfRow is the place of the first field that differs from row to row; so do all behind it.
var firstOfRow = slices.IndexFunc(fields, func(f field) bool { return f.row })

// alone names a method of no group: its recipe and its encoder are its own, and it
// is compared with others of any.
func alone(s results.Spec) string {
	if model.MethodOf(s.Method).Group != "" {
		return ""
	}
	return s.Method
}

func tier(s results.Spec) string { return s.Tier }

// number is a positive number, "" for none.
func number(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// rules are the rows of the settings of an evaluation.
func rules() (out []field) {
	for _, s := range results.Settings {
		f := field{name: s.Name, role: ofSettings, pair: s.Pair, plan: s.Of != "", open: s.Open, usual: s.Usual, say: s.Say,
			of: func(c results.Cell, _ results.Row) string { return s.Value(c.Spec.Rules) }}
		if s.Name == "temperature" {
			f.of = temperature
		}
		out = append(out, f)
	}
	return out
}

// temperature is shared within a group of methods only: one of no group has costs
// of another scale, plans at the stock temperature and is compared with any.
func temperature(c results.Cell, _ results.Row) string {
	if c.Spec.Temperature == results.StockTemperature && model.MethodOf(c.Spec.Method).Group == "" {
		return ""
	}
	return number(c.Spec.Temperature)
}

// fieldNamed is the field of a name in the table.
func fieldNamed(name string) field {
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == name })]
}

// value is what a cell says of a field that is none of a row's.
func (f field) value(c results.Cell) string {
	if f.row || f.plan && c.Spec.Solver == "" {
		return ""
	}
	return f.of(c, results.Row{})
}

// words say a value of a setting.
func (f field) words(value string) string {
	if value == unknown {
		return strings.ReplaceAll(f.name, "_", " ") + " unknown"
	}
	return fmt.Sprintf(f.say, short(value))
}

// Conditions are the names of what must agree in both arms of a pair, which are
// columns of an arm in CSV too.
func Conditions() (names []string) {
	for _, f := range fields {
		if f.pair {
			names = append(names, f.name)
		}
	}
	return names
}

// given are one outcome's values of the fields, "" where it does not say: those that the rows
// of a cell share, and for the fields behind them its row. There are millions, so both are pointers.
type given struct {
	cell *[]string
	row  *results.Row
}

// of is the value of a field by its place in the table.
func (g given) of(i int) string {
	if i < len(*g.cell) {
		return (*g.cell)[i]
	}
	return fields[i].of(results.Cell{}, *g.row)
}

// ofCell are the values that all rows of a cell share.
func ofCell(c results.Cell) *[]string {
	values := make([]string, firstOfRow)
	for i := range values {
		values[i] = fields[i].value(c)
	}
	return &values
}

// unplanned is g without what only a planner has: an arm in CSV that names no
// tier is compared with every tier, like random actions.
func (g given) unplanned() given {
	values := make([]string, len(fields))
	for i, f := range fields {
		if !f.plan {
			values[i] = g.of(i)
		}
	}
	return given{cell: &values}
}

// unlike names the first condition in which two outcomes differ, or is nil.
func (g given) unlike(o given, sameDevice bool) error {
	for i, f := range fields {
		if !f.pair {
			continue
		}
		if x, y := g.of(i), o.of(i); x != "" && y != "" && x != y && (i != device || sameDevice) {
			return fmt.Errorf("%s is %s in one arm and %s in the other", strings.ReplaceAll(f.name, "_", " "), short(x), short(y))
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
