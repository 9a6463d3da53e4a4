// Package train trains world models: one loop from clips to a checkpoint that can
// be interrupted, killed and resumed at any step without a byte of the result
// changing, since every random draw is derived from the seed and the step. It knows
// no task and no environment, which arrive as columns, no family of models, which
// arrive as a model.Geometry, and no method, which is a list of loss terms.
//
// To read it, begin with loop.go (Run and what happens around a step), then step.go
// (the step itself), data.go (how clips come to the device), checkpoint.go (what is
// written, and how a training goes on after a kill).
package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/objective"
)

// Config is the recipe of a training: the [train] section of a preset.
type Config struct {
	Optimiser
	Weights model.Weights `toml:"weights"` // of the loss terms
	Loss
	Intervals
}

// Optimiser is the part of the recipe that says how parameters change.
type Optimiser struct {
	model.Schedule
	WeightDecay float64 `toml:"weight_decay" json:"weight_decay"`
	WarmUp      float64 `toml:"warm_up" json:"warm_up"` // fraction of the steps
	Clip        float64 `toml:"clip" json:"clip"`       // global gradient norm
}

// Loss is what the loss terms compute with, weights aside.
type Loss struct {
	objective.Numbers
	Q string `toml:"q" json:"q"` // which task state: full, half, native
	// QColumns are the columns of the task state of a data set without a task (dataset.OwnTask).
	QColumns string `toml:"q_columns,omitempty" json:"q_columns,omitempty"`
}

// Intervals is when a training logs, saves and validates.
type Intervals struct {
	LogEvery        int `toml:"log_every" json:"log_every"`               // steps between metrics rows
	DiagnosticEvery int `toml:"diagnostic_every" json:"diagnostic_every"` // rows with gradient norms and rank
	SaveEvery       int `toml:"save_every" json:"save_every"`             // steps between resume points
	EvalEvery       int `toml:"eval_every" json:"eval_every"`             // steps between validations
	EvalBatches     int `toml:"eval_batches" json:"eval_batches"`         // bound of one validation
}

// Task is what the training has to know of a task.
type Task struct {
	Name, ID string // tworoom, swm/TwoRoom-v1
	// Q is the task state that terms of the loss see (docs/sources.md#task-state-q);
	// methods without such a term need none.
	Q envs.Q
}

// Options is one training: a task, a method, a seed.
type Options struct {
	Dev  device.Device
	Data dataset.Source
	// Frames gives Data's frames at the model's size once there is something to train, and the
	// function that frees them; nil: OpenFrames.
	Frames func(context.Context) (frames dataset.FrameReader, free func() error, err error)
	// Features gives what a frozen encoder, that of m, makes of those frames; it is
	// asked where the model is no model.Learner.
	Features func(ctx context.Context, frames dataset.FrameReader, m model.World) (Features, error)
	DataPath string // OpenFrames keeps frames beside it that do not fit in memory
	Task     Task
	Method   model.Method // one without terms writes the initial weights
	Config   Config
	Model    model.Geometry // of the method's family
	Seed     int64
	Protocol dataset.Protocol // paper: validation clips at random; strict: whole episodes held out
	Out      string           // directory
	// Begin, where set, is called once everything is known to fit and there is
	// something to do, before the first byte goes to Out.
	Begin  func() error
	Resume bool // fail if there is nothing to go on from
	// BreakLock takes the folder from a process that has it, which the caller knows to be gone.
	BreakLock bool
	Workers   int // goroutines that decode frames; 0: one a core
	Progress  func(done, total int64, note string)
	Note      func(text string) // where set, is told which damaged files are made again, and whom the training waits for
}

// Result is what a finished training reports.
type Result struct {
	Weights string  `json:"weights"` // path of weights.safetensors
	ID      string  `json:"id"`      // of the spec that determines the bytes
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"` // last step; 0 where nothing was trained or its metrics are gone
	MsStep  float64 `json:"ms_step"`
	// LoaderWait is the share of the steps' time that was spent waiting for data.
	LoaderWait float64 `json:"loader_wait_share"`
	Skipped    bool    `json:"skipped"` // it was finished before
}

