package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/eval/paired"
	"scalewm/eval/report"
	"scalewm/model"
)

// Report makes the page of everything that the results folder holds. It needs no
// step in particular, so that it tells of what could be made where others failed,
// and it is none of a shard's.
type Report struct {
	w *Workspace

	Page *report.Report // after Run
	Path string         // of the page
}

// reportSteps are none where nothing plans: then there is nothing to compare.
func reportSteps(w *Workspace, _ arm) []Step {
	if !slices.ContainsFunc(w.Grid.Methods, model.Method.Plans) {
		return nil
	}
	return []Step{&Report{w: w}}
}

func (s *Report) ID() string                           { return "report" }
func (s *Report) Needs() []string                      { return nil }
func (s *Report) State(context.Context) (State, error) { return toDo, nil }

func (s *Report) Run(ctx context.Context) (_ string, err error) {
	s.Page, s.Path, err = WriteReport(ctx, s.w.Dir, s.w.Dir, report.Formats(), paired.Options{}, false)
	if errors.Is(err, report.ErrNothing) { // all that plans has failed, and was told of
		return report.ErrNothing.Error(), nil
	}
	return "", err
}

// WriteReport reads the results below dir and writes the report's files into
// out, where it replaces those of an earlier report, and any others if force says
// so. It returns the path of the first.
func WriteReport(ctx context.Context, dir, out string, formats []string, o paired.Options, force bool) (*report.Report, string, error) {
	d, err := report.Load(ctx, dir)
	if err != nil {
		return nil, "", err
	}
	r, err := report.Build(d, o)
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
		err := cell.WriteFile(path, func(w io.Writer) error {
			_, err := w.Write(f.Bytes)
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("writing the report: %w", err)
		}
		if first == "" {
			first = path
		}
	}
	return r, first, nil
}
