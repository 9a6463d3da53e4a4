package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"scalewm/eval"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
)

func init() {
	register(verb{name: "eval", summary: "plan with a checkpoint on the evaluation sets and write a cell for each",
		example: "scalewm eval --task tworoom --weights runs/scale-3072 --data tworoom.h5 --tier T1,T5 --out results\n" +
			"scalewm eval --task tworoom --random --data tworoom.h5 --out results\n" +
			"scalewm eval --task tworoom --weights runs/scale-3072 --data tworoom.h5 --tier T5 --out results --verify 3", run: runEval})
}

// evalFlags are the flags that say what is evaluated on what.
type evalFlags struct {
	task, weights, data, solver, tier, sets, out *string
	random, json                                 *bool
	episodes, workers, verify                    *int
	settings                                     settingFlags
	dev                                          deviceFlags
}

func (c *command) evalFlags() evalFlags {
	return evalFlags{
		task:     c.String("task", "", "`name` of the task (`scalewm tasks`)"),
		weights:  c.String("weights", "", "the checkpoint: a `folder` that train wrote, or a published one with weights.pt and config.json"),
		random:   c.Bool("random", false, "evaluate uniform random actions instead of a checkpoint"),
		data:     c.String("data", "", "the data set that starts and goals come from, a `file` in HDF5"),
		solver:   c.String("solver", results.CEM, "`planners`, with commas: "+strings.Join(eval.Solvers(), ", ")+", or all (the first three)"),
		tier:     c.String("tier", "all", "compute `tiers`, with commas: T1 to T5, T2p, or all"),
		sets:     c.String("sets", "all", "evaluation `sets`, with commas: s101 to s106, all, or files of sets"),
		episodes: c.Some("episodes", 100, "`episodes` of a set"),
		out:      c.String("out", "", "results `folder`: cells go to its cells/, sets to its sets/, films to its watch/"),
		workers:  c.Count("workers", 0, "`goroutines` that simulate; 0 is one a core (the cells do not depend on it)"),
		verify:   c.Some("verify", 0, "run this many of the `cells` in --out again and compare, instead of making any"),
		settings: c.settingFlags(),
		dev:      c.deviceFlags("fp32"),
		json:     c.Bool("json", false, "print one JSON object"),
	}
}

func runEval(ctx context.Context, c *command, args []string) error {
	f := c.evalFlags()
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	w, err := f.workspace(c)
	if err != nil {
		return err
	}
	defer w.Close()
	if !*f.random {
		if w.Planner, err = f.dev.open(false); err != nil {
			return err
		}
		defer w.Planner.Close()
		w.Precision = w.Planner.Kind().Precision
		arm, err := w.Load(w.Grid.Tasks[0])
		if err != nil {
			return err
		}
		w.Grid.Methods, w.Grid.Seeds = []model.Method{model.MethodOf(arm.Method)}, []int64{int64(arm.TrainSeed)}
	}
	gate, err := w.Ready(ctx, *f.verify == 0)
	if err != nil {
		return err
	}
	if *f.verify > 0 {
		return c.verify(ctx, w, *f.verify, *f.json)
	}
	scores, failed, err := w.Evaluate(ctx)
	if err != nil {
		return err
	}
	if *f.json {
		err = c.printJSON(map[string]any{"cells": scores, "failed": failed, "render_error": gate.Error})
	} else if len(scores) > 0 {
		err = printScores(c.stdout, scores)
	}
	return failures(failed, err)
}

// workspace checks the flags and says what is to be evaluated; so far random actions.
func (f evalFlags) workspace(c *command) (*pipeline.Workspace, error) {
	if err := c.required("task", "data", "out"); err != nil {
		return nil, err
	}
	if (*f.weights == "") != *f.random {
		return nil, usagef("eval needs either --weights DIR or --random")
	}
	w, err := pipeline.Evaluation{Settings: f.settings.of(*f.solver, *f.tier, *f.sets), Task: *f.task, Data: *f.data, Out: *f.out,
		Episodes: *f.episodes, Batch: *f.settings.batch, Workers: orCores(*f.workers)}.Workspace()
	if err != nil {
		return nil, err
	}
	w.Version, w.Weights = version(), *f.weights
	w.Listener = &teller{command: c, quiet: true, step: "tuning mppi on " + *f.task}
	return w, nil
}

// verify runs a sample of an arm's cells again and says which came out the same.
func (c *command) verify(ctx context.Context, w *pipeline.Workspace, n int, asJSON bool) error {
	verdicts, err := w.Verify(ctx, n)
	if err != nil {
		return err
	}
	failed := []string{}
	for _, v := range verdicts {
		state := "same " + v.Compare
		if !v.Same {
			state = "differs: " + v.Differs
			failed = append(failed, fmt.Sprintf("cell %s (%s): %s", v.ID, v.Unit, v.Differs))
		}
		if v.Made != v.Now {
			state += fmt.Sprintf(" (made on %s, run on %s)", v.Made, v.Now)
		}
		if !asJSON {
			fmt.Fprintf(c.stdout, "%s %s: %s\n", v.ID, v.Unit, state)
		}
	}
	if asJSON {
		err = c.printJSON(map[string]any{"verified": verdicts, "failed": failed})
	}
	return failures(failed, err)
}

// failures turns a list of failed units into the error of exit code 3.
func failures(failed []string, err error) error {
	if err != nil || len(failed) == 0 {
		return err
	}
	return fmt.Errorf("%w:\n  %s", errFailedCells, strings.Join(failed, "\n  "))
}

// orCores is n, or a goroutine a core for 0.
func orCores(n int) int {
	if n < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
