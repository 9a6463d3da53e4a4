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

// Contents is what was read from a results folder.
type Contents struct {
	Cells    []Cell            // sorted by ID
	Analyses []Analysis        // sorted by ID
	Gates    []Gate            // render gates of the tasks
	Runs     map[string]Run    // measured times by cell ID; cells may lack them
	Paths    map[string]string // files of cells and analyses by ID
	Torn     []string          // files that are incomplete cells or have impossible rows, and why
	Problems []string          // other files that could not be read, and why
	Curves   []Curve           // set by AddMedia
	Clips    []Clip            // set by AddMedia
}

// Load reads all cells, analyses and render gates in the folders at or below dir. Nothing
// damaged makes it fail: such files are listed in Torn and Problems, and the report shows
// them. Load fails if dir does not exist, or if a cell exists twice with different
// results. Equal copies count once, so that folders of several shards can be read
// together.
func Load(ctx context.Context, dir string) (Contents, error) {
	f := Contents{Runs: map[string]Run{}, Paths: map[string]string{}}
	sums := map[string]string{} // by ID
	unread, err := safefile.Walk(ctx, dir, func(path string, folder bool) error {
		switch {
		case folder && filepath.Base(path) == CellsDir:
			if err := f.readStore(ctx, cell.Store{Dir: path}, sums); !errors.Is(err, fs.ErrPermission) { // the walk reports unreadable folders itself
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

// addGate reads a render gate.
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

// readStore adds the cells of one store. A cell may be in several stores; it counts once,
// and must have the same content in all of them. sums has the SHA-256 of each cell by ID.
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
	c.Result.Rows = slices.Clone(c.Result.Rows) // without the spare capacity that decoding leaves: a folder may have 10^5 cells
	f.Cells = append(f.Cells, c)
	var run Run
	if f.readRun(s, e.ID, &run) {
		f.Runs[e.ID] = run
	}
	return nil
}

// readRun reads the measured times of a cell into run, and reports whether it has any. A
// damaged file is a problem of the folder.
func (f *Contents) readRun(s cell.Store, id string, run any) bool {
	err := s.LoadRun(id, run)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Problems = append(f.Problems, err.Error())
	}
	return err == nil
}
