package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/geometry"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// Selection is a request to rank checkpoints without a simulator.
type Selection struct {
	Runs    []string // folders or files of checkpoints
	Data    string   // the data set's file
	Task    string   // if the checkpoints do not record it
	Columns string   // of the task state with the task none; "": those of the checkpoints
	Measure results.SelectionMeasure
	Success string // results folder with cells of the checkpoints; "": success is unknown
	Dev     device.Device
	Workers int
	// Listener receives the progress of each checkpoint, and notes.
	Listener Listener
}

// Run measures the checkpoints on the same held-out rows and ranks them. Before it loads a
// model, it returns a RequestError if a checkpoint does not fit the data set or the
// others, or if there are too few rows. A checkpoint that cannot be measured, such as one
// that collapsed, is last in the ranking.
func (s Selection) Run(ctx context.Context) (out infer.Selected, err error) {
	file, err := hdf5.Open(s.Data)
	if err != nil {
		return out, err
	}
	defer file.Close()
	runs, j, err := s.choose(file)
	if err != nil {
		return out, err
	}
	task := j.Task.Spec.Name
	var all []infer.Candidate
	for _, r := range runs {
		all = append(all, r.Candidate)
	}
	if s.Success != "" {
		if err := infer.AddSuccess(ctx, s.Success, task, all); err != nil {
			return out, err
		}
	}
	for i, r := range runs {
		id := "measuring " + r.Run
		s.Listener.Begin(id, i+1, len(runs))
		measured, err := s.measure(ctx, j, r)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		s.Listener.End(id, "")
		switch all[i].Add(measured); {
		case errors.Is(err, geometry.ErrConstant), errors.Is(err, analysis.ErrNotFinite):
			all[i].Missing = err.Error()
		case err != nil:
			return out, fmt.Errorf("%s: %w", id, err)
		}
	}
	out = infer.Rank(task, all, s.Measure)
	if s.Success != "" {
		out.Predict()
	}
	return out, nil
}

// measure measures one checkpoint.
func (s Selection) measure(ctx context.Context, j analysis.Job, r run) (*results.Selection, error) {
	a, _, err := Load(s.Dev, r.Run, "", "")
	if err != nil {
		return nil, err
	}
	defer a.Free()
	return analysis.Select(ctx, r.on(j), a.World)
}

// run is a checkpoint of a selection.
type run struct {
	infer.Candidate
	arm  eval.Arm
	side *weights.Sidecar
}

// on returns a job with the checkpoint's arm. Actions are scaled as in its training, if it
// records how.
func (r run) on(j analysis.Job) analysis.Job {
	j.Arm = r.arm
	if len(r.arm.Actions.Mean) > 0 {
		j.Rules.Scaling = results.ScaledByTraining
	}
	return j
}

// choose returns the checkpoints, and the job that all of them share. It checks that they
// fit each other and the data set.
func (s Selection) choose(file *hdf5.File) (runs []run, j analysis.Job, err error) {
	task, columns := s.Task, s.Columns
	first := map[string]string{} // runs by their weights
	for _, name := range s.Runs {
		side, err := model.Describe(name, "")
		if err != nil {
			return nil, j, err
		}
		switch method := model.MethodOf(side.Method); {
		case method.Policy:
			return nil, j, Requestf("select: %s is a policy (%s), which predicts no latents (hint: rank the checkpoints of world models)", name, side.Method)
		case task != "" && cmp.Or(side.Task, task) != task:
			return nil, j, Requestf("select: %s was trained on the task %s, not %s (hint: rank checkpoints of one task, on a data set of it)", name, side.Task, task)
		}
		if old, double := first[side.SHA256]; double {
			s.Listener.Note(fmt.Sprintf("%s has the same weights as %s; left out", name, old))
			continue
		}
		task, columns, first[side.SHA256] = cmp.Or(task, side.Task), cmp.Or(columns, train.RecipeOf(side).QColumns), name
		runs = append(runs, run{infer.Candidate{Run: name, Seed: int(side.Seed), Step: side.Step, Weights: side.SHA256}, eval.Arm{}, side})
	}
	if task == "" {
		return nil, j, Requestf("select: no checkpoint records its task (hint: name it with --task)")
	}
	if s.Columns != "" && task != dataset.NoTask {
		return nil, j, Requestf("select: --q-columns is for data sets without a task, and task %s has its own states (hint: leave it out)", task)
	}
	of, err := TaskOf(task, "", s.Data, columns)
	switch {
	case err != nil:
		return nil, j, err
	case len(of.Spec.Qs) == 0:
		return nil, j, Requestf("select: the task %s has no task state q, with which latents are compared (hint: name columns of the data set, as in --q-columns state[0:4],goal[2])", task)
	}
	fingerprint, err := file.Fingerprint()
	if err != nil {
		return nil, j, err
	}
	// The held-out episodes are those that strict holds out, if any checkpoint was trained on
	// this data set, else all.
	n, known := len(file.Episodes()), false
	for i := range runs {
		r := &runs[i]
		if r.arm, err = ArmOf(r.Run, "", of); err != nil {
			return nil, j, Requestf("select: %w", err)
		}
		r.Method, known = Label(of, r.arm), known || r.arm.Data == fingerprint
		r.Seen = r.arm.Data == fingerprint && r.arm.Protocol != results.Strict
	}
	j = analysis.Job{Job: eval.Job{Task: of, Rules: results.Published(), Workers: s.Workers, Progress: s.Listener.Progress}, Device: s.Dev.Kind().String()}
	if j.Held = dataset.HeldOut(fingerprint, n); !known {
		j.Held = episodes(n)
	}
	if len(j.Held) == 0 {
		return nil, j, Requestf("select: the data set %s has one episode, on which a checkpoint was trained (hint: a data set of more episodes)", s.Data)
	}
	if j.Data, err = eval.NewData(file, of, j.Rules); err == nil {
		err = j.CheckSelection()
	}
	if err != nil {
		return nil, j, Requestf("select: the data set %s: %w", s.Data, err)
	}
	for _, r := range runs {
		if err := r.fits(j); err != nil {
			return nil, j, Requestf("select: %s: %w", r.Run, err)
		}
		if r.Seen {
			s.Listener.Note(r.Run + ": its training (--protocol paper) has seen the held-out rows of this data set, so that its measures are too good")
		}
	}
	return runs, j, nil
}

// episodes returns the indices of n episodes.
func episodes(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// fits returns an error if the geometry of a checkpoint does not fit the data set.
func (r run) fits(j analysis.Job) error {
	family, err := model.FamilyOf(r.side.Kind)
	if err != nil {
		return err
	}
	g, err := family.Decode(r.side.Config)
	if err != nil {
		return err
	}
	info, size := g.Info(), j.Data.FrameSize()
	switch want := j.Steps() * j.Task.Spec.ActionDim; {
	case info.FrameSkip != j.Steps():
		return fmt.Errorf("it was trained with frame skip %d, and clips have %d env steps between frames (hint: train with frame_skip = %[2]d)", info.FrameSkip, j.Steps())
	case info.ActionWidth != want:
		return fmt.Errorf("it takes action blocks of %d numbers, and those of the data set have %d (hint: was it trained on another task?)", info.ActionWidth, want)
	case info.FrameSize > size && r.arm.Data != j.Data.Fingerprint:
		return fmt.Errorf("it encodes frames of %d pixels, and those of the data set have %d (hint: give the data set of its training, or one with larger frames)", info.FrameSize, size)
	}
	return nil
}
