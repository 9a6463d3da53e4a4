package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"scalewm/eval"
	"scalewm/eval/pipeline"
	"scalewm/model"
	"scalewm/model/device"
)

func init() {
	register(verb{name: "eval", summary: "evaluate a checkpoint by planning on the evaluation sets",
		example: "scalewm eval --task tworoom --weights runs/scale-3072 --data tworoom.h5 --tier T1,T5 --out results\n" +
			"scalewm eval --task tworoom --random --data tworoom.h5 --out results\n" +
			"scalewm eval --task tworoom --weights runs/scale-3072 --data tworoom.h5 --tier T5 --out results --verify 3", run: runEval})
}

// replacedHelp describes the components of a search that can be replaced.
const replacedHelp = "oracle-state (no model: the simulator, and the distance of task states), oracle-latent (the simulator's frames), oracle-probe (a probe of them), " +
	"probe (a probe of predicted latents), whiten or topk=K (another metric of latents); with a method, an arm such as probe@lewm"

// runEval evaluates one checkpoint, or random actions, with each solver at each tier
// on the evaluation sets, one cell per combination.
//
// It computes only cells that are missing in --out, so that the same command resumes
// after an interrupt, and prints the success rates of all. Cells that exist are
// reused with a note on stderr. Sets that fail are listed and give exitIncomplete.
// With --verify it computes some existing cells again instead and writes nothing;
// cells that differ give exitIncomplete.
//
// Stdout has a table of success rates, or with --json one pipeline.Evaluated: the
// scores ("cells"), the failures ("failed") and the result of the render gate
// ("render_error").
func runEval(ctx context.Context, c *command, args []string) error {
	r := pipeline.Request{Settings: c.ruleFlags()}
	c.StringVar(&r.Task, "task", "", "`name` of the task (see `scalewm tasks`)")
	weights := c.String("weights", "", "`folder` of the checkpoint: written by train (a policy acts without a search), or a published one with weights.pt and config.json")
	key := c.keyFlag()
	proposal := c.String("proposal", "", "`folder` of a policy that was trained on the latents of the checkpoint; searches begin from its plan")
	replace := c.String("replace", "", "replace a `component` of the search: "+replacedHelp)
	random := c.Bool("random", false, "evaluate uniform random actions instead of a checkpoint")
	c.StringVar(&r.Data, "data", "", "data set with the starts and goals, an HDF5 `file`")
	c.StringVar(&r.Solver, "solver", "", "comma-separated `solvers`: "+strings.Join(eval.Solvers(), ", ")+", or all (the first three); default: the protocol's, or cem")
	c.StringVar(&r.Tier, "tier", "", "comma-separated planning budgets (`tiers`): T1 to T5, T2p, all, or candidates/iterations/elites such as 50/10/5; default: the protocol's, or all")
	c.StringVar(&r.Sets, "sets", "", "comma-separated evaluation `sets`: s101 to s106, all, s and another seed, or set files; default: the protocol's, or all")
	episodes := c.Positive("episodes", 0, "use `n` episodes per set; default: the protocol's number, or 100")
	c.StringVar(&r.Out, "out", "", "results `folder` to write cells/, sets/ and watch/ in")
	workers := c.Count("workers", 0, "use `n` goroutines to simulate; 0 means one per core (results do not depend on it)")
	batch := c.batchFlag()
	verify := c.Positive("verify", 0, "run `n` of the existing cells in --out again and compare; write nothing")
	dev := c.deviceFlags("fp32")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.required("task", "data", "out"); err != nil {
		return err
	}
	oracle := *replace == model.OracleState
	if (*weights == "") != (*random || oracle) || *random && *replace != "" {
		return usagef("eval needs one of --weights DIR, --random and --replace %s", model.OracleState)
	}
	if *weights == "" {
		if err := c.noEffect("without --weights", "key", "proposal"); err != nil {
			return err
		}
	}
	var replaced model.Replacement
	if oracle {
		replaced = model.MethodOf(model.OracleState).Replaced
	} else if *replace != "" {
		var err error
		if replaced, err = model.ParseReplacement(*replace); err != nil {
			return usagef("eval: --replace: %v", err)
		}
	}
	r.Episodes, r.Workers, r.Batch = *episodes, orAllCores(*workers), *batch
	// Parse everything before the device is opened: mistakes are cheap to report.
	e, err := r.Evaluation(version(), &listener{command: c, quiet: true, step: "tuning mppi on " + r.Task})
	if err != nil {
		return err
	}
	// The subject: random actions need neither a device nor weights.
	who := pipeline.Subject{Name: *weights, Arm: eval.Arm{Method: model.Random}}
	var d device.Device
	if !*random {
		if d, err = dev.open(false); err != nil {
			return err
		}
		defer d.Close()
		// The precision is part of the cells' specs, so it must be the resolved one.
		e.Precision = string(d.Kind().Precision)
	}
	if oracle {
		who = pipeline.Subject{Name: model.OracleState, Arm: eval.Arm{Method: model.OracleState}, Agent: eval.NewOracle(d, e.Task, e.Rules)}
	} else if !*random {
		if who.Arm, err = pipeline.ArmOf(*weights, *key, e.Task); err == nil {
			who.Arm, err = pipeline.Proposing(who.Arm, *proposal, e.Task)
		}
		if err != nil {
			return err
		}
		agent, side, err := pipeline.Load(d, *weights, *key, *proposal)
		if err != nil {
			return err
		}
		defer agent.Free()
		c.noteWeights(*weights, side)
		who.Agent = agent
	}
	who.Replaced = replaced
	// Verify instead of evaluating: nothing is written.
	if *verify > 0 {
		verdicts, err := e.Verify(ctx, who, *verify)
		if err != nil {
			return err
		}
		return c.printVerdicts(verdicts, *asJSON)
	}
	out, err := e.Run(ctx, who)
	if err != nil {
		return err
	}
	// The scores of the cells that exist are printed even if others failed.
	if *asJSON {
		err = c.printJSON(out)
	} else if len(out.Cells) > 0 {
		err = printScores(c.stdout, out.Cells)
	}
	return failures(out.Failed, err)
}

// printVerdicts prints which of the verified cells were reproduced. Cells that differ
// give exitIncomplete.
func (c *command) printVerdicts(verdicts []eval.Verdict, asJSON bool) (err error) {
	failed := []string{}
	for _, v := range verdicts {
		state := "same " + v.Compare // "same bytes" or "same outcomes"
		if !v.Same {
			state = "differs: " + v.Differs
			failed = append(failed, fmt.Sprintf("cell %s (%s): %s", v.ID, v.Unit, v.Differs))
		}
		if v.StoredOn != v.RunOn {
			state += fmt.Sprintf(" (made on %s, run on %s)", v.StoredOn, v.RunOn)
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

// failures returns err or, if units failed, an error that lists them
// (exitIncomplete).
func failures(failed []string, err error) error {
	if err != nil || len(failed) == 0 {
		return err
	}
	return fmt.Errorf("%w:\n  %s", errFailedCells, strings.Join(failed, "\n  "))
}

// orAllCores returns n, or the number of usable cores if n is 0.
func orAllCores(n int) int {
	if n < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
