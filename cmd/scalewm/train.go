package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/features"
	"scalewm/model/train"
)

func init() {
	register(verb{name: "train", summary: "train a world model on a data set and write a checkpoint",
		example: "scalewm train --task tworoom --method scale --data tworoom.h5 --preset nano --out runs/scale-3072", run: runTrain})
}

// runTrain trains one model. Flags override single values of the preset; the
// resulting recipe is written next to the checkpoint.
//
// The run (the folder --out) has weights, sidecar, metrics and, until the training is
// done, a resume point. The same command resumes an interrupted training with the
// same result as an uninterrupted one, and does nothing if the training is complete.
// A folder with a different training is an error, and another process that trains in
// it is waited for. Stdout has one line, or one JSON object; progress goes to stderr
// and metrics.jsonl.
func runTrain(ctx context.Context, c *command, args []string) error {
	task := c.String("task", "", "`name` of the data set's task (see `scalewm tasks`), or none for a data set without a simulator")
	method := c.String("method", model.Baseline, "training `method`: "+strings.Join(model.MethodNames(model.Method.Trained), ", ")+", or "+model.Untrained+", which writes the initial weights")
	data := c.String("data", "", "data set, an HDF5 `file`")
	preset := c.presetFlags("nano", "")
	protocol := c.String("protocol", results.Paper, "`split`: paper (clips at random) or strict (whole episodes held out)")
	seed := c.Seed("seed", 3072, "training `seed`, which determines the split, the order of clips, the initial weights and all other random draws")
	out := c.String("out", "", "`folder` to write the checkpoint and its metrics in")
	steps := c.Positive("steps", 0, "train for `n` optimiser steps (default: the preset's)")
	keep := c.Positive("keep-every", 0, "also keep the weights after every `n` optimiser steps, as step-N.safetensors (`scalewm select` ranks them)")
	columns := c.String("q-columns", "", "data-set `columns` that form the task state with --task none, for example state[0:4],goal[2]")
	q := c.String("q", "", "task `state` for scale and aux (default: the preset's): full, half or native")
	weight := c.String("scale-weight", "", "`weight` of scale's loss term (default: the preset's)")
	workers := c.Count("workers", 0, "use `n` goroutines to read frames; 0 means one per core (the result does not depend on it)")
	encoder := c.String("encoder", "", "`folder` of the run on whose latents a policy is trained, or its file of weights")
	featured := c.featureFlags()
	resume := c.Bool("resume", false, "fail unless there is an interrupted training to resume (without the flag, one is resumed if there is any)")
	breakLock := c.breakLockFlag()
	dev := c.deviceFlags("bf16 if the machine supports it")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.required("task", "data", "out"); err != nil {
		return err
	}
	// Loading a results folder reads every JSON file in folders of this name, and would
	// take the checkpoint's sidecar for a cell.
	if filepath.Base(*out) == results.CellsDir {
		return usagef("train: --out %s is the name of the cell folder in a results folder (hint: use a separate folder, such as %s)", *out, filepath.Join(filepath.Dir(*out), "train", *method))
	}
	// Method and protocol, then the flags that do not apply to the method.
	m, err := lookUpMethod(*method)
	if err == nil && !m.HasModel() {
		err = fmt.Errorf("%s has no model to train", *method)
	}
	_, err2 := dataset.ParseProtocol(*protocol)
	if err := cmp.Or(err, err2); err != nil {
		return usagef("train: %v", err)
	}
	if !m.UsesQ() {
		err = c.noEffect("with "+*method+", whose loss uses no task state", "q")
	}
	if !m.Trained() && err == nil {
		err = c.noEffect("with "+*method+", which is not trained", "keep-every")
	}
	p, err2 := preset.load()
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	// Flags that change values of the preset.
	if *steps != 0 {
		p.SetSteps(*steps)
	}
	// The task state: declared by a task, or columns of a data set without a simulator.
	switch p.Train.QColumns = cmp.Or(*columns, p.Train.QColumns); {
	case *task != dataset.NoTask && p.Train.QColumns != "":
		return usagef("train: --q-columns (the preset's train.q_columns) is for data sets without a task, and task %s has its own states (hint: --task %s, or leave it out)", *task, dataset.NoTask)
	case *task == dataset.NoTask && p.Train.QColumns == "" && m.UsesQ():
		return usagef("train: %s learns from a task state, and nothing says which columns of the data set it is (hint: as in --q-columns state[0:4],goal[2])", m.Name)
	}
	t, err := pipeline.TaskOf(*task, "", *data, p.Train.QColumns)
	if err != nil {
		return err
	}
	p.Train = p.Train.ForTask(t.Spec.Name)
	if *q != "" {
		if !pipeline.HasQ(t, *q) {
			return usagef("train: task %s has no --q %s (`scalewm tasks` lists what it has)", *task, *q)
		}
		p.Train.Q = *q
	}
	if *weight != "" {
		if !slices.ContainsFunc(m.Terms, func(t model.Term) bool { return t.Name == model.Correlation }) {
			return usagef("train: --scale-weight: the method %s does not have scale's loss term", *method)
		}
		v, err := parseWeight(*weight)
		if err != nil {
			return usagef("train: %v", err)
		}
		p.Train.Weights = p.Train.Weights.With(model.Correlation, t.Spec.Name, v)
	}
	// What determines the weights.
	one := pipeline.Training{Preset: *p, Task: t, Method: m, Seed: *seed, Protocol: *protocol, Data: *data, Out: *out, Encoder: *encoder}
	var cache features.Limit
	if one.Backbone, cache, err = featured.read(false, m); err != nil {
		return err
	}
	// The device first: its kind is part of the training's identity, see Training.Check.
	d, err := dev.open(true)
	if err != nil {
		return err
	}
	defer d.Close()
	file, err := hdf5.Open(*data)
	if err != nil {
		return err
	}
	defer file.Close()
	// Check the folder before training starts: the sidecar of another training must not be
	// overwritten, and a results folder accepts trainings of its preset and data only.
	if err = one.Check(file.Fingerprint, d.Kind().String()); err == nil {
		err = one.Joins(file.Fingerprint)
	}
	if err != nil {
		return err
	}
	l := &listener{command: c, step: "training " + *method}
	o, err := one.Options(file, train.Options{Dev: d, KeepEvery: *keep, Resume: *resume, BreakLock: *breakLock, Workers: orAllCores(*workers), Progress: l.Progress, Note: l.Note}, cache)
	if err != nil {
		return err
	}
	r, err := train.Run(ctx, o)
	l.endProgress()
	if err != nil {
		return err
	}
	return c.showTraining(r, *asJSON)
}

// showTraining prints the result of a training: its weights file, and how long a step
// took. Time spent waiting for data says whether frames are read fast enough.
func (c *command) showTraining(r train.Result, asJSON bool) error {
	if asJSON {
		return c.printJSON(r)
	}
	// The loss is that of the last step.
	note := fmt.Sprintf("%d steps, loss %.4f, %.1f ms a step, %.1f %% of it waiting for data", r.Steps, r.Loss, r.MsStep, 100*r.LoaderWait)
	switch {
	case r.Skipped:
		note = fmt.Sprintf("was trained before (loss %.4f); nothing to do", r.Loss)
	case r.Steps == 0:
		note = "initial weights"
	}
	_, err := fmt.Fprintf(c.stdout, "%s: %s\n", r.Weights, note)
	return err
}
