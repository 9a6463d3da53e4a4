package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/model/device"
	"scalewm/model/train"
)

func init() {
	register(verb{name: "reproduce", summary: "the whole grid: data sets, trainings, evaluations, report; goes on where it stopped",
		example: "scalewm reproduce --preset nano --tasks tworoom --out out/demo\n" +
			"scalewm reproduce --preset nano --tasks tworoom --out out/demo --dry-run", run: runReproduce})
}

// reproduction is one grid and what is known of it so far.
type reproduction struct {
	*command
	settings
	preset   *Preset
	grid     eval.Grid
	out      string
	episodes int // of a set, before the preset's caps
	workers  int
	where    string // how far the list of units has come, for the progress line

	trainer, planner device.Device
	stage            stage
	broken           map[string]bool // tasks and arms of which a unit failed that others need
	scores           []score
	failed           []string
}

// gridFlags are the axes of the grid, as texts.
type gridFlags struct {
	tasks, methods, seeds, solvers, tiers, sets, shard *string
	episodes                                           *int
}

func (c *command) gridFlags() gridFlags {
	return gridFlags{
		tasks:    c.String("tasks", "all", "`tasks`, with commas, or all"),
		methods:  c.String("methods", "lewm,scale,aux,untrained,random", "`arms`, with commas: lewm, scale, aux, and the floors untrained and random"),
		seeds:    c.String("seeds", "3072", "training `seeds`, with commas"),
		solvers:  c.String("solvers", "", "`planners` instead of the preset's, with commas, or all"),
		tiers:    c.String("tiers", "", "compute `tiers` instead of the preset's, with commas, or all"),
		sets:     c.String("sets", "", "evaluation `sets` instead of the preset's, with commas, or all"),
		episodes: c.Count("episodes", 0, "`episodes` of a set instead of the preset's; a task's cap in the preset holds"),
		shard:    c.String("shard", "", "only the part `i/n` of the work; the task arrays of Slurm and Kubernetes are recognised"),
	}
}

func runReproduce(ctx context.Context, c *command, args []string) error {
	preset := c.String("preset", "nano", "`name` of a preset (nano, small, paper) or path of a .toml file")
	axes, how := c.gridFlags(), c.settingFlags()
	out := c.String("out", "", "results `folder`: data/, train/, sets/, cells/, watch/ and report.html")
	workers := c.Count("workers", 0, "`goroutines` that simulate and read; 0 is one a core (no result depends on it)")
	dry := c.Bool("dry-run", false, "say what is there and what would be done")
	asJSON := c.Bool("json", false, "print one JSON object")
	dev := c.deviceFlags("bf16 in training where the machine has it, under nano in evaluation too")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if *out == "" {
		return usagef("reproduce needs --out (`scalewm reproduce --help` shows an example)")
	}
	r := &reproduction{command: c, out: *out, workers: orCores(*workers), broken: map[string]bool{},
		scores: []score{}, failed: []string{}} // empty lists in JSON, never null
	var err error
	if r.preset, err = LoadPreset(*preset); err != nil {
		return err
	}
	if err := r.plan(axes, how); err != nil {
		return err
	}
	if err := r.start(dev); err != nil {
		return err
	}
	defer r.close()
	if *dry {
		return r.dryRun(*asJSON)
	}
	return r.all(ctx, *asJSON)
}

// all does the units of this shard, prints the results and lists what failed.
func (r *reproduction) all(ctx context.Context, asJSON bool) error {
	if err := r.preset.writeTo(r.out); err != nil {
		return err
	}
	defer r.stage.leave()
	units := r.grid.Units()
	for i, u := range units {
		r.where = fmt.Sprintf("[%d/%d] ", i+1, len(units))
		if err := r.do(ctx, u); err != nil {
			return err
		}
	}
	var err error
	switch {
	case asJSON:
		err = r.printJSON(map[string]any{"cells": r.scores, "failed": r.failed})
	case len(r.scores) > 0:
		err = printScores(r.stdout, r.scores)
	}
	return failures(r.failed, err)
}

// plan reads the axes; what the flags leave open the preset says.
func (r *reproduction) plan(f gridFlags, how settingFlags) (err error) {
	or := func(flag string, preset []string) string {
		if flag != "" {
			return flag
		}
		return strings.Join(preset, ",")
	}
	p := r.preset.Eval
	if r.settings, err = how.read(or(*f.solvers, p.Solvers), or(*f.tiers, p.Tiers), or(*f.sets, p.Sets)); err != nil {
		return err
	}
	if r.episodes = *f.episodes; r.episodes == 0 {
		r.episodes = p.Episodes
	}
	g := eval.Grid{Solvers: r.solvers, Methods: once(strings.Split(*f.methods, ",")), Sets: map[string][]string{}, Tuned: r.temperature.NeedsTuning()}
	if g.Tasks, err = taskNames(*f.tasks); err != nil {
		return err
	}
	for _, t := range r.tiers {
		g.Tiers = append(g.Tiers, t.Name)
	}
	for _, t := range g.Tasks {
		g.Sets[t] = r.sets[:atMost(len(r.sets), p.SetsAtMost[t])]
	}
	if err := checkMethods(g.Methods); err != nil {
		return err
	}
	if g.Seeds, err = parseSeeds(*f.seeds); err != nil {
		return err
	}
	if g.Shard, err = parseShard(*f.shard); err != nil {
		return usagef("reproduce: %v", err)
	}
	r.grid = g
	return nil
}

func checkMethods(names []string) error {
	known := append(train.Methods(), train.Untrained, eval.Random)
	for _, m := range names {
		if !slices.Contains(known, m) {
			return usagef("reproduce: unknown method %q%s; there are %s", m, nearest(m, known), strings.Join(known, ", "))
		}
	}
	return nil
}

func parseSeeds(list string) (out []int64, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, usagef("reproduce: seed %q is not a whole number", s)
		}
		out = append(out, n)
	}
	return once(out), nil
}

// once is a list without what came before in it.
func once[T comparable](list []T) (out []T) {
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// parseShard reads the flag, or what a batch system says where there is none.
func parseShard(flag string) (cell.Shard, error) {
	if flag == "" {
		return cell.ShardFromEnv()
	}
	return cell.ParseShard(flag)
}

// taskNames reads the --tasks flag.
func taskNames(list string) ([]string, error) {
	if list == "all" {
		return envs.Names(), nil
	}
	names := once(strings.Split(list, ","))
	for _, name := range names {
		if _, err := envs.Lookup(name); err != nil {
			return nil, usagef("reproduce: %v", err)
		}
	}
	return names, nil
}

// start starts the devices of training and of planning.
func (r *reproduction) start(f deviceFlags) (err error) {
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
