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
)

func init() {
	register(verb{name: "collect", args: "TASK", summary: "let a policy act in a task and write a data set",
		example: "scalewm collect tworoom --out tworoom.h5 --episodes 200 --seed 1", run: runCollect})
}

// switches is a repeatable flag NAME=VALUE.
type switches envs.Options

func (s switches) String() string { return "" }

func (s switches) Set(v string) error {
	name, value, ok := strings.Cut(v, "=")
	if !ok || name == "" || value == "" {
		return fmt.Errorf("%q is not NAME=VALUE", v)
	}
	s[name] = value
	return nil
}

// spawnSelf makes the processes of a collection, which are this very program, or
// is nil: goroutines make the same bytes.
func spawnSelf() func(ctx context.Context) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self) }
}

func runCollect(ctx context.Context, c *command, args []string) error {
	out := c.String("out", "", "the `file` to write; finished parts wait in FILE.parts until it is whole")
	episodes := c.Some("episodes", 200, "number of `episodes`")
	policy := c.String("policy", "", "a `name` from `scalewm tasks`; the task's first is the default")
	seed := c.Seed("seed", 1, "`seed` of the episodes")
	workers := c.Count("workers", 0, "`number` of goroutines, or of processes where OpenGL draws in software, at work; 0 is one a core (the file does not depend on it)")
	size := c.Int("size", envs.FrameSize, "edge of the stored frames in `pixels`; only 224, since smaller presets resize when they read")
	sw := switches{}
	c.Var(sw, "switch", "`NAME=VALUE` of a task's switch or factor (NAME=sample draws a factor anew in every episode); repeatable")
	asJSON := c.Bool("json", false, "print one JSON object")
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
		return usagef("collect: task %s has no policy %q%s (hint: one of %s)", pos[0], *policy, pipeline.Nearest(*policy, known), strings.Join(known, ", "))
	}
	spec := collect.Spec{Task: pos[0], Policy: *policy, Episodes: *episodes, Seed: *seed, Switches: envs.Options(sw)}
	if err := spec.Check(); err != nil {
		return usagef("%v", err)
	}
	began, l := time.Now(), &teller{command: c, step: "collecting"}
	res, there, err := pipeline.CollectData(ctx, *out, spec, cell.Shard{}, pipeline.Options{Workers: orCores(*workers), Spawn: spawnSelf(), Listener: l})
	l.line()
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(map[string]any{"out": *out, "episodes": res.Episodes, "rows": res.Rows, "mean_length": res.MeanLen,
			"bytes": res.Bytes, "new_rows": res.NewRows, "seconds": time.Since(began).Seconds(), "already_done": there})
	}
	if there {
		fmt.Fprintf(c.stdout, "%s is there already: %d episodes, %d rows\n", *out, res.Episodes, res.Rows)
		return nil
	}
	fmt.Fprintf(c.stdout, "%s: %d episodes, %d rows (mean length %.1f), %s, %.1f s\n", *out, res.Episodes, res.Rows, res.MeanLen, hdf5.MB(res.Bytes), time.Since(began).Seconds())
	return nil
}
