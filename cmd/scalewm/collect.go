package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval/pipeline"
	"scalewm/eval/words"
)

func init() {
	register(verb{name: "collect", args: "TASK", summary: "collect a data set with a policy acting in a task",
		example: "scalewm collect tworoom --out tworoom.h5 --episodes 200 --seed 1", run: runCollect})
}

// switches is the value of a repeatable flag NAME=VALUE.
type switches envs.Options

// String implements flag.Value. It returns "", so that the help text shows no
// default.
func (s switches) String() string { return "" }

// Set implements flag.Value. The task checks names and values.
func (s switches) Set(v string) error {
	name, value, ok := strings.Cut(v, "=")
	if !ok || name == "" || value == "" {
		return fmt.Errorf("%q is not NAME=VALUE", v)
	}
	s[name] = value
	return nil
}

// spawnSelf returns a function that makes the command of a worker process of a
// collection: this program with an environment variable set (see main). It returns
// nil if the program's path is unknown; then goroutines collect, with the same
// result.
func spawnSelf() func(ctx context.Context) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	// collect adds the environment variable.
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self) }
}

// runCollect collects a data set. The file depends on the flags only: not on the
// number of workers, nor on interruptions.
//
// Finished parts are files in FILE.parts. The same command resumes with the missing
// ones, and does nothing if FILE exists with the same spec. A different existing file
// is an error; there is no --force. Stdout has one line with the numbers of episodes
// and rows, or one JSON object.
func runCollect(ctx context.Context, c *command, args []string) error {
	out := c.String("out", "", "`file` to write; until it is complete, finished parts are kept in FILE.parts")
	episodes := c.Positive("episodes", 200, "collect `n` episodes")
	policy := c.String("policy", "", "`name` of a policy listed by `scalewm tasks` (default: the task's first)")
	seed := c.Seed("seed", 1, "random `seed` of the episodes")
	workers := c.Count("workers", 0, "use `n` goroutines, or processes if OpenGL renders in software; 0 means one per core (the file does not depend on it)")
	// --size exists for scripts of other programs: any other value is an error that
	// explains where frames are resized.
	// The size is fixed: any other value is an error that explains where frames are resized.
	size := c.Int("size", envs.FrameSize, "edge of the stored frames in `pixels`; must be 224 (models with smaller frames resize when reading)")
	sw := switches{}
	c.Var(sw, "switch", "set a switch or factor of the task, `NAME=VALUE`; NAME=sample draws a factor in every episode; repeatable")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if *out == "" {
		return usagef("collect needs --out FILE.h5")
	}
	if *size != envs.FrameSize {
		return usagef("collect: --size %d: data sets are stored at %d pixels; a preset's image size is set when the set is read", *size, envs.FrameSize)
	}
	task, err := envs.Lookup(pos[0])
	if err != nil {
		return usagef("collect: %v", err)
	}
	if known := task.Spec.Policies; *policy != "" && !slices.Contains(known, *policy) {
		return usagef("collect: task %s has no policy %q%s (hint: one of %s)", pos[0], *policy, words.Nearest(*policy, known), strings.Join(known, ", "))
	}
	// Check the spec before anything is locked or written.
	spec := collect.Spec{Task: pos[0], Policy: *policy, Episodes: *episodes, Seed: *seed, Switches: envs.Options(sw)}
	if err := spec.Check(); err != nil {
		return usagef("%v", err)
	}
	// A single step without a graph: the listener only shows its progress.
	began, l := time.Now(), &listener{command: c, step: "collecting"}
	res, there, err := pipeline.CollectData(ctx, *out, spec, cell.Shard{}, pipeline.Options{Workers: orAllCores(*workers), Spawn: spawnSelf(), Listener: l})
	l.endProgress()
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(map[string]any{"out": *out, "episodes": res.Episodes, "rows": res.Rows, "mean_length": res.MeanLen,
			"bytes": res.Bytes, "new_rows": res.NewRows, "seconds": time.Since(began).Seconds(), "already_done": there})
	}
	if there {
		fmt.Fprintf(c.stdout, "%s already exists: %d episodes, %d rows\n", *out, res.Episodes, res.Rows)
		return nil
	}
	fmt.Fprintf(c.stdout, "%s: %d episodes, %d rows (mean length %.1f), %s, %.1f s\n", *out, res.Episodes, res.Rows, res.MeanLen, hdf5.MB(res.Bytes), time.Since(began).Seconds())
	return nil
}
