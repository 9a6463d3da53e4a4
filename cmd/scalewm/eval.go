package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"scalewm/envs"
	"scalewm/eval"
)

func init() {
	register(verb{name: "eval", summary: "plan with a checkpoint on the evaluation sets and write a cell for each",
		example: "scalewm eval --task tworoom --weights runs/scale-3072 --data tworoom.h5 --tier T1,T5 --out results\n" +
			"scalewm eval --task tworoom --random --data tworoom.h5 --out results", run: runEval})
}

// evalFlags are the flags that say what is evaluated on what.
type evalFlags struct {
	task, weights, data, solver, tier, sets, protocol, out *string
	random, json                                           *bool
	episodes, workers                                      *int
	dev                                                    deviceFlags
}

func (c *command) evalFlags() evalFlags {
	return evalFlags{
		task:     c.String("task", "", "`name` of the task (`scalewm tasks`)"),
		weights:  c.String("weights", "", "the checkpoint, a `folder` that train wrote"),
		random:   c.Bool("random", false, "evaluate uniform random actions instead of a checkpoint"),
		data:     c.String("data", "", "the data set that starts and goals come from, a `file` in HDF5"),
		solver:   c.String("solver", "cem", "`planner`: "+strings.Join(eval.Solvers(), ", ")),
		tier:     c.String("tier", "all", "compute `tiers`, with commas: T1 to T5, T2p, or all"),
		sets:     c.String("sets", "all", "evaluation `sets`, with commas: s101 to s106, or all"),
		episodes: c.Int("episodes", 100, "`episodes` of a set"),
		protocol: c.String("protocol", string(eval.Paper), "`rules`: paper or strict (held-out episodes only)"),
		out:      c.String("out", "", "results `folder`: cells go to its cells/, films to its watch/"),
		workers:  c.Int("workers", 0, "`goroutines` that simulate; 0 is one a core (the cells do not depend on it)"),
		dev:      c.deviceFlags("fp32"),
		json:     c.Bool("json", false, "print one JSON object"),
	}
}

func runEval(ctx context.Context, c *command, args []string) error {
	f := c.evalFlags()
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	e, sets, err := f.evaluation()
	if err != nil {
		return err
	}
	if err := e.openData(*f.data, sets, *f.episodes); err != nil {
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
	if err := e.jobs(arm)[0].Check(); err != nil {
		return fmt.Errorf("evaluating %s: %w", *f.weights, err)
	}
	diff, err := eval.RenderGate(ctx, e.data)
	if err != nil {
		return err
	}
	scores, failed, err := e.arm(ctx, c, arm)
	if err != nil {
		return err
	}
	if *f.json {
		err = c.printJSON(map[string]any{"cells": scores, "failed": failed, "render_error": diff})
	} else if len(scores) > 0 {
		err = printScores(c.stdout, scores)
	}
	return failures(failed, err)
}

// evaluation checks the flags and says what is to be evaluated.
func (f evalFlags) evaluation() (*evaluation, []string, error) {
	for _, need := range [][2]string{{"task", *f.task}, {"data", *f.data}, {"out", *f.out}} {
		if need[1] == "" {
			return nil, nil, usagef("eval needs --%s (`scalewm eval --help` shows an example)", need[0])
		}
	}
	if (*f.weights == "") != *f.random {
		return nil, nil, usagef("eval needs either --weights DIR or --random")
	}
	task, err := envs.Lookup(*f.task)
	if err != nil {
		return nil, nil, usagef("eval: %v", err)
	}
	e := &evaluation{task: task, out: *f.out, workers: orCores(*f.workers)}
	sets, err := e.choose(*f.protocol, []string{*f.solver}, *f.tier, *f.sets)
	return e, sets, err
}

// choose reads the names of protocol, solvers, tiers and sets.
func (e *evaluation) choose(protocol string, solvers []string, tiers, sets string) ([]string, error) {
	var err error
	if e.protocol, err = eval.ParseProtocol(protocol); err != nil {
		return nil, usagef("%v", err)
	}
	if e.tiers, err = eval.ParseTiers(tiers); err != nil {
		return nil, usagef("%v", err)
	}
	names, err := eval.ParseSets(sets)
	if err != nil {
		return nil, usagef("%v", err)
	}
	if e.solvers, err = eval.ParseSolvers(strings.Join(solvers, ",")); err != nil {
		return nil, usagef("%v", err)
	}
	return names, nil
}

// arm runs all jobs of an arm and goes on when one fails.
func (e *evaluation) arm(ctx context.Context, c *command, arm eval.Arm) ([]score, []string, error) {
	scores, failed := []score{}, []string{} // empty lists in JSON, never null
	for i, j := range e.jobs(arm) {
		cells, bad, err := e.run(ctx, c, j, i == 0)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
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
	return scores, failed, nil
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
