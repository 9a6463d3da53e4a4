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

func runTrain(ctx context.Context, c *command, args []string) error {
	task := c.String("task", "", "`name` of the task the data set is of (`scalewm tasks`), or none: any data set, without a simulator")
	method := c.String("method", model.Baseline, "`objective`: "+strings.Join(model.MethodNames(model.Method.Trained), ", ")+"; "+model.Untrained+" writes the initial weights")
	data := c.String("data", "", "the data set, a `file` in HDF5")
	preset := c.presetFlags("nano", "")
	protocol := c.String("protocol", results.Paper, "`split`: paper (clips at random) or strict (whole episodes held out)")
	seed := c.Seed("seed", 3072, "training `seed`: split, order, initial weights and every draw of a step")
	out := c.String("out", "", "`folder` of the checkpoint and its metrics")
	steps := c.Some("steps", 0, "optimiser `steps` instead of the preset's")
	columns := c.String("q-columns", "", "`columns` of the data set that are the task state with --task none, as state[0:4],goal[2]")
	q := c.String("q", "", "task `state` that scale and aux see, instead of the preset's: full, half or native")
	weight := c.String("scale-weight", "", "`weight` of scale's own loss term, instead of the preset's")
	reading := c.String("reading", "", "`form` of the losses of scale and aux, instead of the preset's: authors (their code) or paper (as printed)")
	workers := c.Count("workers", 0, "`goroutines` that read frames; 0 is one a core (the result does not depend on it)")
	featured := c.featureFlags()
	resume := c.Bool("resume", false, "fail unless there is an interrupted training to go on with (the same command goes on anyway)")
	breakLock := c.breakLockFlag()
	dev := c.deviceFlags("bf16 where the machine has it")
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.required("task", "data", "out"); err != nil {
		return err
	}
	if filepath.Base(*out) == results.CellsDir {
		return usagef("train: --out %s is the name of the folder of cells in a results folder (hint: a folder of its own, as %s)", *out, filepath.Join(filepath.Dir(*out), "train", *method))
	}
	m, err := parseMethod(*method)
	if err == nil && !m.Plans() {
		err = fmt.Errorf("%s has no model to train", *method)
	}
	_, err2 := dataset.ParseProtocol(*protocol)
	if err := cmp.Or(err, err2); err != nil {
		return usagef("train: %v", err)
	}
	if !m.UsesQ() {
		err = c.meaningless("to "+*method+", whose loss sees no task state", "q", "reading")
	}
	p, err2 := preset.load()
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	if *steps != 0 {
		p.SetSteps(*steps)
	}
	switch p.Train.QColumns = cmp.Or(*columns, p.Train.QColumns); {
	case *task != dataset.NoTask && p.Train.QColumns != "":
		return usagef("train: --q-columns (the preset's train.q_columns) is for data sets without a task, and task %s has states of its own (hint: --task %s, or leave it out)", *task, dataset.NoTask)
	case *task == dataset.NoTask && p.Train.QColumns == "" && m.UsesQ():
		return usagef("train: %s learns from a task state, and nothing says which columns of the data set it is (hint: as in --q-columns state[0:4],goal[2])", m.Name)
	}
	t, err := pipeline.TaskOf(*task, *data, p.Train.QColumns)
	if err != nil {
		return err
	}
	if *q != "" {
		if !pipeline.HasQ(t, *q) {
			return usagef("train: task %s has no --q %s (`scalewm tasks` lists what it has)", *task, *q)
		}
		p.Train.Q = *q
	}
	switch *reading {
	case "":
	case "authors", "paper":
		p.Train.Correlation, p.Train.AuxLoss = *reading, *reading
	default:
		return usagef("train: --reading %s: choose authors or paper", *reading)
	}
	if *weight != "" {
		if !slices.ContainsFunc(m.Terms, func(t model.Term) bool { return t.Name == model.Correlation }) {
			return usagef("train: --scale-weight is of scale's loss, and the method is %s", *method)
		}
		v, err := parseWeight(*weight)
		if err != nil {
			return usagef("train: %v", err)
		}
		p.Train.Weights = p.Train.Weights.With(model.Correlation, t.Spec.Name, v)
	}
	one := pipeline.Training{Preset: *p, Task: t, Method: m, Seed: *seed, Protocol: *protocol, Data: *data, Out: *out}
	var cache features.Limit
	if one.Backbone, cache, err = featured.read(m); err != nil {
		return err
	}
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
	if err = one.Check(file.Fingerprint, d.Kind().String()); err == nil {
		err = one.Joins(file.Fingerprint)
	}
	if err != nil {
		return err
	}
	l := &teller{command: c, step: "training " + *method}
	o, err := one.Options(file, train.Options{Dev: d, Resume: *resume, BreakLock: *breakLock, Workers: orCores(*workers), Progress: l.Progress, Note: l.Note}, cache)
	if err != nil {
		return err
	}
	r, err := train.Run(ctx, o)
	l.line()
	if err != nil {
		return err
	}
	return c.showTraining(r, *asJSON)
}

func (c *command) showTraining(r train.Result, asJSON bool) error {
	if asJSON {
		return c.printJSON(r)
	}
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
