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
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
	"scalewm/model/device"
)

func init() {
	register(verb{name: "reproduce", summary: "run or resume a grid of data sets, trainings and evaluations, with a report",
		example: "scalewm reproduce --preset nano --tasks tworoom --out out/demo\n" +
			"scalewm reproduce --preset nano --tasks tworoom --out out/demo --dry-run", run: runReproduce})
}

// gridFlags are the axes of the grid as strings. Each is empty unless it was given:
// then the preset's value holds. Parsing waits until the preset is loaded, since both
// may name the same things.
type gridFlags struct {
	preset presetFlags
	// Comma-separated lists; q and scale are the variants of methods.
	tasks, methods, proposal, seeds, solvers, tiers, sets, analyses, q, scale *string
	data, given, key                                                          *string // existing data sets and checkpoints
	episodes                                                                  *int    // 0: the preset's
	rollouts                                                                  rolloutFlags
	rules                                                                     ruleFlags
	batch                                                                     *int // see eval.Job
}

// usualMethods are the methods of a grid if neither the flags nor the preset names
// any.
var usualMethods = strings.Join(model.MethodNames(model.Method.Usual), ",")

// gridFlags defines these flags.
func (c *command) gridFlags() gridFlags {
	return gridFlags{
		preset:   c.presetFlags("nano", ""),
		tasks:    c.String("tasks", "", "comma-separated `tasks`, or all (default: the preset's, else all)"),
		methods:  c.String("methods", "", "comma-separated `methods` (default: the preset's, else "+usualMethods+"): lewm, scale, aux, dinowm (needs --backbone), dinowm-random, the floors untrained and random, policies on the latents of one of these, such as gcidm@lewm and gcbc@scale, "+replacedHelp),
		proposal: c.String("proposal", "", "add searches that begin from the plan of a `policy`, such as gcidm@lewm, for the method of its encoder"),
		seeds:    c.String("seeds", "", "comma-separated training `seeds` (default: the preset's, else 3072)"),
		q:        c.String("q", "", "comma-separated task `states` for scale and aux (default: the preset's): full, half, native; each is an arm such as scale@half"),
		scale:    c.String("scale-weight", "", "comma-separated `weights` of scale's loss term (default: the preset's); each is an arm such as scale@w=0.3"),
		data:     c.String("data", "", "use existing `data` sets instead of collecting: a folder of TASK.h5, or TASK=FILE separated by commas"),
		given:    c.String("weights", "", "evaluate existing `checkpoints` instead of training: a folder of TASK-ARM-sSEED folders, or [TASK/]ARM[@sSEED]=FOLDER separated by commas; ours or PyTorch's"),
		key:      c.keyFlag(),
		solvers:  c.String("solvers", "", "comma-separated `solvers`, or all (default: the preset's)"),
		tiers:    c.String("tiers", "", "comma-separated planning budgets (`tiers`), or all (default: the preset's)"),
		sets:     c.String("sets", "", "comma-separated evaluation `sets`, or all (default: the preset's)"),
		episodes: c.Positive("episodes", 0, "use `n` episodes per set (default: the preset's); the preset's caps for slow tasks still apply"),
		analyses: c.String("analyses", "", "comma-separated `analyses` of each checkpoint, all or none (default: the preset's)"),
		rollouts: c.rolloutFlags(),
		rules:    c.ruleFlags(),
		batch:    c.batchFlag(),
	}
}

// presetFlags are --preset, --reading and --set: the name of a preset, and changes of
// its values.
type presetFlags struct {
	name, reading *string
	set           *stringList
}

// presetFlags defines these flags. name is the default preset, and what completes the
// description.
func (c *command) presetFlags(name, what string) presetFlags {
	f := presetFlags{c.String("preset", name, "`name` of a preset ("+strings.Join(pipeline.PresetNames(), ", ")+") or path of a .toml file"+what),
		c.String("reading", "", "`authors` or paper: follow the authors' code or the paper's text wherever they differ (default: the preset's)"), new(stringList)}
	c.Var(f.set, "set", "change a value of the preset, `KEY=VALUE`, for example train.lr=1e-3; repeatable")
	return f
}

// changes returns the values of --set, after that of --reading.
func (f presetFlags) changes() []string {
	if *f.reading == "" {
		return *f.set
	}
	return append([]string{"reading=" + *f.reading}, *f.set...)
}

