package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/remote"
	"scalewm/envs"
	"scalewm/eval/analysis"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

func init() {
	register(verb{name: "reproduce", summary: "the whole grid: data sets, trainings, evaluations, report; goes on where it stopped",
		example: "scalewm reproduce --preset nano --tasks tworoom --out out/demo\n" +
			"scalewm reproduce --preset nano --tasks tworoom --out out/demo --dry-run", run: runReproduce})
}

// gridFlags are the axes of the grid, as texts.
type gridFlags struct {
	preset                                                            presetFlags
	tasks, methods, seeds, solvers, tiers, sets, analyses, q, weights *string
	episodes                                                          *int
	rollouts                                                          rolloutFlags
	rules                                                             ruleFlags
	batch                                                             *int
}

// usualMethods are the arms of a run that names none.
var usualMethods = strings.Join(model.MethodNames(model.Method.Usual), ",")

func (c *command) gridFlags() gridFlags {
	return gridFlags{
		preset:   c.presetFlags("nano", ""),
		tasks:    c.String("tasks", "", "`tasks`, with commas, or all; without the flag the preset's, or else all"),
		methods:  c.String("methods", "", "`arms` instead of the preset's (or else "+usualMethods+"), with commas: of lewm, scale, aux, dinowm (which needs --backbone), dinowm-random, and the floors untrained and random"),
		seeds:    c.String("seeds", "", "training `seeds` instead of the preset's (or else 3072), with commas"),
		q:        c.String("q", "", "task `states`, with commas, that scale and aux see instead of the preset's: full, half, native; each is an arm, scale@half"),
		weights:  c.String("scale-weight", "", "`weights`, with commas, of scale's own loss term instead of the preset's; each is an arm, scale@w=0.3"),
		solvers:  c.String("solvers", "", "`planners` instead of the preset's, with commas, or all"),
		tiers:    c.String("tiers", "", "compute `tiers` instead of the preset's, with commas, or all"),
		sets:     c.String("sets", "", "evaluation `sets` instead of the preset's, with commas, or all"),
		episodes: c.Some("episodes", 0, "`episodes` of a set instead of the preset's; a task's cap in the preset holds"),
		analyses: c.String("analyses", "", "`analyses` of each checkpoint instead of the preset's, with commas, all or none"),
		rollouts: c.rolloutFlags(),
		rules:    c.ruleFlags(),
		batch:    c.batchFlag(),
	}
}

// presetFlags say which preset, and what is changed in it.
type presetFlags struct {
	name    *string
	changes *texts
}

func (c *command) presetFlags(name, what string) presetFlags {
	f := presetFlags{c.String("preset", name, "`name` of a preset (nano, laptop, small, paper) or path of a .toml file"+what), new(texts)}
	c.Var(f.changes, "set", "`KEY=VALUE` instead of the preset's, as in train.lr=1e-3; may be given several times")
	return f
}

func (f presetFlags) load() (*pipeline.Preset, error) {
	p, err := pipeline.LoadPreset(*f.name, *f.changes...)
	if err != nil {
		return nil, err
	}
	known := append(envs.Names(), dataset.NoTask)
	for _, task := range p.TasksNamed() {
		if !slices.Contains(known, task) {
			return nil, usagef("the preset %s has values for a task %q, which there is not%s", *f.name, task, pipeline.Nearest(task, known))
		}
	}
	return p, nil
}

