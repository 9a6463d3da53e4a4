package infer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
)

// Side is one side of a comparison: the outcomes of an arm on one task with one solver, for
// one or more training seeds. The zero value, with a name, has no outcomes; Add adds them.
type Side struct {
	Name  string
	Torn  []string // cells that could not be read, and why
	Notes []string // notes on cells that were left out, or whose costs were not finite
	units map[unit]outcomes
	// untrained says that the outcomes are without a model. They count for every training
	// seed of another side.
	untrained bool
}

// unit is a training seed at a tier.
type unit struct {
	seed int
	tier string
}

// outcomes maps sets and episodes to the outcomes of a unit.
type outcomes map[string]map[int]outcome

// outcome is the outcome of one episode, with the conditions that pairing compares.
type outcome struct {
	success bool
	values  fieldValues
}

// anyTier is the tier of an arm that does not search, such as random actions. It is
// compared with every tier of the other arm.
const anyTier = ""

// Add adds the outcomes of a cell. It returns an error if the side has one of the
// episodes already. The side refers to the rows of the cell, which must not change.
func (a *Side) Add(c results.Cell) error {
	all := ofCell(c)
	a.untrained = c.Spec.Weights == ""
	for i := range c.Result.Rows {
		r := &c.Result.Rows[i]
		if err := a.add(unit{c.Spec.TrainSeed, c.Spec.Tier}, c.Spec.Set, r.Episode, outcome{r.Success, fieldValues{all, r}}); err != nil {
			return err
		}
	}
	return nil
}

// Join combines the sides of one arm with several solvers in one side, whose tiers are
// named "solver tier". Pairing over solvers and tiers then is pairing over tiers. Outcomes
// without a tier are those of one policy in every block. The result shares its outcomes
// with the arguments.
func Join(name string, bySolver map[string]*Side) *Side {
	all := &Side{Name: name, units: map[unit]outcomes{}}
	for solver, a := range bySolver {
		all.untrained = a.untrained
		for u, sets := range a.units {
			if u.tier != anyTier {
				u.tier = solver + " " + u.tier
			}
			all.units[u] = sets
		}
	}
	return all
}

// add adds an outcome. It returns an error if the episode is there already.
func (a *Side) add(u unit, set string, episode int, o outcome) error {
	if a.units == nil {
		a.units = map[unit]outcomes{}
	}
	if a.units[u] == nil {
		a.units[u] = outcomes{}
	}
	if a.units[u][set] == nil {
		a.units[u][set] = map[int]outcome{}
	}
	if _, double := a.units[u][set][episode]; double {
		return fmt.Errorf("episode %d of set %s at tier %q occurs twice (hint: an arm is one method, solver and training seed; name the method as PATH:METHOD and choose with --task, --solver, --seed)",
			episode, set, u.tier)
	}
	if u.tier == anyTier {
		o.values = o.values.unplanned()
	}
	a.units[u][set][episode] = o
	return nil
}

// addStated adds the outcome of a file.
func (a *Side) addStated(o stated) error { return a.add(o.unit, o.set, o.episode, o.outcome) }

