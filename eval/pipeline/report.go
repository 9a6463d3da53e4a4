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
	"scalewm/model/weights"
)

// Report is the step that writes the report on the grid's cells, and on no others
// that the results folder may contain. It needs no step in particular, so that it
// describes what exists even if steps failed. Shards leave it out.
type Report struct {
	w  *Workspace
	of []Divisible // steps whose cells the report is about

	Page *report.Report // set by Run
	Path string         // path of the first file, the page; set by Run
}

func reportSteps(w *Workspace, before Graph) []Step {
	return []Step{&Report{w: w, of: StepsOf[Divisible](before)}}
}

func (s *Report) ID() string      { return "report" }
func (s *Report) Stage() Stage    { return StageReport }
func (s *Report) Needs() []string { return nil }

// compares reports whether the grid has a method that plans; a report on random
// actions alone would be empty.
func (s *Report) compares() bool { return slices.ContainsFunc(s.w.Grid.Methods, model.Method.Plans) }

// State does not recognise an up-to-date report: finding out takes as long as writing
// it.
func (s *Report) State(context.Context) (State, error) {
	_, err := os.Stat(filepath.Join(s.w.dir, "report.html"))
	foreign := report.Foreign(s.w.dir)
	switch {
	case !s.compares():
		return State{Text: infer.ErrNothing.Error()}, nil
	case foreign != "":
		return State{}, Requestf("%s exists, is not part of a report, and would be replaced (hint: move it away, or choose another --out)", filepath.Join(s.w.dir, foreign))
	case errors.Is(err, fs.ErrNotExist):
		return toDo, nil
	}
	return State{Text: "to be rewritten"}, err
}

// Run implements Step.
func (s *Report) Run(ctx context.Context) (_ string, err error) {
	if !s.compares() {
		return infer.ErrNothing.Error(), nil
	}
	cells, err := s.cells(ctx)
	if err != nil {
		return "", err
	}
	s.Page, s.Path, err = writeReport(ctx, s.w.dir, s.w.dir, report.Formats(), infer.Options{}, false, func(c *results.Contents) { c.Only(cells) })
	// Every evaluation of a method that plans has failed, and its step reported that.
	if errors.Is(err, infer.ErrNothing) {
		return infer.ErrNothing.Error(), nil
	}
	return "", err
}

// cells returns the ids of the grid's existing cells. A step whose cells cannot be
// named yet, because its checkpoint is missing, has none.
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

// WriteReport reads the results below dir and writes the report's files in the given
// formats to out. It replaces files of an earlier report; other files only with
// force, else they are an error. It returns the report and the path of the first
// file.
func WriteReport(ctx context.Context, dir, out string, formats []string, o infer.Options, force bool) (*report.Report, string, error) {
	return writeReport(ctx, dir, out, formats, o, force, func(*results.Contents) {})
}

// writeReport is WriteReport on the contents that choose leaves.
func writeReport(ctx context.Context, dir, out string, formats []string, o infer.Options, force bool, choose func(*results.Contents)) (*report.Report, string, error) {
	// Nearly all memory is the outcomes of episodes, which live until the end. By default
	// the collector would let the heap grow to twice their size.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	c, err := results.Load(ctx, dir)
	if err == nil {
		err = c.AddMedia(ctx, dir)
	}
	if err == nil {
		err = addTrained(ctx, dir, c.Trained)
	}
	if err != nil {
		return nil, "", err
	}
	choose(&c)
	r, err := report.Of(&c, o)
	if err != nil {
		return nil, "", fmt.Errorf("reporting on %s: %w", dir, err)
	}
	r.Command = continued(dir, &c)
	files, err := r.Render(formats)
	if err != nil {
		return nil, "", fmt.Errorf("reporting on %s: %w", dir, err)
	}
	// Check all files before writing the first, so that a refusal leaves no mixture.
	for _, f := range files {
		if ours, err := report.Ours(out, f.Name); (err != nil || !ours) && !force {
			return nil, "", fmt.Errorf("writing the report: %s exists and is not part of a report (hint: move it away, or give report another --out or --force)", filepath.Join(out, f.Name))
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

// addTrained adds the trainings below dir that trained lacks: cells of older versions do
// not describe them. The keys are the hashes of the weights.
func addTrained(ctx context.Context, dir string, trained map[string]results.Trained) error {
	_, err := safefile.Walk(ctx, dir, func(path string, folder bool) error {
		if folder || filepath.Base(path) != weights.SidecarName {
			return nil
		}
		// The steps that need an unreadable sidecar report it.
		if side, err := weights.ReadSidecar(path); err == nil && trained[side.SHA256] == (results.Trained{}) {
			trained[side.SHA256] = trainedOf(side)
		}
		return nil
	})
	return err
}
