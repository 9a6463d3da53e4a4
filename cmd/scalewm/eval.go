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

func runEval(ctx context.Context, c *command, args []string) error {
	r := pipeline.Request{Settings: c.ruleFlags()}
	c.StringVar(&r.Task, "task", "", "`name` of the task (`scalewm tasks`)")
	weights := c.String("weights", "", "the checkpoint: a `folder` that train wrote, or a published one with weights.pt and config.json")
	random := c.Bool("random", false, "evaluate uniform random actions instead of a checkpoint")
	c.StringVar(&r.Data, "data", "", "the data set that starts and goals come from, a `file` in HDF5")
	c.StringVar(&r.Solver, "solver", results.CEM, "`planners`, with commas: "+strings.Join(eval.Solvers(), ", ")+", or all (the first three)")
	c.StringVar(&r.Tier, "tier", "all", "compute `tiers`, with commas: T1 to T5, T2p, or all")
	c.StringVar(&r.Sets, "sets", "all", "evaluation `sets`, with commas: s101 to s106, all, or files of sets")
	episodes := c.Some("episodes", 100, "`episodes` of a set")
	c.StringVar(&r.Out, "out", "", "results `folder`: cells go to its cells/, sets to its sets/, films to its watch/")
	workers := c.Count("workers", 0, "`goroutines` that simulate; 0 is one a core (the cells do not depend on it)")
	batch := c.batchFlag()
	verify := c.Some("verify", 0, "run this many of the `cells` in --out again and compare, instead of making any")
	dev := c.deviceFlags("fp32")
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.required("task", "data", "out"); err != nil {
		return err
	}
	if (*weights == "") != *random {
		return usagef("eval needs either --weights DIR or --random")
	}
	r.Episodes, r.Workers, r.Batch = *episodes, orCores(*workers), *batch
	e, err := r.Evaluation(version(), &teller{command: c, quiet: true, step: "tuning mppi on " + r.Task})
	if err != nil {
		return err
	}
	who := pipeline.Subject{Name: *weights, Arm: eval.Arm{Method: model.Random}}
	if !*random {
		d, err := dev.open(false)
		if err != nil {
			return err
		}
		defer d.Close()
		e.Precision = string(d.Kind().Precision)
		if who.Arm, err = pipeline.ArmOf(*weights, e.Task); err != nil {
			return err
		}
		if who.World, _, err = model.Load(d, *weights); err != nil {
			return err
		}
		defer who.World.Free()
	}
	if *verify > 0 {
		verdicts, err := e.Verify(ctx, who, *verify)
		if err != nil {
			return err
		}
		return c.verified(verdicts, *asJSON)
	}
	out, err := e.Run(ctx, who)
	if err != nil {
		return err
	}
	if *asJSON {
		err = c.printJSON(out)
	} else if len(out.Cells) > 0 {
		err = printScores(c.stdout, out.Cells)
	}
	return failures(out.Failed, err)
}

// verified says which cells that were run again came out the same.
func (c *command) verified(verdicts []eval.Verdict, asJSON bool) (err error) {
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
