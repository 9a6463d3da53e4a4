package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/features"
	"scalewm/model/train"
)

// Training is one training: what is trained on which data set, and into which folder.
type Training struct {
	Preset   Preset
	Task     envs.Task
	Method   model.Method
	Seed     int64
	Protocol string
	Data     string // the data set's file
	Out      string // the checkpoint's folder: weights, sidecar, metrics and the preset
	Backbone *dinov2.File
}

// Train makes an arm's checkpoint, train/TASK-METHOD-sSEED/ (METHOD@half of a variant),
// from the task's data set.
type Train struct {
	w *Workspace
	arm
	Result train.Result // of Run
}

// trainSteps is the training of a method that has a model; an untrained one is
// written as it is initialised.
func trainSteps(w *Workspace, a arm) []Step {
	if !a.method.Plans() {
		return nil
	}
	return []Step{&Train{w: w, arm: a}}
}

func trainID(a arm) string { return "train " + a.name() }

func (s *Train) ID() string      { return trainID(s.arm) }
func (s *Train) Stage() Stage    { return StageTrain }
func (s *Train) Needs() []string { return []string{collectID(s.task)} }

func (s *Train) training() Training {
	return Training{Preset: s.preset(s.w.Grid.Preset), Task: s.task, Method: s.method, Seed: s.seed, Protocol: s.w.Grid.Protocol,
		Data: s.w.dataPath(s.task.Spec.Name), Out: s.w.checkpoint(s.arm), Backbone: s.w.Backbone}
}

func (s *Train) State(context.Context) (State, error) {
	t, kind := s.training(), ""
	if s.w.Trainer != nil {
		kind = s.w.Trainer.Kind().String()
	}
	if err := t.Check(func() (string, error) { return s.w.fingerprint(s.task) }, kind); err != nil {
		return State{}, err
	}
	damaged, err := train.Damaged(t.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if step := train.Reached(t.Out); step > 0 {
			return State{Text: fmt.Sprintf("to do from step %d on", step)}, nil
		}
		return toDo, nil
	case damaged != "":
		return State{Text: fmt.Sprintf("to do again: %s is damaged or missing", damaged)}, nil
	}
	return done, err
}

// Check returns an error if the folder has files that are not of scalewm, or another training than this
// one. The data set may be missing; kind is the trainer's, "" for any.
func (t Training) Check(fingerprint func() (string, error), kind string) error {
	if err := notOurs(t.Out, append(train.Files(), results.ConfigName)...); err != nil {
		return err
	}
	ours, err := t.recipe()
	if err != nil {
		return err
	}
	side, there := trained(t.Out, t.Method, t.Backbone)
	if there != nil {
		if key, is, asked := there.differs(ours); key != "" {
			return t.other(key, is, asked)
		}
	}
	if side == nil {
		return nil
	}
	data, err := fingerprint()
	if err != nil {
		data = side.Data
	}
	for _, f := range []struct{ what, is, asked string }{
		{"task", side.Task, t.Task.Spec.Name},
		{"method", side.Method, t.Method.Name},
		{"seed", strconv.FormatInt(side.Seed, 10), strconv.FormatInt(t.Seed, 10)},
		{"protocol", side.Protocol, t.Protocol},
		{"data set", fmt.Sprintf("%.12s", side.Data), fmt.Sprintf("%.12s", data)},
		{"device", side.Device, cmp.Or(kind, side.Device)},
		{"backbone", fmt.Sprintf("%.12s", side.Backbone), fmt.Sprintf("%.12s", ours.Model.Info().Backbone)},
	} {
		if f.is != f.asked {
			return t.other(f.what, f.is, f.asked)
		}
	}
	return nil
}

