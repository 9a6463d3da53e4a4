// Package compare sets two arms of an evaluation against each other, episode by
// episode: it reads them from cells or from a CSV file, refuses what does not
// pair, and tests the differences per tier and over all tiers.
//
// It knows nothing of models or tasks, and draws nothing but the fixed streams
// of its Monte-Carlo test and bootstrap.
package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/eval/record"
)

// unit names an outcome within an arm.
type unit struct {
	tier, set string
	episode   int
}

// outcome is one episode of an arm.
type outcome struct {
	success bool
	given   record.Given
}

// Arm is one method's outcomes.
type Arm struct {
	Name     string
	Problems []string // files that could not be read, and why
	outcomes map[unit]outcome
}

// anyTier is the tier of an arm that does not plan, such as random actions: it
// is compared with every tier of the other arm.
const anyTier = ""

// add takes an outcome, and refuses a second one of the same unit.
func (a *Arm) add(u unit, o outcome) error {
	if _, double := a.outcomes[u]; double {
		return fmt.Errorf("episode %d of set %s at tier %q stands there twice (hint: an arm is one method, solver and training seed; name the method as PATH:METHOD and choose with --task, --solver, --seed)",
			u.episode, u.set, u.tier)
	}
	a.outcomes[u] = o
	return nil
}

// tiers are the arm's tiers, sorted.
func (a *Arm) tiers() []string {
	seen := map[string]bool{}
	var out []string
	for u := range a.outcomes {
		if !seen[u.tier] {
			seen[u.tier] = true
			out = append(out, u.tier)
		}
	}
	slices.Sort(out)
	return out
}

// Filter chooses the cells of an arm; empty texts choose all.
type Filter struct{ Task, Solver, Seed string }

// Load reads an arm: a CSV file, a cell file, or a results folder, each of the
// latter with an optional ":method" behind it.
func Load(name string, f Filter) (*Arm, error) {
	a := &Arm{Name: name, outcomes: map[unit]outcome{}}
	path, method := splitMethod(name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the arm %s: there is no %s (hint: an arm is a results folder, a cell or a CSV file, with :METHOD behind it where there are several)", name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the arm %s: %w", name, err)
	}
	switch {
	case info.IsDir():
		err = a.loadFolder(path, method, f)
	case strings.EqualFold(filepath.Ext(path), ".csv"):
		err = a.loadCSV(path)
	case !strings.EqualFold(filepath.Ext(path), ".json"):
		err = errors.New("it is no arm (hint: an arm is a results folder, a cell's .json or a .csv file)")
	default:
		err = a.loadCell(path, method, f)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the arm %s: %w", name, err)
	}
	return a, nil
}

// splitMethod takes ":method" off the end of a name, unless a file has the whole name.
func splitMethod(name string) (path, method string) {
	if _, err := os.Stat(name); err == nil {
		return name, ""
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

func (a *Arm) loadFolder(dir, method string, f Filter) error {
	folder, err := record.Load(dir)
	if err != nil {
		return err
	}
	a.Problems = folder.Problems
	return a.take(folder.Cells, method, f)
}

func (a *Arm) loadCell(path, method string, f Filter) error {
	id := strings.TrimSuffix(filepath.Base(path), ".json")
	c := record.Cell{ID: id}
	if err := (cell.Store{Dir: filepath.Dir(path)}).Load(id, &c.Spec, &c.Result); err != nil {
		return err
	}
	return a.take([]record.Cell{c}, method, f)
}

// take adds the cells that fit.
func (a *Arm) take(cells []record.Cell, method string, f Filter) error {
	fits := func(want, got string) bool { return want == "" || got == "" || want == got }
	found := map[string]bool{} // arms among the chosen cells
	for _, c := range cells {
		s := c.Spec
		if method != "" && s.Method != method || !fits(f.Task, s.Task) || !fits(f.Solver, s.Solver) || f.Seed != "" && f.Seed != strconv.Itoa(s.TrainSeed) {
			continue
		}
		found[strings.TrimSpace(fmt.Sprintf("%s %s %s seed %d", s.Task, s.Method, s.Solver, s.TrainSeed))] = true
		if len(found) > 1 {
			continue
		}
		if err := a.addCell(c); err != nil {
			return err
		}
	}
	if len(cells) == 0 {
		return fmt.Errorf("it holds no evaluation cells (hint: give the --out folder of `scalewm eval` or `scalewm reproduce`, above or at its folder %s)", record.CellsDir)
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
	return fmt.Errorf("it holds %d arms (%s) (hint: name the method as PATH:METHOD and choose with --task, --solver, --seed)", len(found), strings.Join(names, "; "))
}

func (a *Arm) addCell(c record.Cell) error {
	s := c.Spec
	for _, r := range c.Result.Rows {
		o := outcome{success: r.Success, given: c.Given(r)}
		if err := a.add(unit{s.Tier, s.Set, r.Episode}, o); err != nil {
			return err
		}
	}
	return nil
}
