package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/envs"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// Further is an addition to a preset's grid, a table [[grid.also]]: evaluations with other
// values of some axes, on the same sets and seeds. Empty fields are those of the grid.
type Further struct {
	Tasks     []string          `toml:"tasks,omitempty"`
	Methods   []string          `toml:"methods,omitempty"`
	Q         []string          `toml:"q,omitempty"`
	Solvers   []string          `toml:"solvers,omitempty"`
	Tiers     []string          `toml:"tiers,omitempty"`
	Rules     map[string]string `toml:"rules,omitempty"` // settings by keyword, see ReadProtocol
	Precision device.Precision  `toml:"precision,omitempty"`
}

// validate returns an error for unknown names, and for rules that would change the
// starts or the training, which all grids of a folder share.
func (f Further) validate() error {
	for _, name := range f.Methods {
		if _, err := model.ParseMethod(name); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Rules)) {
		if key == "protocol" || key == "pool" {
			return fmt.Errorf("the rule %s changes the starts, which a folder has once (hint: choose another --out for it)", key)
		}
	}
	if f.Precision != "" && f.Precision != device.FP32 {
		return fmt.Errorf("precision is %q (hint: %s, to compare a grid that plans in %s with it)", f.Precision, device.FP32, device.BF16)
	}
	if _, err := ReadProtocol(f.Rules); err != nil {
		return err
	}
	_, err := ParseAxes(cmp.Or(strings.Join(f.Solvers, ","), results.CEM), cmp.Or(strings.Join(f.Tiers, ","), "T1"), results.TuningSet)
	return err
}

// Chosen says which axes the user chose instead of the preset's.
type Chosen struct{ Solvers, Tiers, Qs bool }

// AddFurther sets Also to the preset's further grids. They are restricted to the grid's
// tasks and methods and, where the user chose solvers, tiers or states instead of the
// preset's, to these. A further grid without any cell is left out.
func (g *Grid) AddFurther(chosen Chosen) error {
	for _, f := range g.Preset.Grid.Also {
		other, err := g.with(f)
		if err != nil {
			return err
		}
		if chosen.Solvers {
			other.Solvers = among(other.Solvers, g.Solvers)
		}
		if chosen.Tiers {
			other.Tiers = among(other.Tiers, g.Tiers)
		}
		if chosen.Qs {
			other.Qs = among(other.Qs, g.Qs)
		}
		if len(other.Tasks) > 0 && len(other.Methods) > 0 && len(other.Solvers) > 0 && len(other.Tiers) > 0 && (len(f.Q) == 0 || len(other.Qs) > 0) {
			g.Also = append(g.Also, other)
		}
	}
	return nil
}

// among returns the entries of list that are also in only.
func among[T comparable](list, only []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !slices.Contains(only, x) })
}

// with returns g with the values of f. It has no analyses: those of an arm do not depend
// on what f changes.
func (g *Grid) with(f Further) (Grid, error) {
	o := *g
	o.Also, o.Analyses = nil, nil
	if len(f.Tasks) > 0 {
		o.Tasks = slices.DeleteFunc(slices.Clone(g.Tasks), func(t envs.Task) bool { return !slices.Contains(f.Tasks, t.Spec.Name) })
	}
	if len(f.Methods) > 0 {
		o.Methods = slices.DeleteFunc(slices.Clone(g.Methods), func(m model.Method) bool { return !slices.Contains(f.Methods, m.Arm()) })
	}
	if len(f.Q) > 0 {
		o.Qs = f.Q
	}
	var tiers []string
	for _, t := range g.Tiers {
		tiers = append(tiers, t.Name)
	}
	if len(f.Tiers) > 0 {
		tiers, o.Preset.Eval.TiersOf = f.Tiers, nil
	}
	if len(f.Solvers) > 0 {
		o.Solvers = f.Solvers
	}
	var err error
	if o.Axes, err = ParseAxes(strings.Join(o.Solvers, ","), strings.Join(tiers, ","), strings.Join(g.Sets, ",")); err != nil {
		return o, err
	}
	for _, key := range slices.Sorted(maps.Keys(f.Rules)) {
		o.suffix += " " + key + "=" + f.Rules[key]
	}
	if o.Precision = string(f.Precision); o.Precision != "" {
		o.suffix += " precision=" + o.Precision
	}
	if f.Rules["protocol"] != "" {
		d, err := protocol.Load(f.Rules["protocol"])
		if err != nil {
			return o, Requestf("%w", err)
		}
		o.Definition = *d
		o.Precision = string(f.Precision)
	}
	if err = o.Change(f.Rules); err != nil {
		err = Requestf("%w", err)
	}
	if err == nil && o.Precision != "" && o.Temperature == results.Tuned && slices.Contains(o.Solvers, results.MPPI) {
		err = Requestf("grid.also: mppi in another precision has no tuned temperature (hint: name other solvers, or a temperature in its rules)")
	}
	return o, err
}

// grids returns the workspaces of the grid and of its further grids. They differ in the
// grid and in the device that plans, and share everything that is open.
func (w *Workspace) grids() []*Workspace {
	all := []*Workspace{w}
	for _, g := range w.Grid.Also {
		o := *w
		switch g.Precision {
		case w.Grid.Precision:
			continue // the grid itself has this precision
		case "":
			g.Precision = w.Grid.Precision
		default:
			o.Planner = w.OtherPlanner
		}
		o.Grid = g
		all = append(all, &o)
	}
	return all
}