// Joins returns an error if the training's folder is in a results folder of other results.
func (t Training) Joins(fingerprint func() (string, error)) error {
	folder := filepath.Dir(filepath.Dir(t.Out))
	if filepath.Base(filepath.Dir(t.Out)) != results.TrainDir || !isThere(results.Folder(folder).Sets()) && !isThere(results.Folder(folder).Cells().Dir) {
		return nil
	}
	data, err := fingerprint()
	if err != nil {
		return err
	}
	return claim{protocol: t.Protocol, task: t.Task, path: t.Data, data: data, preset: &t.Preset, backbone: t.Backbone, but: filepath.Base(t.Out)}.on(folder)
}

// recipe is the training's own. A state that the task does not have is refused for methods
// without one too: their checkpoints would say that they had the preset's.
func (t Training) recipe() (recipe, error) {
	if q := t.Preset.Train.Q; q != "" && len(t.Task.Spec.Qs) > 0 && !HasQ(t.Task, q) {
		return recipe{}, Requestf("the preset's train.q is %q, a state that the task %s does not have (hint: `scalewm tasks` lists those it has)", q, t.Task.Spec.Name)
	}
	return t.Preset.recipe(t.Method, t.Task.Spec.ActionDim, t.Backbone)
}

func (t Training) other(what, is, asked string) error {
	return Requestf("%s holds a training with %s %s, and %s is asked for (hint: choose another --out, or delete that folder)", t.Out, what, is, asked)
}

// Options are what the training determines of train.Run, with the features of a frozen encoder, which are
// cached next to the data set up to a limit. The caller adds how it runs.
func (t Training) Options(data dataset.Source, how train.Options, cache features.Limit) (o train.Options, err error) {
	r, err := t.recipe()
	if err != nil {
		return o, err
	}
	o = how
	o.Data, o.DataPath, o.Method, o.Seed, o.Config, o.Model, o.Protocol, o.Out = data, t.Data, t.Method, t.Seed, r.Train, r.Model, dataset.Protocol(t.Protocol), t.Out
	o.Task = train.Task{Name: t.Task.Spec.Name, ID: t.Task.Spec.ID}
	for _, q := range t.Task.Spec.Qs {
		if q.Name == o.Config.Q {
			o.Task.Q = q
		}
	}
	o.Begin = func() error { return t.Preset.WriteTo(t.Out) }
	o.Features = func(ctx context.Context, frames dataset.FrameReader, m model.World) (train.Features, error) {
		return openFeatures(ctx, o, frames, m, cache)
	}
	return o, nil
}

// Run trains.
func (s *Train) Run(ctx context.Context) (string, error) {
	t, err := s.w.open(s.task)
	if err != nil {
		return "", err
	}
	o, err := s.training().Options(t.file, train.Options{Dev: s.w.Trainer, BreakLock: s.w.BreakLock, Workers: s.w.Workers, Progress: s.w.Listener.Progress, Note: s.w.Listener.Note}, s.w.FeatureCache)
	if err != nil {
		return "", err
	}
	o.Frames = func(ctx context.Context) (dataset.FrameReader, func() error, error) { return t.trainingFrames(ctx, o) }
	began := time.Now()
	s.Result, err = train.Run(ctx, o)
	switch {
	case err != nil:
		return "", err
	case s.Result.Skipped:
		return done.Text, nil
	case s.Result.Steps == 0:
		return "initial weights", nil
	}
	return fmt.Sprintf("%d steps, loss %.4f, %s", s.Result.Steps, s.Result.Loss, since(began)), nil
}

// trainingFrames are the task's frames at a training's size, which trainings share.
func (t *openTask) trainingFrames(ctx context.Context, o train.Options) (frames dataset.FrameReader, free func() error, err error) {
	keep := func() error { return nil }
	if t.frames != nil && t.frames.Size() == o.Model.Info().FrameSize {
		return t.frames, keep, nil
	}
	if t.frames != nil {
		err = t.freeFrames()
	}
	if t.frames, t.freeFrames = nil, nil; err == nil {
		t.frames, t.freeFrames, err = o.OpenFrames(ctx)
	}
	return t.frames, keep, err
}
