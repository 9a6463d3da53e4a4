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

// role is the role of a field of a cell in comparisons.
type role int

const (
	ofPlace    role = iota // part of the place of an outcome: task, solver, tier, set
	ofArm                  // identifies who acts
	ofSettings             // a condition of the evaluation; cells that differ get separate blocks
	ofResult               // an outcome, which no block depends on
	ofName                 // a name for readers, which nothing depends on
)

// field describes one field of a cell or of its rows. Its values are texts; the empty text
// means that the cell does not have the field, and agrees with every value.
type field struct {
	name   string // in CSV, and in the JSON of a spec
	role   role
	of     func(c results.Cell, r results.Row) string
	pair   bool // outcomes may be paired only if they have equal values
	plan   bool // of planners; arms without a solver do not have it
	policy bool // of planners, and of policies too
	// protocol marks the settings that a protocol's name stands for.
	protocol bool
	// implied returns the value that the name of a protocol alone implies, "" for none.
	implied func(protocol string) string
	row     bool // differs from row to row
	// per returns the tier, set or method to which the value of a setting belongs, if
	// cells of one block may differ in it. Values are then compared within equal keys.
	per func(s results.Spec) string
	// open means that a cell without the setting belongs to all settings that it
	// otherwise agrees with, instead of to settings with an unknown value.
	open bool
	// usual is the default of a factor: a setting that may be varied for a study. It is
	// empty for settings that are not factors.
	usual  string
	format string // format of the setting for readers; %s is its value
}

// fields describes all fields of cells. Every field of results.Spec except its schema is in
// the table (a test checks this). Two different cells therefore differ in place, arm or
// settings, and never get the same slot of a block. The order is that of names of settings
// in reports, and those that differ from row to row are last.
var fields = slices.Concat([]field{
	{name: "task", role: ofPlace, pair: true, of: func(c results.Cell, _ results.Row) string { return c.Spec.Task }},
	{name: "solver", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Solver }},
	{name: "tier", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Tier }},
	{name: "set", role: ofPlace, of: func(c results.Cell, _ results.Row) string { return c.Spec.Set }},
	{name: "method", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Method }},
	{name: "wrapper", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Wrapper }},
	{name: "python", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Python }},
	{name: "encoder", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Encoder }},
	{name: "targets", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Targets }},
	{name: "proposal", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Proposal }},
	{name: "proposal_weights", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.ProposalWeights }},
	{name: "q", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Q }},
	{name: "loss_weight", role: ofArm, of: func(c results.Cell, _ results.Row) string { return number(c.Spec.LossWeight) }},
	{name: "train_seed", role: ofArm, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.TrainSeed) }},
	{name: "weights", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Weights }},
	{name: "trained", role: ofName, of: func(c results.Cell, _ results.Row) string { return c.Spec.Trained }},
	{name: "code", role: ofArm, of: func(c results.Cell, _ results.Row) string { return c.Spec.Code }},
}, rules(), []field{
	{name: "world", role: ofSettings, pair: true, format: "in %s", of: func(c results.Cell, _ results.Row) string { return c.Spec.World }},
	{name: "world_hash", role: ofSettings, pair: true, format: "world %.8s", of: func(c results.Cell, _ results.Row) string { return c.Spec.WorldHash }},
	{name: "nondeterministic", role: ofSettings, pair: true, format: "%s", of: func(c results.Cell, _ results.Row) string {
		if c.Spec.Nondeterministic {
			return "nondeterministic"
		}
		return ""
	}},
	{name: "data", role: ofSettings, pair: true, format: "data %s", of: func(c results.Cell, _ results.Row) string { return c.Spec.Data }},
	{name: "recipe", role: ofSettings, plan: true, format: "recipe %s", per: ungrouped, of: func(c results.Cell, _ results.Row) string { return c.Spec.Recipe }},
	{name: "backbone", role: ofSettings, plan: true, format: "backbone %s", per: ungrouped, of: func(c results.Cell, _ results.Row) string { return c.Spec.Backbone }},
	{name: "episodes", role: ofSettings, format: "%s episodes a set", of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Episodes) }},
	{name: "set_hash", role: ofSettings, pair: true, format: "starts %s", per: func(s results.Spec) string { return s.Set }, of: func(c results.Cell, _ results.Row) string { return c.Spec.SetHash }},
	{name: "device", role: ofResult, pair: true, plan: true, of: func(c results.Cell, _ results.Row) string { return c.Result.Device }},
	{name: "candidates", role: ofSettings, pair: true, plan: true, format: "%s candidates", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Candidates) }},
	{name: "iterations", role: ofSettings, pair: true, plan: true, format: "%s iterations", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Iterations) }},
	{name: "elites", role: ofSettings, pair: true, plan: true, format: "%s elites", per: tier, of: func(c results.Cell, _ results.Row) string { return strconv.Itoa(c.Spec.Elites) }},
	{name: "actions", role: ofSettings, plan: true, format: "actions scaled as the %s's", of: scaling},
	{name: "planner_seed", role: ofResult, pair: true, plan: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.FormatUint(uint64(r.PlannerSeed), 10) }},
	{name: "trajectory", role: ofResult, pair: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.Itoa(r.Trajectory) }},
	{name: "start", role: ofResult, pair: true, row: true, of: func(_ results.Cell, r results.Row) string { return strconv.Itoa(r.Start) }},
})

// device is the index of the kind of device in fields, the one condition of pairing that
// only causes a note when it differs. Results on different kinds differ in the last bits,
// which does not justify dropping the pairs. Options.SameDevice makes it a requirement.
var device = slices.IndexFunc(fields, func(f field) bool { return f.name == "device" })

