// Package train is the training of the LeWM family: one loop from clips to a
// checkpoint that can be interrupted, killed and resumed at any step without a
// byte of the result changing, since every random draw is derived from the seed
// and the step. It knows no task and no environment: those arrive as columns.
package train

import (
	"context"
	"fmt"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/lewm"
)

// Config is the recipe of a training: the [train] section of a preset.
type Config struct {
	Batch       int     `toml:"batch" json:"batch"`   // clips a step
	Steps       int     `toml:"steps" json:"steps"`   // optimiser steps; 0: Epochs decide
	Epochs      int     `toml:"epochs" json:"epochs"` // passes over the training clips
	LR          float64 `toml:"lr" json:"lr"`
	WeightDecay float64 `toml:"weight_decay" json:"weight_decay"`
	WarmUp      float64 `toml:"warm_up" json:"warm_up"` // fraction of the steps
	Clip        float64 `toml:"clip" json:"clip"`       // global gradient norm

	SIGReg      float64 `toml:"sigreg" json:"sigreg"`         // weight
	Directions  int     `toml:"directions" json:"directions"` // M random projections a step
	Pairs       int     `toml:"pairs" json:"pairs"`           // K of SCALE
	Correlation string  `toml:"correlation" json:"correlation"`
	AuxLoss     string  `toml:"aux_loss" json:"aux_loss"` // authors (mean over dims) or paper (sum)
	Q           string  `toml:"q" json:"q"`               // which task state: full, half, native
	// ScaleWeight and AuxWeight are the weights of the extra loss by task.
	ScaleWeight map[string]float64 `toml:"scale_weight" json:"scale_weight"`
	AuxWeight   map[string]float64 `toml:"aux_weight" json:"aux_weight"`

	LogEvery        int `toml:"log_every" json:"log_every"`               // steps between metrics rows
	DiagnosticEvery int `toml:"diagnostic_every" json:"diagnostic_every"` // rows with gradient norms and rank
	SaveEvery       int `toml:"save_every" json:"save_every"`             // steps between resume points
	EvalEvery       int `toml:"eval_every" json:"eval_every"`             // steps between validations
	EvalBatches     int `toml:"eval_batches" json:"eval_batches"`         // bound of one validation
}

// Methods lists what can be trained, in the paper's order.
func Methods() []string { return model.MethodNames(model.Method.Trained) }

// Untrained is the method that writes the initial weights: the floor that
// trained models are compared with.
const Untrained = model.Untrained

// Task is what the training has to know of a task.
type Task struct {
	Name, ID string // tworoom, swm/TwoRoom-v1
	Q        envs.Q // what SCALE and Aux train on (docs/sources.md#task-state-q); LeWM needs none
}

// Options is one training: a task, a method, a seed.
type Options struct {
	Dev  device.Device
	Data dataset.Source
	// Frames, where set, gives Data's frames at the model's size, asked for once
	// there is something to train; nil: OpenFrames, beside DataPath where they do
	// not fit in memory.
	Frames   func(context.Context) (dataset.FrameReader, error)
	DataPath string
	Task     Task
	Method   string // one of Methods, or Untrained
	Config   Config
	Model    lewm.Config
	Seed     int64
	Protocol dataset.Protocol // paper: validation clips at random; strict: whole episodes held out
	Out      string           // directory
	// Begin, where set, is called once everything is known to fit, before the
	// first byte goes to Out.
	Begin    func() error
	Resume   bool // fail if there is nothing to go on from
	Workers  int  // goroutines that decode frames; 0: one a core
	Progress func(done, total int64, note string)
}

// Result is what a finished training reports.
type Result struct {
	Weights string  `json:"weights"` // path of weights.safetensors
	ID      string  `json:"id"`      // of the spec that determines the bytes
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"` // last step
	MsStep  float64 `json:"ms_step"`
	// LoaderWait is the share of the steps' time that was spent waiting for data.
	LoaderWait float64 `json:"loader_wait_share"`
	Skipped    bool    `json:"skipped"` // it was finished before
}

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	positive := []struct {
		name string
		v    int
	}{{"batch", c.Batch - 1}, {"directions", c.Directions}, {"pairs", c.Pairs}, {"log_every", c.LogEvery}, {"diagnostic_every", c.DiagnosticEvery},
		{"save_every", c.SaveEvery}, {"eval_every", c.EvalEvery}, {"eval_batches", c.EvalBatches}}
	for _, f := range positive {
		if f.v < 1 {
			return fmt.Errorf("train: %s is too small (hint: see presets/nano.toml)", f.name)
		}
	}
	switch {
	case (c.Steps > 0) == (c.Epochs > 0):
		return fmt.Errorf("train: steps %d and epochs %d (hint: set one of them and leave the other 0)", c.Steps, c.Epochs)
	case c.LR <= 0 || c.WarmUp < 0 || c.WarmUp >= 1 || c.WeightDecay < 0 || c.Clip < 0 || c.SIGReg < 0:
		return fmt.Errorf("train: lr, weight_decay, warm_up, clip or sigreg out of range (hint: see presets/nano.toml)")
	case c.Correlation != "authors" && c.Correlation != "paper":
		return fmt.Errorf("train: correlation is %q (hint: authors or paper)", c.Correlation)
	case c.AuxLoss != "authors" && c.AuxLoss != "paper":
		return fmt.Errorf("train: aux_loss is %q (hint: authors or paper)", c.AuxLoss)
	}
	return nil
}
