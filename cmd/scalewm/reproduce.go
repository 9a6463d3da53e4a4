package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/model/device"
	"scalewm/model/train"
)

func init() {
	register(verb{name: "reproduce", summary: "the whole grid: data sets, trainings, evaluations; goes on where it stopped",
		example: "scalewm reproduce --preset nano --tasks tworoom --out out/demo\n" +
			"scalewm reproduce --preset nano --tasks tworoom --out out/demo --dry-run", run: runReproduce})
}

// reproduction is one grid and what is known of it so far.
type reproduction struct {
	*command
	preset   *Preset
	out      string
	protocol string
	methods  []string
	seeds    []int64
	sets     []string
	tiers    string
	solvers  []string
	workers  int
	shard    cell.Shard
	dry      bool

	trainer, planner device.Device
	arms             int // counted over all tasks, for the shards
	scores           []score
	failed           []string
}

func runReproduce(ctx context.Context, c *command, args []string) error {
	preset := c.String("preset", "nano", "`name` of a preset (nano, small, paper) or path of a .toml file")
	tasks := c.String("tasks", "all", "`tasks`, with commas, or all")
	methods := c.String("methods", "lewm,scale,aux,untrained,random", "`arms`, with commas: lewm, scale, aux, and the floors untrained and random")
	seeds := c.String("seeds", "3072", "training `seeds`, with commas")
	solvers := c.String("solvers", "", "`planners` instead of the preset's, with commas")
	tiers := c.String("tiers", "", "compute `tiers` instead of the preset's, with commas, or all")
	sets := c.String("sets", "", "evaluation `sets` instead of the preset's, with commas, or all")
	protocol := c.String("protocol", string(eval.Paper), "`rules`: paper or strict")
	out := c.String("out", "", "results `folder`: data/, train/, cells/, watch/")
	workers := c.Int("workers", 0, "`goroutines` that simulate and read; 0 is one a core (no result depends on it)")
	shard := c.String("shard", "", "only the part `i/n` of the arms; the task arrays of Slurm and Kubernetes are recognised")
	dry := c.Bool("dry-run", false, "say what is there and what would be done")
	asJSON := c.Bool("json", false, "print one JSON object")
	dev := c.deviceFlags("bf16 in training where the machine has it, under nano in evaluation too")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if *out == "" {
		return usagef("reproduce needs --out (`scalewm reproduce --help` shows an example)")
	}
	r := &reproduction{command: c, out: *out, protocol: *protocol, workers: orCores(*workers), dry: *dry, methods: strings.Split(*methods, ","),
		scores: []score{}, failed: []string{}} // empty lists in JSON, never null
	var err error
	if r.preset, err = LoadPreset(*preset); err != nil {
		return err
	}
	names, err := taskNames(*tasks)
	if err != nil {
		return err
	}
	if err := r.choose(*solvers, *tiers, *sets, *seeds, *shard); err != nil {
		return err
	}
	if err := r.open(dev); err != nil {
		return err
	}
	defer r.close()
	if !r.dry {
		if err := r.preset.writeTo(*out); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := r.task(ctx, name); err != nil {
			return err
		}
	}
	return r.finish(*asJSON)
}

// choose takes what the flags leave open from the preset.
func (r *reproduction) choose(solvers, tiers, sets, seeds, shard string) (err error) {
	or := func(flag string, preset []string) string {
		if flag != "" {
			return flag
		}
		return strings.Join(preset, ",")
	}
	r.tiers, r.solvers = or(tiers, r.preset.Eval.Tiers), strings.Split(or(solvers, r.preset.Eval.Solvers), ",")
	if r.sets, err = (&evaluation{}).choose(r.protocol, r.solvers, r.tiers, or(sets, r.preset.Eval.Sets)); err != nil {
		return err
	}
	known := append(train.Methods(), train.Untrained, randomArm.Method)
	for _, m := range r.methods {
		if !slices.Contains(known, m) {
			return usagef("reproduce: unknown method %q%s; there are %s", m, nearest(m, known), strings.Join(known, ", "))
		}
	}
	for s := range strings.SplitSeq(seeds, ",") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return usagef("reproduce: seed %q is not a whole number", s)
		}
		r.seeds = append(r.seeds, n)
	}
	if shard == "" {
		r.shard, err = cell.ShardFromEnv()
	} else {
		r.shard, err = cell.ParseShard(shard)
	}
	if err != nil {
		return usagef("reproduce: %v", err)
	}
	return nil
}

// open starts the devices of training and of planning.
func (r *reproduction) open(f deviceFlags) (err error) {
	if r.trainer, err = f.open(true); err != nil {
		return err
	}
	r.planner, err = f.open(r.preset.Name == "nano")
	return err
}

func (r *reproduction) close() {
	for _, d := range []device.Device{r.trainer, r.planner} {
		if d != nil {
			d.Close()
		}
	}
}

// finish prints the results and lists what failed.
func (r *reproduction) finish(asJSON bool) error {
	var err error
	switch {
	case asJSON:
		err = r.printJSON(map[string]any{"cells": r.scores, "failed": r.failed})
	case len(r.scores) > 0:
		err = printScores(r.stdout, r.scores)
	}
	return failures(r.failed, err)
}
