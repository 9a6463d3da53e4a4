package infer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/eval/clear"
	"scalewm/eval/results"
	"scalewm/model"
)

// stated is the outcome of an episode as a file of another program states it. What the
// file does not state is empty, and agrees with every value.
type stated struct {
	unit
	solver, set string
	episode     int
	outcome
}

// value returns the value of the field with a name.
func (o stated) value(name string) string {
	return o.values.of(slices.IndexFunc(fields, func(f field) bool { return f.name == name }))
}

// errNoResult is returned for a file that is neither CSV nor a result of CLEAR-LeWM.
var errNoResult = errors.New("it is not an arm (hint: an arm is a results folder, a cell's .json, a .csv file, or a result of CLEAR-LeWM)")

func isJSON(path string) bool { return strings.EqualFold(filepath.Ext(path), ".json") }

// readOutcomes reads a CSV file or a result of CLEAR-LeWM, and passes each outcome to
// add. It returns what the file says about who acted, if it does.
func readOutcomes(path string, add func(stated) error) (about string, err error) {
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		f, err := safefile.Open(path, safefile.MaxCSV)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return "", readCSV(f, add)
	}
	if !isJSON(path) {
		return "", errNoResult
	}
	b, err := safefile.Read(path, clear.MaxResult)
	if err != nil {
		return "", err
	}
	if !clear.IsResult(b) {
		return "", errNoResult
	}
	r, err := clear.ParseResult(b)
	if err != nil {
		return "", err
	}
	o := stated{solver: r.Solver(), set: clear.SetName(r.Manifest)}
	if r.Searches() {
		o.tier = results.TierName(r.Candidates, r.Iterations, r.Elites)
	}
	o.values.cell = conditionsOf(r)
	for o.episode, o.success = range r.Successes {
		if err := add(o); err != nil {
			return "", err
		}
	}
	return aboutResult(r), nil
}

// conditionsOf returns the values of fields that a result of CLEAR-LeWM states. It does
// not state horizon, noise, device and the rest of the planner's settings.
func conditionsOf(r *clear.Result) *[]string {
	rules := results.Rules{Manifest: r.ManifestSHA256, GoalOffset: r.Protocol.GoalOffset, Budget: r.Protocol.Budget, Judge: r.Rule().Normal(r.Task), History: r.History}
	if r.Swept() {
		rules.Collision = results.Swept
	}
	if r.AllSubsteps() {
		rules.Substeps = results.AllSubsteps
	}
	if r.StartState == clear.RestStart {
		rules.State = results.RestStart
	}
	c := results.Cell{Spec: results.Spec{Task: r.Task, Rules: rules, Solver: r.Solver(), Weights: r.SHA256, Candidates: r.Candidates, Iterations: r.Iterations, Elites: r.Elites}}
	values := make([]string, len(fields))
	for i, f := range fields {
		switch f.name {
		case "task", "manifest", "state", "success_rule", "judge", "collision", "substeps", "budget", "goal_offset", "history", "candidates", "iterations", "elites":
			values[i] = f.value(c)
		}
	}
	return &values
}

// aboutResult says who computed a result of CLEAR-LeWM, and who acted.
func aboutResult(r *clear.Result) string {
	s := strings.TrimSpace("a result of CLEAR-LeWM "+r.Benchmark) + fmt.Sprintf(": policy %.60q, inference %s", r.Policy, r.Mode)
	if r.Checkpoint != "" {
		s += fmt.Sprintf(", checkpoint %.60q", r.Checkpoint)
	}
	if r.Task == "reacher" && r.Benchmark == "" && r.AllSubsteps() {
		s += "; versions before 0.8 reset Reacher at the goal by mistake, so its numbers are not comparable"
	}
	return s
}

// Foreign is an arm of a report whose outcomes another program computed.
type Foreign struct {
	Name  string // in --with; the arm's method
	Files []ForeignFile
}

// ForeignFile is a file with outcomes of a Foreign.
type ForeignFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	About  string `json:"about,omitempty"` // who acted, for readers; "" if the file does not say

	outcomes []stated
}