// load returns the preset with the changes applied. It checks the names of tasks,
// which package pipeline cannot: only this package imports all tasks.
func (f presetFlags) load() (*pipeline.Preset, error) {
	p, err := pipeline.LoadPreset(*f.name, f.changes()...)
	if err != nil {
		return nil, err
	}
	// A mistyped task in a table by task would silently have no effect.
	known := append(envs.Names(), dataset.NoTask)
	for _, task := range p.TasksNamed() {
		if !slices.Contains(known, task) {
			return nil, usagef("the preset %s has values for a task %q, which does not exist%s", *f.name, task, words.Nearest(task, known))
		}
	}
	return p, nil
}

// runReproduce runs a grid, one stage or shard of it, or one of the modes --dry-run,
// --submit and --watch, which compute nothing of the grid here.
//
// Each step of the grid has its result in files below --out, and a step whose files
// exist is done. So the same command resumes after an interrupt or a failure, and
// several shards may run in the same folder. A failed step is reported on stderr at
// once and in the final error; the steps that need it are skipped, all others run,
// and the exit code is exitIncomplete. Stdout has a line per step, the report's
// summary and the success rates.
//
// SIGUSR1 stops a run with exitTimeUp. Job scripts then queue the job again, unless
// --restarts ended it with exitFailed.
func runReproduce(ctx context.Context, c *command, args []string) error {
	axes := c.gridFlags()
	stage := c.String("stage", "", "run only one `stage`: collect, train, eval, analyse or report; fail if results of earlier stages are missing")
	shard := c.String("shard", "", "run only shard `i/n` of the work (default: the array index of a Slurm or Kubernetes job, if any)")
	limit := c.Count("restarts", 0, "fail after SIGUSR1 stopped this job `n` times in a row without a new cell or checkpoint; 0 means never")
	out := c.String("out", "", "results `folder` to write data/, train/, sets/, cells/, watch/ and report.html in")
	workers := c.Count("workers", 0, "use `n` goroutines; 0 means one per core (results do not depend on it)")
	store := c.String("remote", "", "`address` s3://BUCKET/PREFIX of an object store for machines without a shared folder; credentials as for other S3 programs")
	features := c.featureFlags()
	breakLock := c.breakLockFlag()
	dry := c.dryFlags()
	watch := c.Bool("watch", false, "show the progress of a run on any machines; compute nothing")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	jobs := c.submitFlags()
	dev := c.deviceFlags("bf16 for training if the machine supports it, and with the preset nano for evaluation")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := cmp.Or(c.required("out"), jobs.check(c), c.checkCombination(*dry.run, *watch, *asJSON, *jobs.engine != "")); err != nil {
		return err
	}
	grid, err := axes.grid()
	if err != nil {
		return err
	}
	// Only now is it known which analyses the grid has.
	if !slices.Contains(grid.Analyses, results.RolloutAnalysis) {
		if err := c.noEffect("without --analyses rollout", rolloutFlagNames...); err != nil {
			return err
		}
	}
	// The part of the grid that this process runs.
	part, err := parsePart(*stage, *shard)
	if err != nil {
		return usagef("reproduce: %v", err)
	}
	// The resources: object store, backbone, devices. Opening them is slow or may fail, so
	// that all flags were checked before.
	o := pipeline.Options{Workers: orAllCores(*workers), Batch: *axes.batch, BreakLock: *breakLock, Version: version(), Spawn: spawnSelf(), Listener: &listener{command: c}}
	if o.Backbone, o.FeatureCache, err = features.read(*axes.methods == "" || grid.Given != nil, grid.Worlds()...); err != nil {
		return err
	}
	if o.Remote, err = openRemote(ctx, *store); err != nil {
		return err
	}
	// Submitting and watching compute nothing, so that they need no devices: the stage
	// report has none. A dry run may measure, which does need them.
	if *jobs.engine != "" && !*dry.run || *watch {
		part.stage = pipeline.StageReport
	}
	closeAll, err := dev.openFor(&grid, &o, part)
	defer closeAll()
	if err != nil {
		return err
	}
	// The grid in its folder, and the steps of this part.
	w := pipeline.NewWorkspace(grid, *out, o)
	defer w.Close()
	graph, gaps := w.Graph(), append(grid.WithoutQ(), grid.WithoutTiers()...)
	for _, gap := range pipeline.StepsOf[*pipeline.Gap](graph) {
		gaps = append(gaps, gap.Why.Error())
	}
	for _, gap := range slices.Compact(gaps) {
		o.Listener.Note(gap)
	}
	steps := part.of(graph)
	// These read states of steps without running them: first fetch what others computed.
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
	// Find conflicts with the folder before anything is written.
	if err = steps.Check(ctx); err == nil {
		err = grid.Preset.WriteTo(*out)
	}
	if err != nil {
		return err
	}
	// Count restarts without progress around the run itself.
	bound := newRestarts(ctx, steps, *out, part.job(), *limit)
	return bound.check(ctx, c.reproduce(ctx, steps, w, *asJSON))
}

