package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/lewm"
	"scalewm/model/weights"
)

// Run trains and writes to Options.Out: weights.safetensors with its sidecar
// when it is done, metrics.jsonl, run.json with what a clock measured, and until
// it is done a resume point. The same call goes on after an interruption, and
// returns at once when the training was finished before.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	pl, err := prepare(o)
	if err != nil {
		return Result{}, err
	}
	if o.Begin != nil {
		if err := o.Begin(); err != nil {
			return Result{}, err
		}
	}
	if done, err := pl.finished(); done || err != nil {
		return Result{Weights: filepath.Join(o.Out, weights.FileName), ID: pl.id, Steps: pl.total, Skipped: done}, err
	}
	t, err := newTrainer(o, pl.total)
	if err != nil {
		return Result{}, err
	}
	defer t.free()
	if o.Method == Untrained {
		return Result{Weights: filepath.Join(o.Out, weights.FileName), ID: pl.id}, pl.finish(t.model)
	}
	at, found, err := t.restore(o.Out, pl.id)
	if err != nil {
		return Result{}, err
	}
	if o.Resume && !found {
		return Result{}, fmt.Errorf("--resume: %s has no resume point (hint: leave --resume out to train from the start)", o.Out)
	}
	l := &loop{o: o, plan: pl, t: t, at: at}
	if o.Frames != nil {
		frames, err := o.Frames(ctx)
		if err != nil {
			return Result{}, err
		}
		return l.run(ctx, frames)
	}
	frames, closeFrames, err := o.OpenFrames(ctx)
	if err != nil {
		return Result{}, err
	}
	defer closeFrames()
	return l.run(ctx, frames)
}

func (o Options) validate() error {
	if !slices.Contains(Methods(), o.Method) && o.Method != Untrained {
		return fmt.Errorf("no method named %q (hint: lewm, scale or aux)", o.Method)
	}
	if o.usesQ() && len(o.Task.Q.Parts) == 0 {
		return fmt.Errorf("task %s has no state q named %q (hint: `scalewm tasks` lists them)", o.Task.Name, o.Config.Q)
	}
	if o.usesQ() && o.weight() == 0 {
		return fmt.Errorf("the preset has no weight of %s for task %s (hint: add it to %s_weight)", o.Method, o.Task.Name, o.Method)
	}
	if err := o.Config.Validate(); err != nil {
		return err
	}
	return o.Model.Validate()
}

// usesQ says whether the method has a term of its own, which sees q.
func (o Options) usesQ() bool { return o.Method == "scale" || o.Method == "aux" }

// weight is that of the method's own term.
func (o Options) weight() float64 {
	switch o.Method {
	case "scale":
		return o.Config.ScaleWeight[o.Task.Name]
	case "aux":
		return o.Config.AuxWeight[o.Task.Name]
	}
	return 0
}

