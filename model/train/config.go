// Package train trains world models.
//
// Run trains one model: a task's data set, a method (model.Method, a list of loss
// terms), a geometry (model.Geometry) and a seed, given in Options. It writes a run,
// a folder with the checkpoint, its sidecar, metrics and, while it is unfinished, a
// resume point.
//
// A run can be interrupted, killed and resumed at any step without changing a byte of
// the result: every random draw is derived from the seed and the step, a resume point
// holds the complete optimiser state, and files are replaced atomically.
//
// The package does not depend on particular tasks, families or methods. Tasks are
// columns of a data set, families implement model.Geometry, and methods list their
// terms.
//
// Start reading with loop.go (Run, and what happens around a step). Then step.go has
// the step itself, data.go the transfer of clips to the device, and checkpoint.go the
// files and the resumption. Trial runs single steps for benchmarks.
package train

import (
	"cmp"
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

// Config is the recipe of a training: the [train] table of a preset.
type Config struct {
	Optimiser
	// Weights are the weights of the loss terms by task.
	Weights model.Weights `toml:"weights"`
	Loss
	Intervals
}

// Optimiser is the part of the recipe for AdamW and its learning rate schedule, or
// Adam at a constant rate (docs/sources.md#optimiser).
type Optimiser struct {
	model.Schedule
	// Adam selects the latter, the paper's optimiser. As in PyTorch's Adam, the decay is
	// part of the gradient. WarmUp has no effect.
	Adam        bool    `toml:"adam,omitempty" json:"adam,omitempty"`
	WeightDecay float64 `toml:"weight_decay" json:"weight_decay"`
	// WarmUp is the fraction of the steps in which the rate rises from 0 to LR. It has no
	// effect if Final is positive.
	WarmUp float64 `toml:"warm_up" json:"warm_up"`
	// Clip is the maximum L2 norm of the gradient of all parameters, or 0 for no
	// clipping.
	Clip float64 `toml:"clip" json:"clip"`
}

// Loss is the part of the recipe for the loss terms, except for their weights.
type Loss struct {
	objective.Numbers
	// Q names the task state: full, half or native. QByTask names another one for some
	// tasks; ForTask resolves it.
	Q       string            `toml:"q" json:"q"`
	QByTask map[string]string `toml:"q_by_task,omitempty" json:"-"`
	// QColumns selects the columns that form the task state, for a data set without a
	// task (dataset.OwnTask).
	QColumns string `toml:"q_columns,omitempty" json:"q_columns,omitempty"`
}

// ForTask returns the recipe for one task, with the task state that QByTask names.
func (c Config) ForTask(task string) Config {
	c.Q, c.QByTask = cmp.Or(c.QByTask[task], c.Q), nil
	return c
}

// Intervals say how often a training logs, saves and validates. The weights do not
// depend on them.
type Intervals struct {
	LogEvery        int `toml:"log_every" json:"log_every"`               // steps between metrics rows
	DiagnosticEvery int `toml:"diagnostic_every" json:"diagnostic_every"` // steps between rows with metrics.Diagnostics
	SaveEvery       int `toml:"save_every" json:"save_every"`             // steps between resume points
	EvalEvery       int `toml:"eval_every" json:"eval_every"`             // steps between validations
	EvalBatches     int `toml:"eval_batches" json:"eval_batches"`         // maximum batches per validation
}

// Task is what a training needs to know of a task.
type Task struct {
	Name, ID string // such as tworoom and swm/TwoRoom-v1
	// Q is the task state for loss terms that use it (docs/sources.md#task-state-q).
	// Other methods do not need it.
	Q envs.Q
	// Bounds of the simulator's actions; nil if there is no simulator.
	ActionLow, ActionHigh []float64
}

// Options describes one training.
type Options struct {
	Dev  device.Device
	Data dataset.Source
	// Frames opens Data's frames at the model's size and returns a function that
	// releases them. It is called only if there are steps to do. If it is nil,
	// OpenFrames is used.
	Frames func(context.Context) (frames dataset.FrameReader, free func() error, err error)
	// Features opens the features of those frames for the frozen encoder of m. It is
	// called only if the model is not a model.Learner and steps do not compute the
	// features on the device.
	Features func(ctx context.Context, frames dataset.FrameReader, m model.World) (Features, error)
	// DataPath is the path of the data set. OpenFrames stores resized frames next to
	// it if they do not fit in memory.
	DataPath string
	Task     Task
	Method   model.Method // without terms, Run writes the initial weights
	Config   Config
	Model    model.Geometry // of the method's family
	Seed     int64
	// Protocol is paper (validation clips drawn at random) or strict (validation on
	// episodes that the training does not see).
	Protocol dataset.Protocol
	Out      string // folder of the run
	// KeepEvery, if not 0, is the number of steps after which the weights are written to a
	// file that stays, as that of a resume point does not. The bytes of the run's other files
	// do not depend on it.
	KeepEvery int
	// Begin, if set, is called once all options are valid and there is work to do, before
	// Run writes to Out.
	Begin  func() error
	Resume bool // fail if Out has no resume point
	// BreakLock takes over the lock of Out. The caller must know that the process that
	// held it is gone.
	BreakLock bool
	// Workers is the number of goroutines that decode frames, or 0 for one per core.
	Workers  int
	Progress func(done, total int64, note string)
	// Note, if set, is called with messages: which damaged files are trained again,
	// and for which process Run waits.
	Note func(text string)
}

// Result describes a finished run. The fields after Loss are zero if it was skipped.
type Result struct {
	Weights string `json:"weights"` // path of weights.safetensors
	ID      string `json:"id"`      // hash of the spec that determines the weights
	Steps   int    `json:"steps"`   // optimiser steps of the entire run
	// Loss is that of the last step, or 0 if nothing was trained or there are no metrics.
	Loss   float64 `json:"loss"`
	MsStep float64 `json:"ms_step"` // median time of a step of this process
	// LoaderWait is the share of the steps' time that was spent waiting for data.
	LoaderWait float64 `json:"loader_wait_share"`
	Skipped    bool    `json:"skipped"` // the run had been finished before
}

// maxBatch bounds the memory of a batch. It is about 500 times the published batch of
// 128.
const maxBatch = 1 << 16

// Validate returns an error that names the first invalid field.
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
	if c.Decay != 0 || !(c.Final >= 0 && c.Final <= 1) {
		return fmt.Errorf("train: decay is %g and final %g (hint: [train] has weight_decay instead of decay; final is a fraction of lr)", c.Decay, c.Final)
	}
	numbers := map[string]float64{"lr": c.LR, "weight_decay": c.WeightDecay, "warm_up": c.WarmUp, "clip": c.Clip}
	for _, term := range requiredTerms {
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

// validate returns an error that names the first invalid option.
func (o Options) validate() error {
	if family := o.Model.Info().Kind; o.Method.Family != family {
		return fmt.Errorf("training %s, a model of family %q, with a geometry of family %q (hint: use a geometry of the method's family)", o.Method.Name, o.Method.Family, family)
	}
	if o.Method.UsesQ() && len(o.Task.Q.Parts) == 0 {
		if o.Task.Name == dataset.NoTask {
			return fmt.Errorf("%s learns from a task state, and nothing says which columns of the data set it is (hint: as in --q-columns state[0:4],goal[2]; q is then \"full\")", o.Method.Name)
		}
		return fmt.Errorf("task %s has no state q named %q (hint: `scalewm tasks` lists them)", o.Task.Name, o.Config.Q)
	}
	if o.Config.QColumns != "" && o.Task.Name != dataset.NoTask {
		return fmt.Errorf("train: q_columns is for data sets without a task, and task %s has its own states (hint: --task %s, or leave q_columns out)", o.Task.Name, dataset.NoTask)
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
