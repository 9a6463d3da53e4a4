package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"scalewm/dataset/safefile"
	"scalewm/eval/infer"
	"scalewm/eval/report"
	"scalewm/eval/results"
	"scalewm/model"
)

// Report makes the page of the grid's cells that are there, and of no others that
// the results folder may hold. It needs no step in particular, so that it tells of
// what could be made where others failed, and it is none of a shard's.
type Report struct {
	w  *Workspace
	of []Divisible

	Page *report.Report // after Run
	Path string         // of the page
}

func reportSteps(w *Workspace, before Graph) []Step {
	return []Step{&Report{w: w, of: Of[Divisible](before)}}
}

func (s *Report) ID() string      { return "report" }
func (s *Report) Stage() Stage    { return StageReport }
func (s *Report) Needs() []string { return nil }

// compares says whether the grid has what a report is of.
func (s *Report) compares() bool { return slices.ContainsFunc(s.w.Grid.Methods, model.Method.Plans) }

// State does not tell an up-to-date page, for which it would have to be made.
func (s *Report) State(context.Context) (State, error) {
	_, err := os.Stat(filepath.Join(s.w.dir, "report.html"))
	foreign := report.Foreign(s.w.dir)
	switch {
	case !s.compares():
		return State{Text: infer.ErrNothing.Error()}, nil
	case foreign != "":
		return State{}, Requestf("%s is there and is no report's, and the report would replace it (hint: move it away, or choose another --out)", filepath.Join(s.w.dir, foreign))
	case errors.Is(err, fs.ErrNotExist):
		return toDo, nil
	}
	return State{Text: "is written again"}, err
}

func (s *Report) Run(ctx context.Context) (_ string, err error) {
	if !s.compares() {
		return infer.ErrNothing.Error(), nil
	}
	cells, err := s.cells(ctx)
	if err != nil {
		return "", err
	}
	s.Page, s.Path, err = writeReport(ctx, s.w.dir, s.w.dir, report.Formats(), infer.Options{}, false, func(c *results.Contents) { c.Only(cells) })
	if errors.Is(err, infer.ErrNothing) { // everything that plans has failed, and each failure was reported
		return infer.ErrNothing.Error(), nil
	}
	return "", err
}

// cells are the ids of the grid's existing cells. Steps whose cells cannot be named yet have none.
func (s *Report) cells(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	for _, d := range s.of {
		found, err := d.found(ctx)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return nil, err
		}
		for _, id := range found {
			ids[id] = true
		}
	}
	return ids, nil
}

// WriteReport reads the results below dir and writes the report's files into
// out, where it replaces those of an earlier report, and any others if force says
// so. It returns the path of the first.
func WriteReport(ctx context.Context, dir, out string, formats []string, o infer.Options, force bool) (*report.Report, string, error) {
	return writeReport(ctx, dir, out, formats, o, force, func(*results.Contents) {})
}

// writeReport is WriteReport of what choose leaves of the folder.
func writeReport(ctx context.Context, dir, out string, formats []string, o infer.Options, force bool, choose func(*results.Contents)) (*report.Report, string, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // a big folder's outcomes are most of the memory, and live until the end
	c, err := results.Load(ctx, dir)
	if err == nil {
		err = c.AddMedia(ctx, dir)
	}
	if err != nil {
		return nil, "", err
	}
	choose(&c)
	r, err := report.Of(&c, o)
	if err != nil {
		return nil, "", fmt.Errorf("reporting on %s: %w", dir, err)
	}
	files, err := r.Render(formats)
	if err != nil {
		return nil, "", fmt.Errorf("reporting on %s: %w", dir, err)
	}
	for _, f := range files {
		if ours, err := report.Ours(out, f.Name); (err != nil || !ours) && !force {
			return nil, "", fmt.Errorf("writing the report: %s is there and is no report's (hint: move it away, or give report another --out or --force)", filepath.Join(out, f.Name))
		}
	}
	first := ""
	for _, f := range files {
		path := filepath.Join(out, f.Name)
		if err := safefile.WriteBytes(path, f.Bytes); err != nil {
			return nil, "", fmt.Errorf("writing the report: %w", err)
		}
		if first == "" {
			first = path
		}
	}
	return r, first, nil
}
