package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/features"
	"scalewm/model/train"
)

// Training describes one training: what is trained, on which data set, into which
// folder.
type Training struct {
	Preset   Preset
	Task     envs.Task
	Method   model.Method
	Seed     int64
	Protocol string
	Data     string       // path of the data set
	Out      string       // the run: folder of the checkpoint, with weights, sidecar, metrics and preset
	Backbone *dinov2.File // for methods with a frozen DINOv2
	Encoder  string       // for policies: the trained checkpoint that encodes frames, a run or its file
}

// Train is the step that makes an arm's checkpoint, train/TASK-METHOD-sSEED/, from
// the task's data set. The folder of a variant has METHOD@half in place of METHOD.
type Train struct {
	w *Workspace
	arm
	Result train.Result // set by Run
}

// trainSteps returns the steps that make the checkpoint of an arm, none for random actions.
// A policy needs the checkpoint of its encoder first, and a proposal its policy. For an
// untrained method the step only writes the initial weights.
func trainSteps(w *Workspace, a arm) []Step {
	switch {
	case !a.method.HasModel():
		return nil
	case a.searcher().method.Replaced != a.method.Replaced:
		return trainSteps(w, a.searcher())
	case a.proposal != "":
		return append(trainSteps(w, a.searcher()), trainSteps(w, a.proposer())...)
	case a.method.Policy && w.Grid.Given == nil: // a given policy has its encoder in its checkpoint
		return append(trainSteps(w, a.encoder()), w.trainingOf(a))
	}
	return []Step{w.trainingOf(a)}
}

func trainID(a arm) string { return "train " + a.name() }

func (s *Train) ID() string   { return trainID(s.arm) }
func (s *Train) Stage() Stage { return StageTrain }

// Needs implements Step.
func (s *Train) Needs() []string {
	needs := []string{collectID(s.task)}
	if s.method.Policy {
		needs = append(needs, trainID(s.encoder()))
	}
	return needs
}

// training returns the description of the step's training.
func (s *Train) training() Training {
	encoder := ""
	if s.method.Policy {
		encoder = s.w.checkpoint(s.encoder())
	}
	return Training{Preset: s.preset(s.w.Grid.Preset), Task: s.task, Method: s.method, Seed: s.seed, Protocol: s.w.Grid.Training(),
		Data: s.w.dataPath(s.task.Spec.Name), Out: s.w.checkpoint(s.arm), Backbone: s.w.Backbone, Encoder: encoder}
}

// State checks that an existing folder holds this training. A training with a resume
// point is to do from its step on; one with a damaged file is to do again.
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
		if step := train.ResumeStep(t.Out); step > 0 {
			return State{Text: fmt.Sprintf("to do from step %d on", step)}, nil
		}
		return toDo, nil
	case damaged != "":
		return State{Text: fmt.Sprintf("to do again: %s is damaged or missing", damaged)}, nil
	}
	return done, err
}

// Check returns a RequestError if the training's folder contains files that are not
// from this program, or another training, or if the encoder does not fit. fingerprint
// returns that of the data set, whose file may be missing; then the data set is not
// compared. kind is the device kind of the trainer, "" for any.
func (t Training) Check(fingerprint func() (string, error), kind string) error {
	if err := checkOurs(t.Out, append(train.Files(), results.ConfigName)...); err != nil {
		return err
	}
	ours, err := t.recipe()
	if err != nil {
		return err
	}
	frozen, err := t.encoderSum(fingerprint)
	if err != nil {
		return err
	}
	side, there := readTraining(t.Out, t.Method, t.Backbone)
	if there != nil {
		if key, is, asked := there.differs(ours); key != "" {
			return t.other(key, is, asked)
		}
	}
	// An unfinished training has no sidecar yet: only its recipe, from the preset, is known.
	if side == nil {
		return nil
	}
	data, err := fingerprint()
	if err != nil {
		data = side.Data
	}
	// What identifies a training besides its recipe. An empty kind matches every device.
	for _, f := range []struct{ what, is, asked string }{
		{"task", side.Task, t.Task.Spec.Name},
		{"method", side.Method, t.Method.Name},
		{"seed", strconv.FormatInt(side.Seed, 10), strconv.FormatInt(t.Seed, 10)},
		{"protocol", side.Protocol, t.Protocol},
		{"data set", fmt.Sprintf("%.12s", side.Data), fmt.Sprintf("%.12s", data)},
		{"device", side.Device, cmp.Or(kind, side.Device)},
		{"backbone", fmt.Sprintf("%.12s", side.Backbone), fmt.Sprintf("%.12s", cmp.Or(ours.Model.Info().Backbone, frozen, side.Backbone))},
	} {
		if f.is != f.asked {
			return t.other(f.what, f.is, f.asked)
		}
	}
	return nil
}