// checkCombination returns a usage error for flags that have no effect in the chosen
// mode.
func (c *command) checkCombination(dry, watch, asJSON, submit bool) (err error) {
	switch {
	case watch:
		err = c.noEffect("with --watch", "dry-run", "measure", "verbose", "submit", "stage", "shard", "restarts", "break-lock")
	case !dry:
		err = c.noEffect("without --dry-run", "measure", "verbose")
	case asJSON:
		err = c.noEffect("with --json, which lists no steps", "verbose")
	}
	if err == nil && submit && !dry {
		err = c.noEffect("with --submit, which prints the jobs' names", "json")
	}
	return err
}

// reproduce runs the steps, prints the report's summary and the scores, and lists
// what failed. With --json the last line is an object with the scores ("cells", one
// per arm, solver and tier) and the failures ("failed", a line each).
func (c *command) reproduce(ctx context.Context, steps pipeline.Graph, w *pipeline.Workspace, asJSON bool) error {
	failed, err := w.Run(ctx, steps)
	if err != nil {
		return err
	}
	// At most one report; none in a shard or in other stages.
	for _, s := range pipeline.StepsOf[*pipeline.Report](steps) {
		if s.Page != nil {
			showReport(c.stdout, s.Page, s.Path)
		}
	}
	scores := steps.Scores()
	switch {
	case asJSON: // the last line of stdout; the lines of the steps come before it
		err = c.printJSON(map[string]any{"cells": scores, "failed": failed})
	case len(scores) > 0:
		err = printScores(c.stdout, scores)
	}
	return failures(failed, err)
}

// dryFlags are --dry-run and the flags that extend it.
type dryFlags struct{ run, measure, verbose *bool }

// dryFlags defines these flags.
func (c *command) dryFlags() dryFlags {
	return dryFlags{
		run:     c.Bool("dry-run", false, "show what exists and what would be done; do nothing"),
		measure: c.Bool("measure", false, "with --dry-run: time a few episodes, training steps, plans and analyses, and estimate how long the run takes"),
		verbose: c.Bool("verbose", false, "with --dry-run: list every step"),
	}
}

// openRemote opens the object store at an address; nil if there is none. A malformed
// address is a usage error, an unreachable server is not.
func openRemote(ctx context.Context, address string) (*remote.Store, error) {
	if address == "" {
		return nil, nil
	}
	if err := remote.CheckAddress(address); err != nil {
		return nil, usagef("reproduce: --remote %v", err)
	}
	return remote.Open(ctx, address)
}

