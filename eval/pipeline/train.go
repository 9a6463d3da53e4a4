package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"scalewm/dataset"
	"scalewm/model/train"
)

// Train makes an arm's checkpoint, train/TASK-METHOD-sSEED/ (METHOD@half of a variant): weights, sidecar,
// metrics and the preset, from the task's data set.
type Train struct {
	w *Workspace
	arm
	Resume bool         // fail where there is no interrupted training to go on with
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

func (s *Train) State(context.Context) (State, error) {
	dir := s.w.checkpoint(s.arm)
	err := notOurs(dir, append(train.Files(), configName)...)
	if err == nil {
		err = s.refuse(dir)
	}
	if err == nil && s.w.Weights != "" {
		err = s.w.joins(s.task, dir)
	}
	if err != nil {
		return State{}, err
	}
	damaged, err := train.Damaged(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if step := train.Reached(dir); step > 0 {
			return State{Text: fmt.Sprintf("to do from step %d on", step)}, nil
		}
		return toDo, nil
	case damaged != "":
		return State{Text: fmt.Sprintf("to do again: %s is damaged or missing", damaged)}, nil
	}
	return done, err
}

// refuse says why a training that a folder holds is not the one that is asked for.
func (s *Train) refuse(dir string) error {
	ours, err := s.recipe()
	if err != nil {
		return err
	}
	side, there := s.w.trained(dir, s.method)
	if there != nil {
		if key, is, asked := there.differs(ours); key != "" {
			return s.other(dir, key, is, asked)
		}
	}
	if side == nil {
		return nil
	}
	data := side.Data
	if t, err := s.w.open(s.task); err == nil {
		if data, err = t.file.Fingerprint(); err != nil {
			return err
		}
	}
	kind := side.Device
	if s.w.Trainer != nil {
		kind = s.w.Trainer.Kind().String()
	}
	for _, f := range []struct{ what, is, asked string }{
		{"task", side.Task, s.task.Spec.Name},
		{"method", side.Method, s.method.Name},
		{"seed", strconv.FormatInt(side.Seed, 10), strconv.FormatInt(s.seed, 10)},
		{"protocol", side.Protocol, string(s.w.Grid.Protocol)},
		{"data set", fmt.Sprintf("%.12s", side.Data), fmt.Sprintf("%.12s", data)},
		{"device", side.Device, kind},
		{"backbone", fmt.Sprintf("%.12s", side.Backbone), fmt.Sprintf("%.12s", ours.Model.Info().Backbone)},
	} {
		if f.is != f.asked {
			return s.other(dir, f.what, f.is, f.asked)
		}
	}
	return nil
}

// recipe is the arm's own. A state that the task does not have is refused for methods
// without one too: their checkpoints would say that they had the preset's.
func (s *Train) recipe() (recipe, error) {
	preset := s.preset(s.w.Grid.Preset)
	if q := preset.Train.Q; q != "" && len(s.task.Spec.Qs) > 0 && !HasQ(s.task, q) {
		return recipe{}, Requestf("the preset's train.q is %q, a state that the task %s does not have (hint: `scalewm tasks` lists those it has)", q, s.task.Spec.Name)
	}
	return preset.recipe(s.method, s.task.Spec.ActionDim, s.w.Backbone)
}

func (s *Train) other(dir, what, is, asked string) error {
	return Requestf("%s holds a training with %s %s, and %s is asked for (hint: choose another --out, or delete that folder)", dir, what, is, asked)
}

// Run trains.
func (s *Train) Run(ctx context.Context) (string, error) {
	dir := s.w.checkpoint(s.arm)
	t, err := s.w.open(s.task)
	if err != nil {
		return "", err
	}
	o, err := s.options(t, dir)
	if err != nil {
		return "", err
	}
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

// options are what the grid, the task and the method determine of a training.
func (s *Train) options(t *openTask, dir string) (train.Options, error) {
	g, spec, preset := &s.w.Grid, s.task.Spec, s.preset(s.w.Grid.Preset)
	r, err := s.recipe()
	if err != nil {
		return train.Options{}, err
	}
	o := train.Options{Dev: s.w.Trainer, Data: t.file, DataPath: s.w.dataPath(spec.Name), Method: s.method, Seed: s.seed,
		Task: train.Task{Name: spec.Name, ID: spec.ID}, Config: r.Train, Model: r.Model, Protocol: g.Protocol,
		Out: dir, Resume: s.Resume, BreakLock: s.w.BreakLock, Workers: s.w.Workers, Progress: s.w.Listener.Progress, Note: s.w.Listener.Note}
	for _, q := range spec.Qs {
		if q.Name == o.Config.Q {
			o.Task.Q = q
		}
	}
	o.Begin = func() error { return preset.WriteTo(dir) }
	o.Frames = func(ctx context.Context) (dataset.FrameReader, error) { // which trainings of the task share
		if t.frames != nil && t.frames.Size() != r.Model.Info().FrameSize {
			if err := t.freeFrames(); err != nil {
				return nil, err
			}
			t.frames, t.freeFrames = nil, nil
		}
		if t.frames == nil {
			frames, free, err := o.OpenFrames(ctx)
			if err != nil {
				return nil, err
			}
			t.frames, t.freeFrames = frames, free
		}
		return t.frames, nil
	}
	o.Features = s.features
	return o, nil
}