// Joins returns a RequestError if the training's folder is part of a results folder
// (FOLDER/train/NAME) that has results under another protocol, on other data or from
// another training preset.
func (t Training) Joins(fingerprint func() (string, error)) error {
	folder := filepath.Dir(filepath.Dir(t.Out))
	if filepath.Base(filepath.Dir(t.Out)) != results.TrainDir || !exists(results.Folder(folder).Sets()) && !exists(results.Folder(folder).Cells().Dir) {
		return nil
	}
	data, err := fingerprint()
	if err != nil {
		return err
	}
	return claim{protocol: t.Protocol, task: t.Task, path: t.Data, data: data, preset: &t.Preset, backbone: t.Backbone, except: func(name string) bool { return name == filepath.Base(t.Out) }}.check(folder)
}

// encoderSum checks that a policy's encoder fits the training and returns the SHA-256 of
// its weights. It returns "" if there is none yet: a grid trains it first.
func (t Training) encoderSum(fingerprint func() (string, error)) (string, error) {
	if t.Method.Policy != (t.Encoder != "") {
		return "", Requestf("the method %s and --encoder %q: policies (%s) are trained on the latents of another run, and only they are (hint: --encoder FOLDER names that run)",
			t.Method.Name, t.Encoder, strings.Join(model.MethodNames(func(m model.Method) bool { return m.Policy }), ", "))
	}
	if !t.Method.Policy {
		return "", nil
	}
	arm, err := ArmOf(t.Encoder, "", t.Task)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", Requestf("--encoder: %w", err)
	case model.MethodOf(arm.Method).Policy:
		return "", Requestf("--encoder: %s is itself a policy, %s (hint: give the run of a world model, such as %s)", t.Encoder, arm.Method, model.Baseline)
	case arm.Protocol != "" && arm.Protocol != t.Protocol:
		return "", Requestf("--encoder: %s was trained with --protocol %s, but this training uses %s, which holds out other clips (hint: train both with one protocol; published weights count as paper)", t.Encoder, arm.Protocol, t.Protocol)
	}
	if t.Protocol == results.Strict && arm.Data != "" {
		if data, err := fingerprint(); err == nil && data != arm.Data {
			return "", Requestf("--encoder: %s was trained on a data set with the fingerprint %.12s, but that of %s is %.12s: its training may have seen the episodes that strict holds out (hint: train the encoder on the same data set)", t.Encoder, arm.Data, t.Data, data)
		}
	}
	return arm.Weights, nil
}

// openEncoder reads the checkpoint of a policy's encoder.
func (t Training) openEncoder() (*model.FrozenEncoder, error) {
	c, side, err := model.Open(t.Encoder, "")
	if err != nil {
		return nil, fmt.Errorf("opening the encoder: %w", err)
	}
	return &model.FrozenEncoder{Arm: Label(t.Task, eval.ArmOf(side)).String(), SHA256: side.SHA256, Checkpoint: c}, nil
}

// recipe returns the training's recipe. That of a policy serves any encoder.
func (t Training) recipe() (recipe, error) { return t.recipeOn(t.Backbone) }

// recipeOn returns the recipe with a backbone, see Preset.recipe. A task state that the
// task does not have is an error even for methods that use none: their sidecars would
// record a state that does not exist.
func (t Training) recipeOn(backbone any) (recipe, error) {
	if q := t.Preset.Train.Q; q != "" && len(t.Task.Spec.Qs) > 0 && !HasQ(t.Task, q) {
		return recipe{}, Requestf("the preset's train.q is %q, a state that the task %s does not have (hint: `scalewm tasks` lists those it has)", q, t.Task.Spec.Name)
	}
	return t.Preset.recipe(t.Method, t.Task.Spec.ActionDim, backbone)
}

// other returns the error for a folder with another training.
func (t Training) other(what, is, asked string) error {
	return Requestf("%s holds a training with %s %s, but this run needs %s (hint: choose another --out, or delete that folder)", t.Out, what, is, asked)
}

// Options returns the options of train.Run for this training. how provides those that
// do not affect the weights, such as device and progress. cache limits the cached
// features of a frozen encoder, next to the data set.
func (t Training) Options(data dataset.Source, how train.Options, cache features.Limit) (o train.Options, err error) {
	var backbone any = t.Backbone
	if t.Method.Policy {
		if backbone, err = t.openEncoder(); err != nil {
			return o, err
		}
	}
	r, err := t.recipeOn(backbone)
	if err != nil {
		return o, err
	}
	o = how
	o.Data, o.DataPath, o.Method, o.Seed, o.Config, o.Model, o.Protocol, o.Out = data, t.Data, t.Method, t.Seed, r.Train, r.Model, dataset.Protocol(t.Protocol), t.Out
	o.Task = train.Task{Name: t.Task.Spec.Name, ID: t.Task.Spec.ID, ActionLow: t.Task.Spec.ActionLow, ActionHigh: t.Task.Spec.ActionHigh}
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

// Run trains the model, resumes an interrupted training, or checks a finished one.
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

// trainingFrames returns the task's frames at the size of a training's model.
// Consecutive trainings on a task share them, because resizing all frames takes long;
// a training of another size replaces them. Hence the returned function frees
// nothing: leave does.
func (t *openTask) trainingFrames(ctx context.Context, o train.Options) (frames dataset.FrameReader, free func() error, err error) {
	keep := func() error { return nil }
	// The frames in memory have the right size.
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