// tiers returns the tiers of the side, sorted.
func (a *Side) tiers() []string {
	seen := map[string]bool{}
	for u := range a.units {
		seen[u.tier] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// seeds returns the training seeds of the side, sorted.
func (a *Side) seeds() []int {
	seen := map[int]bool{}
	for u := range a.units {
		seen[u.seed] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// at returns the outcomes of a training seed at a tier, including those without a tier.
func (a *Side) at(seed int, tier string) outcomes {
	out := outcomes{}
	maps.Copy(out, a.units[unit{seed, anyTier}])
	maps.Copy(out, a.units[unit{seed, tier}])
	return out
}

// first returns the conditions that all episodes of the first set share.
func (o outcomes) first() fieldValues {
	for _, set := range slices.Sorted(maps.Keys(o)) {
		for _, row := range o[set] {
			return row.values.shared()
		}
	}
	return fieldValues{cell: new([]string)}
}

// named returns o with the names that p has for sets of the same manifest: a set is named
// after the manifest's file, which may have several names.
func (o outcomes) named(p outcomes) outcomes {
	names := map[string]string{} // of p's sets, by manifest
	for set := range p {
		names[p.manifest(set)] = set
	}
	out := outcomes{}
	for set, rows := range o {
		name, same := names[o.manifest(set)]
		if _, taken := o[name]; !same || taken || p[set] != nil || o.manifest(set) == "" {
			name = set
		}
		out[name] = rows
	}
	return out
}

// manifest returns the SHA-256 of the manifest that lists the episodes of a set; "" if
// there is none, or if it is not stated.
func (o outcomes) manifest(set string) string {
	for _, row := range o[set] {
		if sha := row.values.of(manifest); len(sha) == sha256.Size*2 {
			return sha
		}
		break
	}
	return ""
}

// Filter selects the cells of an arm. Empty Task, Solver and Seed select all cells.
// Empty Settings select the main settings, which vary no others.
type Filter struct{ Task, Solver, Seed, Settings string }

// Load reads one side of a comparison from a CSV file, a result of CLEAR-LeWM, a cell
// file, or a results folder. The last two may have ":METHOD" appended to select an arm.
// It returns an error if the selected cells belong to more than one arm.
func Load(ctx context.Context, name string, f Filter) (*Side, error) {
	a := &Side{Name: name}
	path, method := splitMethod(name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the arm %s: there is no %s (hint: an arm is a results folder, a cell, a CSV file or a result of CLEAR-LeWM, with :METHOD behind it where there are several)", name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the arm %s: %w", name, err)
	}
	switch {
	case info.IsDir():
		err = a.loadFolder(ctx, path, method, f)
	default:
		var about string
		if about, err = readOutcomes(path, a.addStated); errors.Is(err, errNoResult) && isJSON(path) {
			err = a.loadCell(path, method, f)
		}
		if about != "" {
			a.Notes = append(a.Notes, name+": "+about)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the arm %s: %w", name, err)
	}
	return a, nil
}

// splitMethod splits ":METHOD" off a name, unless there is a file of that name: a path
// may contain a colon.
func splitMethod(name string) (path, method string) {
	if _, err := os.Stat(name); err == nil {
		return name, ""
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

func (a *Side) loadFolder(ctx context.Context, dir, method string, f Filter) error {
	folder, err := results.Load(ctx, dir)
	if err != nil {
		return err
	}
	if a.Torn = folder.Torn; len(folder.Cells) == 0 && len(a.Torn) > 0 {
		return fmt.Errorf("none of its cells can be read: %s", strings.Join(a.Torn, "; "))
	}
	return a.take(folder.Cells, method, f)
}

func (a *Side) loadCell(path, method string, f Filter) error {
	id := strings.TrimSuffix(filepath.Base(path), ".json")
	c, err := results.Read(cell.Store{Dir: filepath.Dir(path)}, id)
	if err != nil {
		return err
	}
	return a.take([]results.Cell{c}, method, f)
}

// take adds the cells that the method and the filter select. They must belong to one
// task, arm, table, training seed and settings.
func (a *Side) take(cells []results.Cell, method string, f Filter) error {
	placed, notes := PlaceCells(cells)
	a.Notes = notes
	fits := func(want, got string) bool { return want == "" || got == "" || want == got }
	// A method may be given as the full name of an arm, with variants. If no arm has this
	// name, all arms of the method are candidates.
	exact := slices.ContainsFunc(placed, func(p Placed) bool { return p.Arm.String() == method })
	found := map[string]bool{} // arms among the chosen cells
	tiers := map[string][]results.Cell{}
	for _, c := range placed {
		s := c.Spec
		if method != "" && c.Arm.String() != method && (exact || s.Method != method) || !fits(f.Task, s.Task) || !fits(f.Solver, c.Table) ||
			f.Seed != "" && f.Seed != strconv.Itoa(s.TrainSeed) || f.Settings != c.Settings.Name && (f.Settings != "" || c.Settings.Main != nil) {
			continue
		}
		name := strings.TrimSpace(fmt.Sprintf("%s %s %s seed %d", s.Task, c.Arm, c.Table, s.TrainSeed))
		if c.Settings.Name != "" {
			name += fmt.Sprintf(" with %q", c.Settings.Name)
		}
		if found[name] = true; len(found) > 1 {
			continue
		}
		if err := a.Add(c.Cell); err != nil {
			return err
		}
		tiers[s.Tier] = append(tiers[s.Tier], c.Cell)
	}
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		if note := ScoreOf(tiers[tier]).Note(); note != "" {
			a.Notes = append(a.Notes, fmt.Sprintf("%s, %s: %s", a.Name, tier, note))
		}
	}
	if len(cells) == 0 {
		return fmt.Errorf("it holds no evaluation cells (hint: give the --out folder of `scalewm eval` or `scalewm reproduce`, above or at its folder %s)", results.CellsDir)
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("none of its %d cells fits (hint: `scalewm report` lists what a results folder holds)", len(cells))
	case 1:
		return nil
	}
	var names []string
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Errorf("it holds %d arms (%s) (hint: name the method as PATH:METHOD and choose with --task, --solver, --seed, --settings)", len(found), strings.Join(names, "; "))
}