// maxBatch is a thousand times the published batch.
const maxBatch = 1 << 16

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	positive := []struct {
		name string
		v    int
	}{{"batch", c.Batch - 1}, {"log_every", c.LogEvery}, {"diagnostic_every", c.DiagnosticEvery},
		{"save_every", c.SaveEvery}, {"eval_every", c.EvalEvery}, {"eval_batches", c.EvalBatches}}
	for _, f := range positive {
		if f.v < 1 {
			return fmt.Errorf("train: %s is too small (hint: see presets/nano.toml)", f.name)
		}
	}
	if c.Batch > maxBatch {
		return fmt.Errorf("train: batch is %d (hint: at most %d)", c.Batch, maxBatch)
	}
	if c.Steps < 0 || c.Epochs < 0 || (c.Steps > 0) == (c.Epochs > 0) {
		return fmt.Errorf("train: steps %d and epochs %d (hint: set one of them and leave the other 0)", c.Steps, c.Epochs)
	}
	if !(c.LR > 0) {
		return fmt.Errorf("train: lr is %g (hint: a positive number)", c.LR)
	}
	if c.WarmUp >= 1 {
		return fmt.Errorf("train: warm_up is %g (hint: a fraction of the steps, below 1)", c.WarmUp)
	}
	numbers := map[string]float64{"lr": c.LR, "weight_decay": c.WeightDecay, "warm_up": c.WarmUp, "clip": c.Clip}
	for _, term := range writtenTerms {
		if _, ok := c.Weights[term][model.Others]; !ok {
			return fmt.Errorf("train: weights has no %s, or none for other tasks (hint: a number, or a table by task with %q; see presets/nano.toml)", term, model.Others)
		}
	}
	for term, byTask := range c.Weights {
		if objective.Terms[term] == nil {
			return fmt.Errorf("train: weights has a term %q that nothing computes (hint: model/objective has %v)", term, slices.Sorted(maps.Keys(objective.Terms)))
		}
		for task, w := range byTask {
			numbers["weights."+term+" of "+task] = w
		}
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if v := numbers[name]; !(v >= 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("train: %s is %g (hint: from 0 to %.2g, the largest float32)", name, v, math.MaxFloat32)
		}
	}
	return c.Numbers.Validate()
}

// validate names the first option that cannot work.
func (o Options) validate() error {
	if family := o.Model.Info().Kind; o.Method.Family != family {
		return fmt.Errorf("training %s, a model of family %q, with a geometry of family %q (hint: give that of its own family)", o.Method.Name, o.Method.Family, family)
	}
	if o.Method.UsesQ() && len(o.Task.Q.Parts) == 0 {
		if o.Task.Name == dataset.NoTask {
			return fmt.Errorf("%s learns from a task state, and nothing says which columns of the data set it is (hint: as in --q-columns state[0:4],goal[2]; q is then \"full\")", o.Method.Name)
		}
		return fmt.Errorf("task %s has no state q named %q (hint: `scalewm tasks` lists them)", o.Task.Name, o.Config.Q)
	}
	if o.Config.QColumns != "" && o.Task.Name != dataset.NoTask {
		return fmt.Errorf("train: q_columns is for data sets without a task, and task %s has states of its own (hint: --task %s, or leave q_columns out)", o.Task.Name, dataset.NoTask)
	}
	for _, t := range o.Method.Terms {
		if w, ok := o.Config.Weights.On(t.Name, o.Task.Name); !ok || t.UsesQ && !(w > 0) {
			return fmt.Errorf("the preset's weight of %s's %s for task %s is %g (hint: set train.weights.%s to a positive number)", o.Method.Name, t.Name, o.Task.Name, w, t.Name)
		}
		if objective.Terms[t.Name] == nil {
			return fmt.Errorf("the loss of %s has a term named %q that nothing computes (hint: model/objective has %v)",
				o.Method.Name, t.Name, slices.Sorted(maps.Keys(objective.Terms)))
		}
	}
	if err := o.Config.Validate(); err != nil {
		return err
	}
	return o.Model.Validate()
}
