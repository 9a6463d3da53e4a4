package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
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
	protocol := c.String("protocol", string(dataset.Paper), "`split`: paper (clips at random) or strict (whole episodes held out)")
	seed := c.Seed("seed", 3072, "training `seed`: split, order, initial weights and every draw of a step")
	out := c.String("out", "", "`folder` of the checkpoint and its metrics")
	steps := c.Some("steps", 0, "optimiser `steps` instead of the preset's")
	columns := c.String("q-columns", "", "`columns` of the data set that are the task state with --task none, as state[0:4],goal[2]")
	q := c.String("q", "", "task `state` that scale and aux see, instead of the preset's: full, half or native")
	weight := c.String("scale-weight", "", "`weight` of scale's own loss term, instead of the preset's")
	reading := c.String("reading", "", "`form` of the losses of scale and aux, instead of the preset's: authors (their code) or paper (as printed)")
	workers := c.Count("workers", 0, "`goroutines` that read frames; 0 is one a core (the result does not depend on it)")
	features := c.featureFlags()
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
	rules, err2 := dataset.ParseProtocol(*protocol)
	if err := cmp.Or(err, err2); err != nil {
		return usagef("train: %v", err)
	}
	if !m.UsesQ() {
		if err := c.meaningless("to "+*method+", whose loss sees no task state", "q", "reading"); err != nil {
			return err
		}
	}
	p, err := preset.load()
	if err != nil {
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
	g := pipeline.Grid{Preset: *p, Tasks: []envs.Task{t}, Methods: []model.Method{m}, Seeds: []int64{*seed}, Protocol: rules}
	if *weight != "" {
		if !slices.ContainsFunc(m.Terms, func(t model.Term) bool { return t.Name == model.Correlation }) {
			return usagef("train: --scale-weight is of scale's loss, and the method is %s", *method)
		}
		v, err := parseWeight(*weight)
		if err != nil {
			return usagef("train: %v", err)
		}
		g.ScaleWeights = []float64{v}
	}
	w, l := c.workspace(g, "", *workers), &teller{command: c, step: "training " + *method}
	defer w.Close()
	w.Listener, w.Data, w.Weights, w.BreakLock = l, *data, *out, *breakLock
	if err := features.read(w); err != nil {
		return err
	}
	if w.Trainer, err = dev.open(true); err != nil {
		return err
	}
	defer w.Trainer.Close()
	w.Precision = w.Trainer.Kind().Precision
	step := pipeline.Of[*pipeline.Train](w.Graph())[0]
	step.Resume = *resume
	if err := (pipeline.Graph{step}).Check(ctx); err != nil {
		return err
	}
	_, err = step.Run(ctx)
	l.line()
	if err != nil {
		return err
	}
	return c.showTraining(step.Result, *asJSON)
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
