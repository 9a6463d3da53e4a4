package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Contents are the contents of a results folder.
type Contents struct {
	Cells    []Cell         // sorted by ID
	Analyses []Analysis     // sorted by ID
	Tuning   []Cell         // those that chose MPPI's temperature, sorted by ID
	Gates    []Gate         // one for each task whose frames were compared
	Runs     map[string]Run // measured times by cell ID; not all cells have them
	// Trained describes the trainings of the evaluated checkpoints, by the hash of their
	// weights. Checkpoints that were evaluated by older versions may be missing.
	Trained  map[string]Trained
	Paths    map[string]string // files of cells and analyses, by ID
	Torn     []string          // damaged cells and cells with impossible rows, and why
	Problems []string          // other files that could not be read, and why
	Notes    []string          // what the cells of earlier versions lack
	Curves   []Curve           // set by AddMedia
	Clips    []Clip            // set by AddMedia
}

// Outside returns a cell of each task that an outside world simulated, by the task's name.
func (c *Contents) Outside() map[string]Cell {
	out := map[string]Cell{}
	for _, x := range c.Cells {
		if _, there := out[x.Spec.Task]; !there && x.Spec.World != "" {
			out[x.Spec.Task] = x
		}
	}
	return out
}

// Load reads all cells in the folders named CellsDir or TuningDir at or below dir. A damaged file does not
// cause an error; it is listed in Torn or Problems. Load returns an error if dir does not
// exist, or if a cell exists twice with different results. Equal copies, which merged shards
// have, count once.
func Load(ctx context.Context, dir string) (Contents, error) {
	f := Contents{Runs: map[string]Run{}, Paths: map[string]string{}, Trained: map[string]Trained{}}
	// Checksums by ID. A tuning cell may also be among the results.
	sums := map[string]map[string]string{CellsDir: {}, TuningDir: {}}
	unread, err := safefile.Walk(ctx, dir, func(path string, folder bool) error {
		switch {
		case folder && sums[filepath.Base(path)] != nil:
			// The walk itself reports folders without permission.
			if err := f.readStore(ctx, cell.Store{Dir: path}, sums[filepath.Base(path)]); !errors.Is(err, fs.ErrPermission) {
				return err
			}
		case !folder && filepath.Base(filepath.Dir(path)) == GatesDir && filepath.Ext(path) == ".json":
			f.addGate(path)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Contents{}, fmt.Errorf("reading the results folder %s: it does not exist (hint: give the --out folder of `scalewm reproduce` or `scalewm eval`)", dir)
	}
	if err != nil {
		return Contents{}, fmt.Errorf("reading the results folder %s: %w", dir, err)
	}
	f.Problems = append(f.Problems, unread...)
	slices.SortFunc(f.Cells, func(a, b Cell) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(f.Tuning, func(a, b Cell) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(f.Analyses, func(a, b Analysis) int { return strings.Compare(a.ID, b.ID) })
	f.dropOldIntervals()
	return f, nil
}

// dropOldIntervals drops the intervals of alignments from cells of earlier versions (see
// AnalysisSchema), and the analysis itself if it was computed again.
func (f *Contents) dropOldIntervals() {
	found := map[AnalysisSpec]bool{}
	for _, a := range f.Analyses {
		found[a.Spec] = true
	}
	old := 0
	f.Analyses = slices.DeleteFunc(f.Analyses, func(a Analysis) bool {
		s := a.Spec
		if s.Analysis != RankAnalysis || !s.Outdated() {
			return false
		}
		if s.Schema = s.Version(); found[s] {
			return true
		}
		for i := range a.Rank {
			a.Rank[i].Lo, a.Rank[i].Hi = Number(math.NaN()), Number(math.NaN())
		}
		old++
		return false
	})
	if old > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("alignments shown without an interval: %d, computed by an earlier version, whose intervals were not centred (hint: `scalewm analyse rank OUT` computes them again)", old))
	}
}

// addGate reads a render gate.
func (f *Contents) addGate(path string) {
	g, err := ReadGate(path)
	if err != nil {
		f.Problems = append(f.Problems, fmt.Sprintf("reading the render gate %s: %v", path, err))
		return
	}
	f.Gates = append(f.Gates, g)
}

// readStore adds the cells of one store. sums has the checksums of cells that were read
// before, by ID.
func (f *Contents) readStore(ctx context.Context, s cell.Store, sums map[string]string) error {
	return s.Each(ctx, func(e cell.Entry, err error) error {
		if err != nil {
			f.Torn = append(f.Torn, err.Error())
			return nil
		}
		if e.Kind != Kind && e.Kind != AnalysisKind {
			return nil
		}
		if old, ok := sums[e.ID]; ok {
			if old != e.SHA256 {
				return fmt.Errorf("cell %s exists twice with different results, in %s and %s (hint: they come from different kinds of device or versions; keep one of them)", e.ID, f.Paths[e.ID], e.Path())
			}
			return nil
		}
		sums[e.ID], f.Paths[e.ID] = e.SHA256, cmp.Or(f.Paths[e.ID], e.Path())
		if e.Kind == AnalysisKind {
			err = f.addAnalysis(s, e)
		} else {
			err = f.add(s, e)
		}
		if err != nil {
			f.Torn = append(f.Torn, err.Error())
		}
		return nil
	})
}

// addAnalysis reads an analysis and, for the cost, its measured times.
func (f *Contents) addAnalysis(s cell.Store, e cell.Entry) error {
	a := Analysis{ID: e.ID}
	if err := e.Into(&a.Spec, nil); err != nil {
		return err
	}
	if err := e.Into(nil, a.Part(a.Spec.Analysis)); err != nil {
		return err
	}
	if a.Cost != nil {
		var times CostTimes
		if f.readRun(s, a.ID, &times) {
			a.Cost.Times = &times
		}
	}
	f.Analyses = append(f.Analyses, a)
	return nil
}

// add reads an evaluation cell and its measured times.
func (f *Contents) add(s cell.Store, e cell.Entry) error {
	c := Cell{ID: e.ID}
	if err := e.Into(&c.Spec, &c.Result); err != nil {
		return err
	}
	if err := c.checkAt(e.Path()); err != nil {
		return err
	}
	// Decoding leaves spare capacity, which is considerable over thousands of cells.
	c.Result.Rows = slices.Clone(c.Result.Rows)
	if filepath.Base(s.Dir) == TuningDir {
		f.Tuning = append(f.Tuning, c)
		return nil
	}
	f.Cells = append(f.Cells, c)
	var run Run
	if f.readRun(s, e.ID, &run) {
		f.Runs[e.ID] = run
		if run.Trained != (Trained{}) {
			f.Trained[c.Spec.Weights] = run.Trained
		}
	}
	return nil
}

// readRun reads the measured times of a cell, and reports whether it has any. Damaged
// ones are added to Problems.
func (f *Contents) readRun(s cell.Store, id string, run any) bool {
	err := s.LoadRun(id, run)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Problems = append(f.Problems, err.Error())
	}
	return err == nil
}