func runReproduce(ctx context.Context, c *command, args []string) error {
	axes := c.gridFlags()
	stage := c.String("stage", "", "only the `stage` collect, train, eval, analyse or report; what an earlier one should have made is not made")
	shard := c.String("shard", "", "only the part `i/n` of the work; the task arrays of Slurm and Kubernetes are recognised")
	limit := c.Count("restarts", 0, "how `often` in a row SIGUSR1 may stop this job without a new cell or checkpoint before it fails; 0 is no bound")
	out := c.String("out", "", "results `folder`: data/, train/, sets/, cells/, watch/ and report.html")
	workers := c.Count("workers", 0, "`goroutines` that simulate and read; 0 is one a core (no result depends on it)")
	store := c.String("remote", "", "`address` s3://BUCKET/PREFIX of a store that machines share which have no folder in common; credentials as other S3 programs take them")
	features := c.featureFlags()
	breakLock := c.breakLockFlag()
	dry := c.dryFlags()
	watch := c.Bool("watch", false, "show how a run on any machines comes along; makes nothing")
	asJSON := c.Bool("json", false, "print one JSON object")
	jobs := c.submitFlags()
	dev := c.deviceFlags("bf16 in training where the machine has it, under nano in evaluation too")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := cmp.Or(c.required("out"), jobs.check(c), c.together(*dry.run, *watch, *asJSON, *jobs.engine != "")); err != nil {
		return err
	}
	grid, err := axes.grid()
	if err != nil {
		return err
	}
	if !slices.Contains(grid.Analyses, results.RolloutAnalysis) {
		if err := c.meaningless("without --analyses rollout", rolloutFlagNames...); err != nil {
			return err
		}
	}
	part, err := parsePart(*stage, *shard)
	if err != nil {
		return usagef("reproduce: %v", err)
	}
	o := pipeline.Options{Workers: orCores(*workers), Batch: *axes.batch, BreakLock: *breakLock, Version: version(), Spawn: spawnSelf(), Listener: &teller{command: c}}
	if o.Backbone, o.FeatureCache, err = features.read(grid.Methods...); err != nil {
		return err
	}
	if o.Remote, err = openRemote(ctx, *store); err != nil {
		return err
	}
	if *jobs.engine != "" && !*dry.run || *watch { // which make nothing here
		part.stage = pipeline.StageReport
	}
	closeAll, err := dev.openFor(&grid, &o, part)
	defer closeAll()
	if err != nil {
		return err
	}
	w := pipeline.NewWorkspace(grid, *out, o)
	defer w.Close()
	for _, gap := range grid.WithoutQ() {
		o.Listener.Note(gap)
	}
	steps := part.of(w.Graph())
	if *jobs.engine != "" || *dry.run {
		err = w.Pull(ctx, w.Graph())
	}
	switch {
	case err != nil:
		return err
	case *dry.run:
		return c.dryRun(ctx, w, steps, dry, jobs, *asJSON)
	case *jobs.engine != "":
		return c.submit(ctx, jobs, w, *out)
	case *watch:
		return c.watch(ctx, w, *out, *asJSON)
	}
	if err = steps.Check(ctx); err == nil {
		err = grid.Preset.WriteTo(*out)
	}
	if err != nil {
		return err
	}
	bound := newRestarts(ctx, steps, *out, part.job(), *limit)
	return bound.after(ctx, c.reproduce(ctx, steps, w, *asJSON))
}

// together refuses flags that mean nothing beside those that say what a run does.
func (c *command) together(dry, watch, asJSON, submit bool) (err error) {
	switch {
	case watch:
		err = c.meaningless("with --watch", "dry-run", "measure", "verbose", "submit", "stage", "shard", "restarts", "break-lock")
	case !dry:
		err = c.meaningless("without --dry-run", "measure", "verbose")
	case asJSON:
		err = c.meaningless("with --json, which has no list of units", "verbose")
	}
	if err == nil && submit && !dry {
		err = c.meaningless("with --submit, which prints the jobs' names", "json")
	}
	return err
}

// reproduce runs the steps, prints the results and lists what failed.
func (c *command) reproduce(ctx context.Context, steps pipeline.Graph, w *pipeline.Workspace, asJSON bool) error {
	failed, err := w.Run(ctx, steps)
	if err != nil {
		return err
	}
	for _, s := range pipeline.Of[*pipeline.Report](steps) {
		if s.Page != nil {
			showReport(c.stdout, s.Page, s.Path)
		}
	}
	scores := steps.Scores()
	switch {
	case asJSON:
		err = c.printJSON(map[string]any{"cells": scores, "failed": failed})
	case len(scores) > 0:
		err = printScores(c.stdout, scores)
	}
	return failures(failed, err)
}

