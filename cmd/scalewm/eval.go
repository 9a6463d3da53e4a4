package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"scalewm/envs"
	"scalewm/eval"
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
		weights:  c.String("weights", "", "the checkpoint, a `folder` that train wrote"),
		random:   c.Bool("random", false, "evaluate uniform random actions instead of a checkpoint"),
		data:     c.String("data", "", "the data set that starts and goals come from, a `file` in HDF5"),
		solver:   c.String("solver", "cem", "`planners`, with commas: "+strings.Join(eval.Solvers(), ", ")+", or all (the first three)"),
		tier:     c.String("tier", "all", "compute `tiers`, with commas: T1 to T5, T2p, or all"),
		sets:     c.String("sets", "all", "evaluation `sets`, with commas: s101 to s106, all, or files of sets"),
		episodes: c.Count("episodes", 100, "`episodes` of a set"),
		out:      c.String("out", "", "results `folder`: cells go to its cells/, sets to its sets/, films to its watch/"),
		workers:  c.Count("workers", 0, "`goroutines` that simulate; 0 is one a core (the cells do not depend on it)"),
		verify:   c.Count("verify", 0, "run this many of the `cells` in --out again and compare, instead of making any"),
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
	e, err := f.evaluation()
	if err != nil {
		return err
	}
	if err := e.openData(*f.data, *f.episodes); err != nil {
		return err
	}
	defer e.close()
	arm := randomArm
	if !*f.random {
		dev, err := f.dev.open(false)
		if err != nil {
			return err
		}
		defer dev.Close()
		if arm, err = loadArm(dev, *f.weights, *f.task); err != nil {
			return err
		}
	}
	if err := e.fits(arm, *f.weights); err != nil {
		return err
	}
	if _, err := e.renderGate(ctx); err != nil {
		return err
	}
	if err := e.tune(ctx, c, arm, *f.verify == 0); err != nil {
		return err
	}
	if *f.verify > 0 {
		return e.verify(ctx, c, arm, *f.verify, *f.json)
	}
	return e.show(ctx, c, arm, *f.json)
}

// evaluation checks the flags and says what is to be evaluated.
func (f evalFlags) evaluation() (*evaluation, error) {
	for _, need := range [][2]string{{"task", *f.task}, {"data", *f.data}, {"out", *f.out}} {
		if need[1] == "" {
			return nil, usagef("eval needs --%s (`scalewm eval --help` shows an example)", need[0])
		}
	}
	if (*f.weights == "") != *f.random {
		return nil, usagef("eval needs either --weights DIR or --random")
	}
	if *f.episodes == 0 {
		return nil, usagef("eval: --episodes 0: a set has at least one")
	}
	task, err := envs.Lookup(*f.task)
	if err != nil {
		return nil, usagef("eval: %v", err)
	}
	s, err := f.settings.read(*f.solver, *f.tier, *f.sets)
	return &evaluation{settings: s, task: task, out: *f.out, workers: orCores(*f.workers)}, err
}

// tune chooses mppi's temperature where it is to be tuned: with the baseline's
// checkpoint, or as it was chosen before, of which the folder keeps one.
func (e *evaluation) tune(ctx context.Context, c *command, arm eval.Arm, may bool) error {
	if !arm.Plans() || !e.plansWith(eval.MPPI) || !e.temperature.NeedsTuning() {
		return nil
	}
	choice, err := e.lastChoice(arm)
	if errors.Is(err, fs.ErrNotExist) && may {
		choice, err = e.choose(ctx, c, arm)
	}
	if err == nil {
		e.temperature = e.temperature.Chosen(choice)
	}
	return err
}

// show runs all jobs of an arm, goes on when one fails, and prints the figures.
func (e *evaluation) show(ctx context.Context, c *command, arm eval.Arm, asJSON bool) error {
	jobs, err := e.jobs(arm)
	if err != nil {
		return err
	}
	scores, failed := []score{}, []string{} // empty lists in JSON, never null
	for i, j := range jobs {
		cells, bad, err := e.run(ctx, c, j, i == 0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", label(j), err))
		}
		for _, b := range bad {
			failed = append(failed, fmt.Sprintf("%s %s: %v", label(j), b.Set, b.Err))
		}
		if len(cells) > 0 {
			scores = append(scores, newScore(cells))
		}
	}
	if asJSON {
		err = c.printJSON(map[string]any{"cells": scores, "failed": failed, "render_error": e.gate.Error})
	} else if len(scores) > 0 {
		err = printScores(c.stdout, scores)
	}
	return failures(failed, err)
}

// verify runs a sample of an arm's cells again and says which came out the same.
func (e *evaluation) verify(ctx context.Context, c *command, arm eval.Arm, n int, asJSON bool) error {
	jobs, err := e.jobs(arm)
	if err != nil {
		return err
	}
	verdicts, err := eval.Verify(ctx, e.store(), jobs, n)
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
