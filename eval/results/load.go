package results

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Contents is what a results folder holds of evaluations.
type Contents struct {
	Cells    []Cell            // sorted by ID
	Analyses []Analysis        // sorted by ID
	Gates    []Gate            // of the tasks' frames
	Runs     map[string]Run    // by cell ID, where measured
	Paths    map[string]string // of cells and analyses, by ID
	Torn     []string          // files that are no whole cell or have impossible rows, and why
	Problems []string          // other files that could not be read, and why
	Curves   []Curve           // where AddMedia was called
	Clips    []Clip
}

// Load reads every evaluation cell in the folders named CellsDir at or below
// dir. A torn file is a problem of the folder and no error; a missing dir is
// one, and so is a cell that exists twice with different results. Equal
// copies, as shards that were put side by side have, count once.
func Load(ctx context.Context, dir string) (Contents, error) {
	f := Contents{Runs: map[string]Run{}, Paths: map[string]string{}}
	sums := map[string]string{} // by ID
	unread, err := safefile.Walk(ctx, dir, func(path string, folder bool) error {
		switch {
		case folder && filepath.Base(path) == CellsDir:
			if err := f.readStore(ctx, cell.Store{Dir: path}, sums); !errors.Is(err, fs.ErrPermission) { // which the walk reports
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
	slices.SortFunc(f.Analyses, func(a, b Analysis) int { return strings.Compare(a.ID, b.ID) })
	return f, nil
}

// addGate reads the verdict on a task's frames.
func (f *Contents) addGate(path string) {
	var g Gate
	b, err := safefile.Read(path, safefile.MaxRecord)
	if err == nil {
		g, err = ParseGate(b)
	}
	if err != nil {
		f.Problems = append(f.Problems, fmt.Sprintf("reading the render gate %s: %v", path, err))
		return
	}
	f.Gates = append(f.Gates, g)
}

// readStore adds the cells of one store. The same cell may lie in several; it counts
// once, and must have the same content in all.
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
				return fmt.Errorf("cell %s is there twice with different results, in %s and %s (hint: they come from different kinds of device or versions; keep one of them)", e.ID, f.Paths[e.ID], e.Path())
			}
			return nil
		}
		sums[e.ID], f.Paths[e.ID] = e.SHA256, e.Path()
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

// add reads one cell and its measured times.
func (f *Contents) add(s cell.Store, e cell.Entry) error {
	c := Cell{ID: e.ID}
	if err := e.Into(&c.Spec, &c.Result); err != nil {
		return err
	}
	if err := c.checkAt(e.Path()); err != nil {
		return err
	}
	c.Result.Rows = slices.Clone(c.Result.Rows) // decoding leaves room for more
	f.Cells = append(f.Cells, c)
	var run Run
	if f.readRun(s, e.ID, &run) {
		f.Runs[e.ID] = run
	}
	return nil
}

// readRun reads the measured times of a cell, where they are there. Damaged ones are
// a problem of the folder.
func (f *Contents) readRun(s cell.Store, id string, run any) bool {
	err := s.LoadRun(id, run)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Problems = append(f.Problems, err.Error())
	}
	return err == nil
}