// dryFlags say what is told instead of done.
type dryFlags struct{ run, measure, verbose *bool }

func (c *command) dryFlags() dryFlags {
	return dryFlags{
		run:     c.Bool("dry-run", false, "say what is there and what would be done"),
		measure: c.Bool("measure", false, "with --dry-run: time a few episodes, training steps, plans and analyses, and say how long the rest takes"),
		verbose: c.Bool("verbose", false, "with --dry-run: list every unit"),
	}
}

// openRemote opens the store of an address; there is none without one.
func openRemote(ctx context.Context, address string) (*remote.Store, error) {
	if address == "" {
		return nil, nil
	}
	if err := remote.CheckAddress(address); err != nil {
		return nil, usagef("reproduce: --remote %v", err)
	}
	return remote.Open(ctx, address)
}

// dryRun says what is there and what would be done.
func (c *command) dryRun(ctx context.Context, w *pipeline.Workspace, steps pipeline.Graph, f dryFlags, jobs submitFlags, asJSON bool) (err error) {
	var rates *pipeline.Rates
	if *f.measure {
		if rates, err = w.Measure(ctx); err != nil {
			return err
		}
	}
	forecast, err := steps.DryRun(ctx, rates, func(id string, s pipeline.State) {
		if *f.verbose && !asJSON {
			c.say(id, s.Text)
		}
	})
	if err != nil {
		return err
	}
	if *jobs.engine != "" && rates != nil {
		plan, _, err := jobs.plan(c, steps)
		if err != nil {
			return err
		}
		takes := plan.Seconds(forecast.Stages)
		forecast.Jobs = &takes
	}
	if asJSON {
		return c.printJSON(forecast)
	}
	return forecast.Print(c.stdout)
}

// say prints a line about a step: "train     tworoom lewm s3072: done".
func (c *command) say(id, what string) {
	kind, name, named := strings.Cut(id, " ")
	if named {
		name += ": "
	}
	fmt.Fprintf(c.stdout, "%-9s %s%s\n", kind, name, what)
}

// grid reads the axes; what the flags leave open the preset says.
func (f gridFlags) grid() (g pipeline.Grid, err error) {
	preset, err := f.preset.load()
	if err != nil {
		return g, err
	}
	or := func(flag string, preset []string, otherwise ...string) string {
		return cmp.Or(flag, strings.Join(preset, ","), strings.Join(otherwise, ","))
	}
	g.Preset, g.Episodes = *preset, *f.episodes
	p, axes := g.Preset.Eval, g.Preset.Grid
	if *f.tiers != "" { // for every solver
		g.Preset.Eval.TiersOf = nil
	}
	if g.Episodes == 0 {
		g.Episodes = p.Episodes
	}
	rules := ruleFlags{}
	maps.Copy(rules, p.Rules)
	if axes.Protocol != "" {
		rules["protocol"] = axes.Protocol
	}
	maps.Copy(rules, f.rules)
	tasks := or(*f.tasks, axes.Tasks, "all")
	if tasks == "all" {
		tasks = strings.Join(envs.Names(), ",")
	}
	var errs [7]error
	g.Rules, errs[0] = pipeline.ReadRules(rules)
	g.Axes, errs[1] = pipeline.ParseAxes(or(*f.solvers, p.Solvers), or(*f.tiers, p.Tiers), or(*f.sets, p.Sets))
	g.Analyses, errs[2] = analysis.Parse(cmp.Or(*f.analyses, strings.Join(p.Analyses, ","), "none"))
	g.Rollouts, errs[3] = f.rollouts.read()
	g.Tasks, errs[4] = parseList(strings.Split(tasks, ","), envs.Lookup)
	g.Methods, errs[5] = parseList(strings.Split(or(*f.methods, axes.Methods, usualMethods), ","), parseMethod)
	g.Seeds, errs[6] = parseList(strings.Split(or(*f.seeds, axes.Seeds, "3072"), ","), parseSeed)
	if errs[2] != nil {
		errs[2] = usagef("reproduce: %v", errs[2])
	}
	if err := cmp.Or(errs[:]...); err != nil {
		return g, err
	}
	if *f.q != "" {
		g.Qs, err = parseList(strings.Split(*f.q, ","), func(q string) (string, error) {
			if !slices.ContainsFunc(g.Tasks, func(t envs.Task) bool { return pipeline.HasQ(t, q) }) {
				return "", fmt.Errorf("none of the tasks has --q %s (`scalewm tasks` lists what they have)", q)
			}
			return q, nil
		})
	}
	if err == nil && *f.weights != "" {
		g.ScaleWeights, err = parseList(strings.Split(*f.weights, ","), parseWeight)
	}
	if err == nil {
		err = g.Check()
	}
	return g, err
}