// manifest is the index of the manifest in fields.
var manifest = slices.IndexFunc(fields, func(f field) bool { return f.name == "manifest" })

// firstOfRow is the index of the first field that differs from row to row. All fields
// after it do too.
var firstOfRow = slices.IndexFunc(fields, func(f field) bool { return f.row })

// ungrouped returns the name of a method that belongs to no group, and "" for others.
// Methods of a group share recipe and encoder. A method without a group has its own,
// and is compared with methods whose values differ.
func ungrouped(s results.Spec) string {
	if model.MethodOf(s.Method).Group != "" {
		return ""
	}
	return s.Method
}

// tier is the per function of settings that differ between tiers.
func tier(s results.Spec) string { return s.Tier }

// scaling returns whose actions the plans are scaled as. A search without a model, which has no
// others than the data set's, is compared with all.
func scaling(c results.Cell, _ results.Row) string {
	if c.Spec.Weights == "" {
		return ""
	}
	return cmp.Or(c.Spec.Actions, "data set")
}

// number formats a positive number; 0 means that there is none.
func number(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// protocolName is the field with the name of the protocol. Cells are compared by its
// values, which have their own fields.
const protocolName = "protocol"

// rules returns the fields for the settings in results.Settings.
func rules() (out []field) {
	for _, s := range results.Settings {
		f := field{name: s.Name, role: ofSettings, pair: s.Pair, plan: s.Of != "", policy: s.Of == results.OfPlanners || s.Of == results.OfPolicies, open: s.Open, usual: s.Usual, format: s.Say,
			protocol: (s.Key != "" || s.Renames) && s.Usual == "" && !s.Open, implied: s.Implied,
			of: func(c results.Cell, _ results.Row) string { return s.Value(c.Spec.Rules) }}
		switch s.Name {
		case protocolName:
			f.role = ofName
		case "temperature":
			f.of = temperature
		case "act":
			f.role = ofArm // only policies have it, and searches may be compared with both of its values
		}
		out = append(out, f)
	}
	return out
}

// temperature returns the value of MPPI's temperature. Only methods of a group share it
// (docs/sources.md#mppi-temperature). The costs of a method without a group have
// another scale; at the stock temperature it has no value, and so is compared with
// methods at any temperature.
func temperature(c results.Cell, _ results.Row) string {
	if c.Spec.Temperature == results.StockTemperature && model.MethodOf(c.Spec.Method).Group == "" {
		return ""
	}
	return number(c.Spec.Temperature)
}

// fieldNamed returns the field with a name, which must exist.
func fieldNamed(name string) field {
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == name })]
}

// value returns a cell's value of the field, "" for fields of rows and for settings that
// its arm does not have.
func (f field) value(c results.Cell) string {
	if f.row || f.plan && c.Spec.Solver == "" && !(f.policy && isPolicy(c.Spec)) {
		return ""
	}
	return f.of(c, results.Row{})
}

// isPolicy reports whether the arm of a cell is a policy: a model without a search.
func isPolicy(s results.Spec) bool { return s.Solver == "" && s.Weights != "" }

// words formats a value of a setting for readers.
func (f field) words(value string) string {
	if value == unknown {
		return strings.ReplaceAll(f.name, "_", " ") + " unknown"
	}
	if value == "1" {
		return strings.Replace(fmt.Sprintf(f.format, value), "1 blocks", "1 block", 1)
	}
	return fmt.Sprintf(f.format, short(value))
}

// Conditions returns the names of the fields that must agree in both arms of a pair. An
// arm in CSV may have them as columns.
func Conditions() (names []string) {
	for _, f := range fields {
		if f.pair {
			names = append(names, f.name)
		}
	}
	return names
}

// fieldValues gives access to one outcome's values of the table fields. The values that all rows
// of a cell share are computed once; those of the row are computed when they are needed. A
// folder can have millions of outcomes, so each holds only two pointers.
type fieldValues struct {
	cell *[]string    // values of the first fields, or of all if row is nil
	row  *results.Row // source of the others
}

// of returns the value of fields[i].
func (g fieldValues) of(i int) string {
	if i < len(*g.cell) {
		return (*g.cell)[i]
	}
	return fields[i].of(results.Cell{}, *g.row)
}

// ofCell returns the values that all rows of a cell share: those of the fields before
// firstOfRow.
func ofCell(c results.Cell) *[]string {
	values := make([]string, firstOfRow)
	for i := range values {
		values[i] = fields[i].value(c)
	}
	return &values
}

// unplanned returns g without the values of planners' fields. An arm in CSV without a
// tier may name such columns; it is compared with every tier all the same, like random
// actions.
func (g fieldValues) unplanned() fieldValues {
	values := make([]string, len(fields))
	for i, f := range fields {
		if !f.plan {
			values[i] = g.of(i)
		}
	}
	return fieldValues{cell: &values}
}

// shared returns g without the values that differ from row to row.
func (g fieldValues) shared() fieldValues {
	values := make([]string, len(fields))
	for i := range firstOfRow {
		values[i] = g.of(i)
	}
	return fieldValues{cell: &values}
}

// mismatch returns an error that names the first condition in which two outcomes differ,
// or nil. Missing values agree with every value.
func (g fieldValues) mismatch(o fieldValues, sameDevice bool) error {
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

// short returns the first characters of a hash, and any other value unchanged.
func short(value string) string {
	if len(value) < 32 {
		return value
	}
	return value[:12]
}