// dryRun prints what exists and what would be done. It runs no step. With --measure
// it times a few episodes, training steps and plans in a temporary folder, and
// estimates the time of all missing work on this machine; with --submit also that of
// the jobs from first to last. With --json it prints a pipeline.Forecast.
func (c *command) dryRun(ctx context.Context, w *pipeline.Workspace, steps pipeline.Graph, f dryFlags, jobs submitFlags, asJSON bool) (err error) {
	var rates *pipeline.Rates
	if *f.measure {
		if rates, err = w.Measure(ctx); err != nil {
			return err
		}
	}
	forecast, err := steps.DryRun(ctx, rates, func(id string, s pipeline.State) {
		if *f.verbose && !asJSON {
			c.printStep(id, s.Text)
		}
	})
	if err != nil {
		return err
	}
	// The jobs' time follows from their number of shards and the longest single unit.
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

// printStep prints a line about a step: "train     tworoom lewm s3072: done".
func (c *command) printStep(id, what string) {
	// The kind is a column of its own width; the report has no further name.
	kind, name, named := strings.Cut(id, " ")
	if named {
		name += ": "
	}
	fmt.Fprintf(c.stdout, "%-9s %s%s\n", kind, name, what)
}

// grid returns the grid that the flags describe. The order of precedence is: flag,
// preset, default. All values are checked here, so that a mistake is found before
// data sets are collected.
func (f gridFlags) grid() (g pipeline.Grid, err error) {
	preset, err := f.preset.load()
	if err != nil {
		return g, err
	}
	// or returns the comma-separated list that takes precedence.
	or := func(flag string, preset []string, otherwise ...string) string {
		return cmp.Or(flag, strings.Join(preset, ","), strings.Join(otherwise, ","))
	}
	g.Preset, g.Episodes = *preset, *f.episodes
	p, axes := g.Preset.Eval, g.Preset.Grid
	// --tiers applies to every solver, including those that the preset restricts.
	if g.TiersChosen = *f.tiers != ""; g.TiersChosen {
		g.Preset.Eval.TiersOf = nil
	}
	if g.Episodes == 0 {
		g.Episodes = p.Episodes
	}
	// Settings from the preset's [eval.rules], then its [grid], then the flags.
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
	var errs [7]error // the first one is reported
	read, err := pipeline.ReadProtocol(rules)
	if err != nil {
		return g, err
	}
	g.Definition = *read
	// What a protocol that is given as a flag fixes precedes the preset.
	var usual protocol.Usual
	if f.rules["protocol"] != "" {
		usual = g.Usual
	}
	if *f.episodes == 0 && usual.Episodes > 0 {
		g.Episodes = usual.Episodes
	}
	if *f.tiers == "" && usual.Tier() != "" {
		p.Tiers, g.Preset.Eval.TiersOf = []string{usual.Tier()}, nil
	}
	if usual.Sets != nil {
		p.Sets = usual.Sets
	}
	if usual.Solver != "" {
		p.Solvers = []string{usual.Solver}
	}
	g.Axes, errs[0] = pipeline.ParseAxes(or(*f.solvers, p.Solvers), or(*f.tiers, p.Tiers), or(*f.sets, p.Sets))
	g.Analyses, errs[1] = analysis.Parse(cmp.Or(*f.analyses, strings.Join(p.Analyses, ","), "none"))
	g.Rollouts, errs[2] = f.rollouts.read()
	g.Tasks, errs[3] = parseList(strings.Split(tasks, ","), envs.Lookup)
	g.Methods, errs[4] = parseList(strings.Split(or(*f.methods, axes.Methods, usualMethods), ","), parseMethod)
	if *f.proposal != "" {
		g.Proposals, errs[6] = parseList(strings.Split(*f.proposal, ","), parseProposal)
	}
	g.Seeds, errs[5] = parseList(strings.Split(or(*f.seeds, axes.Seeds, "3072"), ","), parseSeed)
	if errs[1] != nil {
		errs[1] = usagef("reproduce: %v", errs[1])
	}
	if err := cmp.Or(errs[:]...); err != nil {
		return g, err
	}
	// A state that no task of the grid has is a mistake. A state that only some have gives
	// arms on those tasks; runReproduce notes the others.
	if *f.q != "" {
		g.Qs, err = parseList(strings.Split(*f.q, ","), func(q string) (string, error) {
			if !slices.ContainsFunc(g.Tasks, func(t envs.Task) bool { return pipeline.HasQ(t, q) }) {
				return "", fmt.Errorf("none of the tasks has --q %s (`scalewm tasks` lists what they have)", q)
			}
			return q, nil
		})
	}
	if err == nil && *f.scale != "" {
		g.ScaleWeights, err = parseList(strings.Split(*f.scale, ","), parseWeight)
	}
	if err == nil && *f.data != "" {
		g.Data, err = pipeline.ParseData(*f.data, g.Tasks)
	}
	if err == nil && *f.key != "" && *f.given == "" {
		err = usagef("reproduce: --key has no effect without --weights (hint: leave it out)")
	}
	if err == nil && *f.given != "" {
		g.Given, err = pipeline.ParseGiven(*f.given, *f.key)
	}
	if err == nil {
		err = g.AddFurther(pipeline.Chosen{Solvers: *f.solvers != "", Tiers: *f.tiers != "", Qs: *f.q != ""})
	}
	// Combinations of preset and tasks that cannot work, such as clips longer than episodes.
	if err == nil {
		err = g.Check()
	}
	return g, err
}

// parseWeight parses the weight of a loss term, a positive float32.
func parseWeight(text string) (float64, error) {
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || !(w > 0 && w <= math.MaxFloat32) {
		return 0, fmt.Errorf("--scale-weight %s: it must be a positive number", text)
	}
	return w, nil
}

// parseMethod returns the method of an arm without variants, such as scale, gcidm@scale or
// probe@scale.
func parseMethod(arm string) (model.Method, error) {
	m, err := model.ParseMethod(arm)
	if name, _, on := strings.Cut(arm, "@"); err != nil && !on {
		if _, unknown := lookUpMethod(name); unknown != nil && words.Nearest(name, model.MethodNames(nil)) != "" {
			return m, unknown
		}
	}
	return m, err
}

// lookUpMethod returns the method of a name. The error for an unknown name suggests a
// similar one.
func lookUpMethod(name string) (model.Method, error) {
	m, err := model.LookUp(name)
	if err != nil {
		return m, fmt.Errorf("%w%s", err, words.Nearest(name, model.MethodNames(nil)))
	}
	return m, nil
}

// parseProposal returns the policy of a proposal, such as gcidm@lewm.
func parseProposal(name string) (model.Method, error) {
	m, err := parseMethod(name)
	if err == nil && !m.Policy {
		err = fmt.Errorf("--proposal %s: %s does not answer plans (hint: a policy and its encoder, as in gcidm@%s)", name, m.Name, model.Baseline)
	}
	return m, err
}

// parseList parses the entries of a comma-separated flag. Repeated entries stay: the
// graph lists each step once.
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

// part is the part of a grid that one command runs: all of it, a stage, or a shard of
// either.
type part struct {
	stage pipeline.Stage // "": all stages
	shard cell.Shard
}

// parsePart parses --stage and --shard. The report is a single step and has no
// shards.
func parsePart(stage, shard string) (p part, err error) {
	if p.shard, err = parseShard(shard); err == nil && stage != "" {
		p.stage, err = pipeline.ParseStage(stage)
	}
	if p.stage == pipeline.StageReport && p.shard.N > 1 {
		err = errors.New("--stage report has no shards (hint: leave out --shard)")
	}
	return p, err
}

// of returns the steps of the part.
func (p part) of(g pipeline.Graph) pipeline.Graph {
	if p.stage == "" {
		return g.Shard(p.shard)
	}
	return g.Stage(p.stage, p.shard)
}

// job returns a name of the part for the names of files.
func (p part) job() string {
	return fmt.Sprintf("%s-%d-%d", cmp.Or(p.stage, "all"), p.shard.I, max(p.shard.N, 1))
}

// includes reports whether the part computes results of one of these stages.
func (p part) includes(stages ...pipeline.Stage) bool {
	return p.stage == "" || slices.Contains(stages, p.stage)
}

// openFor opens the devices that a part of a grid computes on, and sets the grid's
// precision to that of planning. Stages that compute nothing run on machines without
// a GPU. The caller calls closeAll in any case.
func (f deviceFlags) openFor(g *pipeline.Grid, o *pipeline.Options, p part) (closeAll func(), err error) {
	var open []device.Device
	// use opens a device for one purpose. Each purpose has its own: precisions differ, and
	// a device belongs to one goroutine at a time.
	use := func(at *device.Device, needed, wantBF16 bool) {
		if err != nil || !needed {
			return
		}
		var d device.Device
		if d, err = f.open(wantBF16); err == nil {
			*at, open = d, append(open, d)
		}
	}
	// The grid's precision is a setting of its evaluations, hence the planner's.
	g.Precision = *f.precision
	// The ids of evaluation cells depend on the precision. If it is not given, only opening
	// the planner's device shows what auto means here.
	unknown := g.Precision == "auto"
	use(&o.Trainer, p.includes(pipeline.StageTrain), true)
	use(&o.Planner, p.includes(pipeline.StageTrain, pipeline.StageEval) || unknown, g.Preset.Eval.Precision == device.BF16)
	use(&o.Analyser, p.includes(pipeline.StageAnalyse) && len(g.Analyses) > 0, false)
	if o.Planner != nil {
		g.Precision = string(o.Planner.Kind().Precision)
		o.Ahead = o.Planner.Kind().Backend == "cuda"
	}
	// A further grid may plan in fp32 where the grid plans in bf16.
	other := slices.IndexFunc(g.Also, func(g pipeline.Grid) bool { return g.Precision != "" })
	if other >= 0 && o.Planner != nil && g.Also[other].Precision != g.Precision {
		f.precision = &g.Also[other].Precision
		use(&o.OtherPlanner, true, false)
	}
	// Called on an error too: the devices opened before it must be closed.
	return func() {
		for _, d := range open {
			d.Close()
		}
	}, err
}

// parseShard parses --shard. Without the flag, the array index of a batch system's
// job determines the shard, so that a job script is a single command.
func parseShard(flag string) (cell.Shard, error) {
	if flag == "" {
		return cell.ShardFromEnv()
	}
	return cell.ParseShard(flag)
}