// OpenFrames makes the data's frames at the model's size; close frees them.
func (o Options) OpenFrames(ctx context.Context) (frames dataset.FrameReader, close func() error, err error) {
	if o.Model.ImageSize == envs.FrameSize {
		return dataset.Original(o.Data), func() error { return nil }, nil
	}
	set, err := dataset.Resized(ctx, o.Data, dataset.ResizeOptions{Size: o.Model.ImageSize, Workers: o.Workers, Path: o.DataPath}, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	return set, set.Close, nil
}

// steps is N for a number of training clips.
func (o Options) steps(clips int) int {
	switch {
	case o.Method == Untrained:
		return 0
	case o.Config.Steps > 0:
		return o.Config.Steps
	}
	return o.Config.Epochs * (clips / o.Config.Batch)
}

// plan is everything that is decided before the first step.
type plan struct {
	out        string
	id         string // of the spec: all that determines the bytes
	train, val []dataset.Clip
	action, q  dataset.Moments
	total      int
	side       weights.Sidecar
}

// spec is what a training's bytes depend on.
type spec struct {
	Task, Method, Protocol, Device, Data, Q string
	Seed                                    int64
	Schema, Steps                           int
	Model                                   lewm.Config
	Train                                   Config
}

func prepare(o Options) (*plan, error) {
	p := &plan{out: o.Out}
	err := dataset.CheckTask(o.Data, o.Task.Name, o.Task.ID, o.Model.ActionDim)
	if err != nil {
		return nil, fmt.Errorf("training on this data set: %w", err)
	}
	clips := dataset.Clips(o.Data, o.Model.History+1, o.Model.FrameSkip)
	if p.train, p.val, err = dataset.Split(o.Protocol, o.Data, clips, o.Seed); err != nil {
		return nil, err
	}
	if len(clips) == 0 {
		return nil, fmt.Errorf("no episode of the data set has the %d rows of a clip (hint: a smaller frame_skip or history, or longer episodes)",
			(o.Model.History+1)*o.Model.FrameSkip)
	}
	if len(p.train) < o.Config.Batch {
		return nil, fmt.Errorf("the data set gives %d training clips of %d rows, a batch needs %d (hint: collect more episodes)",
			len(p.train), (o.Model.History+1)*o.Model.FrameSkip, o.Config.Batch)
	}
	p.total = o.steps(len(p.train))
	fp, err := o.Data.Fingerprint()
	if err != nil {
		return nil, err
	}
	if err := p.moments(o, fp); err != nil {
		return nil, err
	}
	s := spec{Task: o.Task.Name, Method: o.Method, Protocol: string(o.Protocol), Device: o.Dev.Kind().String(), Data: fp,
		Q: o.Task.Q.Name, Seed: o.Seed, Schema: model.Schema, Steps: p.total, Model: o.Model, Train: o.Config}
	if p.id, err = cell.ID("train", s); err != nil {
		return nil, err
	}
	return p, p.sidecar(o, s)
}

// constant is a deviation of q that is rounding only.
const constant = 1e-8

// moments takes the scalers over the whole file (paper) or over the training
// episodes only (strict).
func (p *plan) moments(o Options, fp string) (err error) {
	var episodes []int
	if o.Protocol == dataset.Strict {
		episodes = dataset.TrainEpisodes(fp, len(o.Data.Episodes()))
	}
	if p.action, err = dataset.ColumnMoments(o.Data, "action", episodes, 0); err != nil {
		return err
	}
	if !o.usesQ() {
		return nil
	}
	if p.q, err = dataset.QMoments(o.Data, o.Task.Q, episodes); err != nil {
		return err
	}
	if slices.Max(p.q.Std) < constant { // one entry that does not vary becomes 0, the mean
		return fmt.Errorf("the state q of the data set is the same in all rows (hint: %s has nothing to learn from it; train lewm, or collect episodes that differ)", o.Method)
	}
	return nil
}

func (p *plan) sidecar(o Options, s spec) error {
	geometry, err := json.Marshal(o.Model)
	if err != nil {
		return fmt.Errorf("writing the sidecar: %w", err)
	}
	recipe, err := json.Marshal(o.Config)
	if err != nil {
		return fmt.Errorf("writing the sidecar: %w", err)
	}
	unit, total := "clips", len(p.train)+len(p.val)
	if o.Protocol == dataset.Strict {
		unit = "clips of held-out episodes"
	}
	p.side = weights.Sidecar{Kind: lewm.Kind, Checkpoint: "last", Schema: model.Schema, ID: p.id, Method: o.Method, Task: o.Task.Name,
		Config: geometry, Train: recipe, Step: p.total, Seed: o.Seed, Protocol: s.Protocol, Device: s.Device,
		ActionMean: p.action.Mean, ActionStd: p.action.Std, Data: s.Data,
		Split: fmt.Sprintf("%s: %d of %d clips for validation, %s, seed %d", o.Protocol, len(p.val), total, unit, o.Seed)}
	if o.usesQ() {
		p.side.QName, p.side.QMean, p.side.QStd = o.Task.Q.Name, p.q.Mean, p.q.Std
	}
	return nil
}

// finished says whether this very training was done before.
func (p *plan) finished() (bool, error) {
	s, err := weights.ReadSidecar(filepath.Join(p.out, weights.SidecarName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if s.ID != p.id {
		return false, errOther(p.out)
	}
	if _, _, err := weights.Load(p.out); err != nil {
		return false, err
	}
	return true, p.dropResume() // which a kill may have left
}

// finish writes the checkpoint, the sidecar last, and drops the resume point.
func (p *plan) finish(m *lewm.Model) error {
	if err := weights.Save(filepath.Join(p.out, weights.FileName), m.Tensors(), &p.side); err != nil {
		return err
	}
	return p.dropResume()
}

func (p *plan) dropResume() error { return cell.Remove(filepath.Join(p.out, resumeName)) }

// clock is what run.json says of the last process that worked on a training.
type clock struct {
	FromStep    int     `json:"from_step"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`
	MsStep      float64 `json:"ms_step"` // median, without validation and saving
	ClipsPerSec float64 `json:"clips_per_second"`
	LoaderWait  float64 `json:"loader_wait_share"`
	Resident    bool    `json:"frames_on_device"` // all of them, from the second step on
	Started     string  `json:"started"`
}

func newClock(from int, began time.Time, steps []time.Duration, wait time.Duration, batch int) clock {
	c := clock{FromStep: from, Steps: len(steps), Seconds: time.Since(began).Seconds(), Started: began.UTC().Format(time.RFC3339)}
	if len(steps) == 0 {
		return c
	}
	var sum time.Duration
	for _, d := range steps {
		sum += d
	}
	sorted := slices.Sorted(slices.Values(steps))
	c.MsStep = float64(sorted[len(sorted)/2].Microseconds()) / 1000
	c.ClipsPerSec = float64(batch*len(steps)) / c.Seconds
	c.LoaderWait = wait.Seconds() / sum.Seconds()
	return c
}
