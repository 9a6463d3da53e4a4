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

// role is how comparisons treat a field of a cell.
type role int

const (
	ofPlace    role = iota // what was evaluated: task, solver, tier, set
	ofArm                  // who acted
	ofSettings             // how it was evaluated: cells that differ in it are in different blocks
	ofResult               // what the evaluation gave
)

// field describes a value of a cell or of one of its rows, as text. An empty text is unknown,
// and agrees with any other.
type field struct {
	name string // in CSV, and in the JSON of a spec
	role role
	of   func(c results.Cell, r results.Row) string
	pair bool // two outcomes may be paired only if they agree in it
	plan bool // only planners have it; random actions do not
	row  bool // may differ between the rows of a cell
	// per is set if the value may differ between tiers, sets or methods within one block. It
	// returns the tier, set or method to which the value belongs.
	per func(s results.Spec) string
	// open: a cell without a value fits any value, instead of having an unknown one.
	open bool
	// usual is set for factors, settings that studies vary. It is the value of the main setting.
	usual string
	say   string // the setting in words, with %s for its value
}

// fields is the table of all fields. It contains every field of results.Spec except the
// schema, so two different cells always differ in place, arm or settings. A test compares it
// with the type.
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

// device is the index of the only condition whose difference is noted and does not prevent
// pairing. The kind of device may change the last bits of a result, which is no reason to
// discard the pairs.
var device = slices.IndexFunc(fields, func(f field) bool { return f.name == "device" })

// firstOfRow is the index of the first field that may differ between rows. All fields after it
// do too.
var firstOfRow = slices.IndexFunc(fields, func(f field) bool { return f.row })

// alone returns the method if it belongs to no group, else "". Such a method (DINO-WM) has its
// own recipe and encoder, and is compared with methods of any recipe.
func alone(s results.Spec) string {
	if model.MethodOf(s.Method).Group != "" {
		return ""
	}
	return s.Method
}

func tier(s results.Spec) string { return s.Tier }

// number formats a positive number, "" for zero.
func number(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// rules returns the fields of results.Settings.
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

// temperature returns MPPI's temperature, "" for a method without a group at the stock
// temperature. The temperature is shared only within a group of methods. A method of no
// group has costs on another scale, always plans at the stock temperature, and is compared
// with methods at any.
func temperature(c results.Cell, _ results.Row) string {
	if c.Spec.Temperature == results.StockTemperature && model.MethodOf(c.Spec.Method).Group == "" {
		return ""
	}
	return number(c.Spec.Temperature)
}

// fieldNamed returns the field of a name, which must be in the table.
func fieldNamed(name string) field {
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == name })]
}

// value returns a cell's value of a field, "" for fields of rows and for planner fields of cells
// without a planner.
func (f field) value(c results.Cell) string {
	if f.row || f.plan && c.Spec.Solver == "" {
		return ""
	}
	return f.of(c, results.Row{})
}

// words formats a value of a setting.
func (f field) words(value string) string {
	if value == unknown {
		return strings.ReplaceAll(f.name, "_", " ") + " unknown"
	}
	return fmt.Sprintf(f.say, short(value))
}

// Conditions returns the names of the fields that must agree between the two outcomes of a
// pair. They are also columns of an arm in CSV.
func Conditions() (names []string) {
	for _, f := range fields {
		if f.pair {
			names = append(names, f.name)
		}
	}
	return names
}

// given holds the values of all fields for one outcome. A folder has millions of outcomes, so
// it points to the values that the rows of a cell share, and to the row.
type given struct {
	cell *[]string    // values of the fields before firstOfRow, or of all
	row  *results.Row // gives the values of the fields from firstOfRow on
}

// of returns the value of the field at an index of the table.
func (g given) of(i int) string {
	if i < len(*g.cell) {
		return (*g.cell)[i]
	}
	return fields[i].of(results.Cell{}, *g.row)
}

// ofCell returns the values that all rows of a cell share.
func ofCell(c results.Cell) *[]string {
	values := make([]string, firstOfRow)
	for i := range values {
		values[i] = fields[i].value(c)
	}
	return &values
}

// unplanned returns g without the values that only planners have. An arm in CSV that names no
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

// unlike returns an error that names the first condition in which two outcomes differ, or
// nil. With sameDevice, the kind of device is a condition too.
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

// short returns the first 12 characters of a hash, and any other value unchanged.
func short(value string) string {
	if len(value) < 32 {
		return value
	}
	return value[:12]
}