// parseWeight reads the weight of a loss term.
func parseWeight(text string) (float64, error) {
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || !(w > 0 && w <= math.MaxFloat32) {
		return 0, fmt.Errorf("--scale-weight %s: it must be a positive number", text)
	}
	return w, nil
}

// parseMethod looks a method up and suggests another where there is none.
func parseMethod(name string) (model.Method, error) {
	m, err := model.LookUp(name)
	if err != nil {
		return m, fmt.Errorf("%w%s", err, pipeline.Nearest(name, model.MethodNames(nil)))
	}
	return m, nil
}

// parseList reads the entries of a flag. What one that comes twice stands for is
// listed once in the graph.
func parseList[T any](words []string, parse func(string) (T, error)) (out []T, err error) {
	for _, word := range words {
		v, err := parse(word)
		if err != nil {
			return nil, usagef("reproduce: %v", err)
		}
		out = append(out, v)
	}
	return out, nil
}

// part is what of a grid one command does: all, a stage, a shard of either.
type part struct {
	stage pipeline.Stage // "": all
	shard cell.Shard
}

func parsePart(stage, shard string) (p part, err error) {
	if p.shard, err = parseShard(shard); err == nil && stage != "" {
		p.stage, err = pipeline.ParseStage(stage)
	}
	if p.stage == pipeline.StageReport && p.shard.N > 1 {
		err = errors.New("--stage report has no shards (hint: leave out --shard)")
	}
	return p, err
}

func (p part) of(g pipeline.Graph) pipeline.Graph {
	if p.stage == "" {
		return g.Shard(p.shard)
	}
	return g.Stage(p.stage, p.shard)
}

// job names the part in a file's name.
func (p part) job() string {
	return fmt.Sprintf("%s-%d-%d", cmp.Or(p.stage, "all"), p.shard.I, max(p.shard.N, 1))
}

// does says whether the part makes what these stages make.
func (p part) does(stages ...pipeline.Stage) bool {
	return p.stage == "" || slices.Contains(stages, p.stage)
}

// openFor opens the devices that a part of a grid computes on. Stages without
// any run on machines without a GPU.
func (f deviceFlags) openFor(g *pipeline.Grid, o *pipeline.Options, p part) (closeAll func(), err error) {
	var open []device.Device
	use := func(at *device.Device, needed, wantBF16 bool) {
		if err != nil || !needed {
			return
		}
		var d device.Device
		if d, err = f.open(wantBF16); err == nil {
			*at, open = d, append(open, d)
		}
	}
	g.Precision = *f.precision
	unknown := g.Precision == "auto" // what the evaluations were made with
	use(&o.Trainer, p.does(pipeline.StageTrain), true)
	use(&o.Planner, p.does(pipeline.StageTrain, pipeline.StageEval) || unknown, g.Preset.Eval.Precision == device.BF16)
	use(&o.Analyser, p.does(pipeline.StageAnalyse) && len(g.Analyses) > 0, false)
	if o.Planner != nil {
		g.Precision = string(o.Planner.Kind().Precision)
	}
	return func() {
		for _, d := range open {
			d.Close()
		}
	}, err
}

// parseShard reads the flag, or what a batch system says where there is none.
func parseShard(flag string) (cell.Shard, error) {
	if flag == "" {
		return cell.ShardFromEnv()
	}
	return cell.ParseShard(flag)
}