// ReadForeign reads a comma-separated list of FILE or NAME=FILE. The files are CSV files
// or results of CLEAR-LeWM. An arm without a name is named after its file, and files of
// one name are one arm.
func ReadForeign(list string) (out []*Foreign, err error) {
	seen := map[string]*Side{} // outcomes so far, to find an episode that occurs twice
	for item := range strings.SplitSeq(list, ",") {
		name, path := splitNamed(strings.TrimSpace(item))
		if err := checkForeign(name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if seen[name] == nil {
			seen[name] = &Side{}
			out = append(out, &Foreign{Name: name})
		}
		f := ForeignFile{Path: path}
		f.About, err = readOutcomes(path, func(o stated) error { return f.add(o, seen[name]) })
		if err == nil {
			f.SHA256, err = safefile.SHA256(path)
		}
		if errors.Is(err, errNoResult) {
			err = errors.New("it is no result (hint: a .csv file, or a .json file that CLEAR-LeWM wrote)")
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		at := slices.IndexFunc(out, func(x *Foreign) bool { return x.Name == name })
		out[at].Files = append(out[at].Files, f)
	}
	return out, nil
}

// add adds an outcome, unless the arm has it: seen has its outcomes so far. It may have
// several tasks and solvers.
func (f *ForeignFile) add(o stated, seen *Side) error {
	f.outcomes = append(f.outcomes, o)
	o.set = o.value("task") + " " + o.solver + " " + o.set
	return seen.addStated(o)
}

// splitNamed splits NAME=FILE. Without a name it is that of the file, unless there is a
// file with the entire text as its path.
func splitNamed(item string) (name, path string) {
	name, path, named := strings.Cut(item, "=")
	if _, err := os.Stat(item); err == nil || !named {
		return strings.TrimSuffix(filepath.Base(item), filepath.Ext(item)), item
	}
	return name, path
}

// checkForeign returns an error for a name that an arm of another program cannot have.
func checkForeign(name string) error {
	arm, err := results.ParseArm(name)
	if err == nil && arm != (results.Arm{Method: name}) {
		err = errors.New("the name of its arm has a variant")
	}
	if _, here := model.LookUp(name); err == nil && here == nil {
		err = fmt.Errorf("%s is a method of this program", name)
	}
	if err != nil {
		return fmt.Errorf("%w (hint: name the arm, as in NAME=FILE)", err)
	}
	return nil
}

// hash identifies the arm's files, in place of the hash of a checkpoint: that of the only
// file, or of all of them.
func (f *Foreign) hash() string {
	if len(f.Files) == 1 {
		return f.Files[0].SHA256
	}
	all := sha256.New()
	for _, x := range f.Files {
		all.Write([]byte(x.SHA256))
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Note says, for readers, who computed the arm's outcomes.
func (f *Foreign) Note() string {
	var files []string
	for _, x := range f.Files {
		files = append(files, strings.TrimSuffix(fmt.Sprintf("%s, SHA-256 %s, %s", x.Path, short(x.SHA256), x.About), ", "))
	}
	return fmt.Sprintf("%s was computed by another program, with its own planner noise and device (%s)", f.Name, strings.Join(files, "; "))
}

// placeForeign places the outcomes of other programs with the cells of the folder that
// they may be compared with. Each set at a tier becomes a cell for every settings with
// which the file agrees. An outcome without a counterpart in the folder is an error.
func placeForeign(arms []*Foreign, placed []Placed) (out []Placed, err error) {
	for _, f := range arms {
		if slices.ContainsFunc(placed, func(p Placed) bool { return p.Arm.Method == f.Name }) {
			return nil, fmt.Errorf("the folder has an arm %s already (hint: name the other, as in NAME=%s)", f.Name, f.Files[0].Path)
		}
		for _, file := range f.Files {
			for _, group := range grouped(file.outcomes) {
				hosts, err := hostsOf(group, placed)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", file.Path, err)
				}
				for _, h := range hosts {
					p := f.cell(group, h)
					p.Foreign = file.Path
					if p.ID, err = cell.ID(results.Kind, p.Spec); err != nil {
						return nil, err
					}
					out = append(out, p)
				}
			}
		}
	}
	return out, nil
}

// grouped returns the outcomes of each task, solver, tier and set, in the order of the
// file.
func grouped(all []stated) (groups [][]stated) {
	type place struct{ task, solver, tier, set string }
	at := map[place]int{}
	for _, o := range all {
		k := place{o.value("task"), o.solver, o.tier, o.set}
		i, is := at[k]
		if !is {
			i, groups = len(groups), append(groups, nil)
			at[k] = i
		}
		groups[i] = append(groups[i], o)
	}
	return groups
}

// hostsOf returns, for all settings that have the episodes of a group, a cell of the
// folder with them. The group is of one task, solver, tier and set. Without a tier it is
// of a policy, which is compared with all searches.
func hostsOf(group []stated, placed []Placed) (hosts []Placed, err error) {
	o := group[0]
	seen, tables, tasks := map[*Settings]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range placed {
		s := p.Spec
		tasks[s.Task] = true
		fits := func(is string, of ...string) bool { return is == "" || slices.Contains(of, is) }
		if p.Table == "" || seen[p.Settings] || !fits(o.value("task"), s.Task) || !fits(o.tier, s.Tier) || !fits(o.solver, s.Solver, p.Table) ||
			s.Set != o.set && (s.Manifest == "" || s.Manifest != o.value("manifest")) {
			continue
		}
		if why := agree(group, p.Cell); why != nil {
			err = cmp.Or(err, why)
			continue
		}
		seen[p.Settings], tables[p.Table], hosts = true, true, append(hosts, p)
	}
	switch {
	case o.value("task") == "" && len(tasks) > 1:
		return nil, fmt.Errorf("it does not state its task, and the folder has %d (hint: a column task)", len(tasks))
	case o.solver == "" && o.tier != anyTier && len(tables) > 1:
		return nil, fmt.Errorf("it does not state its solver, and the folder has %d (hint: a column solver)", len(tables))
	case len(hosts) == 0:
		return nil, cmp.Or(err, missing(o))
	}
	return hosts, nil
}

// missing is the error for an outcome without a counterpart in the folder.
func missing(o stated) error {
	at := strings.Join(strings.Fields(o.value("task")+" "+o.solver+" "+o.tier), " ")
	return fmt.Errorf("episode %d of set %s (%s) has no counterpart in the folder (hint: the folder needs a search on the same set, and at the same tier if there is one; for a manifest, evaluate with --sets)", o.episode, o.set, cmp.Or(at, "no task, solver or tier stated"))
}

// agree returns an error if a cell does not have exactly the episodes of a group, or if
// they were evaluated under other conditions than the file states.
func agree(group []stated, c results.Cell) error {
	all, rows := ofCell(c), rowsOf(c)
	for _, o := range group {
		row := rows[o.episode]
		if row == nil {
			return missing(o)
		}
		here := fieldValues{all, row}
		if o.tier == anyTier {
			here = here.unplanned()
		}
		if err := o.values.mismatch(here, false); err != nil {
			return fmt.Errorf("set %s, episode %d: %w (hint: the first is that of the file; the folder needs cells under its conditions)", o.set, o.episode, err)
		}
	}
	// Success on a part of a set cannot be compared with success on all of it.
	if len(group) < len(rows) {
		return fmt.Errorf("it has %d of the %d episodes of set %s (hint: `scalewm compare` pairs those that both have)", len(group), len(rows), c.Spec.Set)
	}
	return nil
}

// rowsOf returns the rows of a cell by their episodes.
func rowsOf(c results.Cell) map[int]*results.Row {
	rows := map[int]*results.Row{}
	for i := range c.Result.Rows {
		rows[c.Result.Rows[i].Episode] = &c.Result.Rows[i]
	}
	return rows
}

// cell returns the outcomes of a group as a cell with the place and the settings of one
// of the folder, the host. The number of steps is unknown, 0.
func (f *Foreign) cell(group []stated, host Placed) Placed {
	p := Placed{Table: host.Table, Settings: host.Settings, Arm: results.Arm{Method: f.Name}}
	h := host.Spec
	p.Spec = results.Spec{Schema: h.Schema, Task: h.Task, Method: f.Name, Weights: f.hash(), Data: h.Data, Set: h.Set, SetHash: h.SetHash, Episodes: h.Episodes}
	if group[0].tier == anyTier {
		p.Spec.Python, p.Arm = results.PythonPolicy, p.Arm.With(results.PythonPolicy)
	} else {
		p.Spec.Solver, p.Spec.Tier, p.Spec.Candidates, p.Spec.Iterations, p.Spec.Elites = h.Solver, h.Tier, h.Candidates, h.Iterations, h.Elites
	}
	p.Spec.Rules = h.Rules.Of(p.Spec.Solver, true)
	rows := rowsOf(host.Cell)
	for _, o := range group {
		r := rows[o.episode]
		row := results.Row{Episode: o.episode, Trajectory: r.Trajectory, Start: r.Start, PreSolved: r.PreSolved, Success: o.success}
		if p.Spec.Solver != "" {
			row.PlannerSeed = r.PlannerSeed // for pairing, which compares it
		}
		p.Result.Rows = append(p.Result.Rows, row)
	}
	return p
}
