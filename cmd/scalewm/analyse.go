package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// The names of the analyses come from package analysis, so that a new one appears in the
// help text by itself.
func init() {
	register(verb{name: "analyse", args: "ANALYSES [OUT]", summary: "measure properties of checkpoints: " + strings.Join(analysis.Names(), ", "),
		example: "scalewm analyse rank,spectrum,probe out/demo\n" +
			"scalewm analyse rollout --weights runs/lewm --weights runs/scale --data tworoom.h5\n" +
			"scalewm analyse all --weights runs/scale --data tworoom.h5 --out results --json", run: runAnalyse})
}

// stringList is the value of a flag that may be given several times.
type stringList []string

// String implements flag.Value.
func (t *stringList) String() string { return strings.Join(*t, ",") }

// Set implements flag.Value: it appends a value.
func (t *stringList) Set(s string) error { *t = append(*t, s); return nil }

// rolloutFlags are the settings of the analysis of rollouts, which the verbs analyse
// and reproduce share.
type rolloutFlags struct {
	starts, candidates *int
	noise              *string
}

// rolloutFlagNames are the names of these flags.
var rolloutFlagNames = []string{"starts", "candidates", "noise"}

// rolloutFlags defines these flags. Their defaults are the published settings.
func (c *command) rolloutFlags() rolloutFlags {
	p := analysis.Published()
	return rolloutFlags{
		starts:     c.Count("starts", p.Starts, "use `n` starts in the analysis rollout"),
		candidates: c.Count("candidates", p.Candidates, "use `n` candidates per start in the analysis rollout"),
		noise:      c.String("noise", p.Noise, "random `generator` of the candidates: torch (PyTorch's, as published) or own"),
	}
}

// read returns the settings that the flags give, or a usage error. A start needs two
// candidates at least: their order is what the analysis measures.
func (f rolloutFlags) read() (s analysis.Settings, err error) {
	s = analysis.Published()
	s.Starts, s.Candidates = *f.starts, *f.candidates
	if s.Starts < 1 || s.Candidates < 2 {
		return s, usagef("--starts %d, --candidates %d: at least one start and two candidates", s.Starts, s.Candidates)
	}
	if s.Noise, err = analysis.ParseNoise(*f.noise); err != nil {
		return s, usagef("%v", err)
	}
	return s, nil
}

// runAnalyse analyses checkpoints: those of a results folder, with its data sets and
// cells, or those given with --weights on one data set.
//
// Stdout has one table per analysis, or with --json one object with a list of rows
// per analysis and the list "failed". Each result is a cell: with a results folder, a
// repeated run reads existing cells and computes the missing ones. A checkpoint that
// an analysis does not apply to is skipped with a note on stderr. An analysis that
// fails for one checkpoint leaves the others unaffected and gives exitIncomplete.
func runAnalyse(ctx context.Context, c *command, args []string) error {
	var checkpoints stringList
	c.Var(&checkpoints, "weights", "`folder` of a checkpoint: written by train, or a published one; repeatable")
	key := c.keyFlag()
	task := c.String("task", "", "`name` of the task, if the checkpoint does not record it")
	columns := c.String("q-columns", "", "data-set `columns` that form the task state with --task none (default: those of the checkpoint)")
	data := c.String("data", "", "data set to analyse --weights on, an HDF5 `file`")
	out := c.String("out", "", "results `folder` to store cells in; without it results are only printed")
	protocol := c.String("protocol", "", "`rules` for checkpoints that were not trained: paper (the default) or strict (held-out episodes only)")
	rollouts := c.rolloutFlags()
	timing := c.Count("seconds", int(analysis.Published().Timing.Seconds()), "time limit in `seconds` of each measurement of the analysis cost; longer plans and steps are timed in part and scaled")
	workers := c.Count("workers", 0, "use `n` goroutines; 0 means one per core (results do not depend on it)")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	dev := c.deviceFlags("fp32")
	pos, err := c.parse(args, 1, 2)
	if err != nil {
		return err
	}
	names, err := analysis.Parse(pos[0])
	if err == nil && len(names) == 0 {
		err = errors.New("no analysis given")
	}
	if err != nil {
		return usagef("analyse: %v", err)
	}
	// Flags of single analyses are mistakes if that analysis was not requested.
	for name, flags := range map[string][]string{results.RolloutAnalysis: rolloutFlagNames, results.CostAnalysis: {"seconds"}} {
		if !slices.Contains(names, name) {
			if err := c.noEffect("without the analysis "+name, flags...); err != nil {
				return err
			}
		}
	}
	// Either a results folder or explicit checkpoints.
	switch folder := append(pos, "")[1]; {
	case (folder == "") == (len(checkpoints) == 0):
		return usagef("analyse needs a results folder or --weights DIR, and not both")
	case folder == "" && *data == "":
		return usagef("analyse --weights DIR needs --data FILE")
	case folder != "" && (*data != "" || *out != "" || *key != ""):
		return usagef("analyse OUT uses the data sets, checkpoints and cells of the results folder (hint: leave out --data, --key and --out)")
	case folder != "":
		if checkpoints, err = checkpointsOf(folder); err != nil {
			return err
		}
		*out = folder
	}
	// Report a missing data set before loading a model and starting a GPU.
	if *data != "" {
		f, err := hdf5.Open(*data)
		if err != nil {
			return err
		}
		f.Close()
	}
	settings, err := rollouts.read()
	if err != nil {
		return err
	}
	settings.Timing = time.Duration(*timing) * time.Second
	d, err := dev.open(false)
	if err != nil {
		return err
	}
	defer d.Close()
	a := analyser{command: c, tables: tables{}, names: names, settings: settings, dev: d, key: *key, task: *task, columns: *columns, data: *data, out: *out, protocol: *protocol, workers: *workers}
	// A failed analysis does not end the run, but a wrong request for one checkpoint does.
	failed := []string{}
	for _, dir := range checkpoints {
		some, err := a.analyse(ctx, dir)
		if err != nil {
			return err
		}
		failed = append(failed, some...)
	}
	if *asJSON {
		all := map[string]any{"failed": failed}
		for _, name := range names {
			all[name] = a.tables[name]
		}
		err = c.printJSON(all)
	} else {
		err = a.tables.print(c.stdout)
	}
	return failures(failed, err)
}

// checkpointsOf returns the folders of the finished trainings in a results folder.
func checkpointsOf(folder string) (dirs []string, err error) {
	found, err := fs.Glob(os.DirFS(folder), "train/*/"+weights.SidecarName)
	if err == nil && len(found) == 0 {
		if _, err = os.Stat(folder); err == nil {
			err = errors.New("it holds no finished training (hint: give the --out folder of `scalewm reproduce`, or --weights DIR)")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("analysing the results folder %s: %w", folder, err)
	}
	for _, name := range found {
		dirs = append(dirs, filepath.Join(folder, filepath.Dir(name)))
	}
	return dirs, nil
}

// analyser analyses one checkpoint after another and collects their results.
type analyser struct {
	*command
	names    []string          // analyses to do
	settings analysis.Settings // of the analyses
	dev      device.Device
	// The flags of the same names. Empty ones are filled in from each checkpoint's sidecar.
	key, task, columns, data, out, protocol string
	workers                                 int
	tables                                  tables // results so far
}

// analyse computes the missing analyses of the checkpoint in dir and adds its results
// to the tables. failed has a line for an analysis that failed; err is a mistake in
// the request or an interrupt.
func (a *analyser) analyse(ctx context.Context, dir string) (failed []string, err error) {
	side, err := model.Describe(dir, a.key)
	if err != nil {
		return nil, err
	}
	a.noteWeights(dir, side)
	// The task: from the flag, else from the sidecar. Data sets without a simulator have
	// the task none, whose state consists of columns of the file.
	recipe := train.RecipeOf(side)
	name := cmp.Or(a.task, side.Task)
	if a.columns != "" && !pipeline.IsOwn(name, a.out) {
		return nil, usagef("analysing %s: --q-columns is for data sets without a task, and task %s has its own states (hint: leave it out)", dir, name)
	}
	data := cmp.Or(a.data, results.Folder(a.out).Data(dataset.NoTask))
	task, err := pipeline.TaskOf(name, a.out, data, cmp.Or(a.columns, recipe.QColumns))
	if err != nil {
		return nil, fmt.Errorf("analysing %s: %w", dir, err)
	}
	// A trained checkpoint determines the protocol: it says which episodes were held out.
	rules, method := results.Published(), model.MethodOf(side.Method)
	if rules.Protocol = cmp.Or(side.Protocol, a.protocol, results.Paper); rules.Protocol != results.Paper && rules.Protocol != results.Strict {
		return nil, usagef("analyse: unknown protocol %q (hint: paper or strict)", rules.Protocol)
	}
	// quiet: the verb prints its own tables in place of outcomes of steps.
	l := &listener{command: a.command, quiet: true, step: "analysing " + dir}
	defer l.endProgress()
	// Skip analyses that do not apply, with a note for each: "all" is a common request.
	names := pipeline.Analyses(a.names, task, method)
	for _, name := range a.names {
		if !slices.Contains(names, name) {
			l.Note(fmt.Sprintf("%s: the analysis %s does not apply to %s; skipped", dir, name, whyNot(task, side.Method)))
		}
	}
	if len(names) == 0 {
		l.Note(fmt.Sprintf("%s: none of these analyses applies to %s", dir, whyNot(task, side.Method)))
		return nil, nil
	}
	if slices.Contains(names, results.RolloutAnalysis) {
		if err := a.settings.Check(task.Spec.Name, rules.Protocol); err != nil {
			return nil, usagef("%v", err)
		}
	}
	// Without --data, the data set of the results folder for this task.
	data = cmp.Or(a.data, results.Folder(a.out).Data(task.Spec.Name))
	file, err := hdf5.Open(data)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Cells go to a results folder only if it holds results on this data set and protocol.
	if a.out != "" {
		defer pipeline.Tidy(a.out)
		fingerprint, err := file.Fingerprint()
		if err == nil {
			err = pipeline.CheckFolder(a.out, data, task, fingerprint)
		}
		if err != nil {
			return nil, err
		}
	}
	// From here on an error concerns this checkpoint only.
	r, err := a.measure(ctx, dir, file, task, rules, names, l)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r, failed = results.Results{}, append(failed, fmt.Sprintf("analyse %s %s s%d: %v", task.Spec.Name, side.Method, side.Seed, err))
	}
	r.AddTo(a.tables, results.Line{Task: task.Spec.Name, Method: pipeline.Label(task, eval.ArmOf(side)), Seed: int(side.Seed)})
	return failed, nil
}

// measure runs the analyses of a checkpoint on a data set. The model is loaded only
// if cells are missing.
func (a *analyser) measure(ctx context.Context, dir string, file *hdf5.File, task envs.Task, rules results.Rules, names []string, l *listener) (r results.Results, err error) {
	j := analysis.Job{Job: eval.Job{Task: task, Rules: rules, Workers: orAllCores(a.workers), Version: version(), Progress: l.Progress},
		Settings: a.settings, Device: a.dev.Kind().String(), Checkpoint: dir, Key: a.key}
	if j.Data, err = eval.NewData(file, task, rules); err == nil {
		j.Arm, err = pipeline.ArmOf(dir, a.key, task)
	}
	if err == nil {
		j.Films, err = pipeline.MissingFilms(a.out, task, pipeline.Label(task, j.Arm), names, l.Note)
	}
	if err != nil {
		return r, err
	}
	// The model belongs to this call. It is loaded by analysis.Run, if at all.
	free := func() {}
	defer func() { free() }()
	r, _, err = analysis.Run(ctx, pipeline.CellStore(a.out), j, names, func() (model.World, error) {
		agent, err := pipeline.LoadFor(j.Job, a.dev, dir, a.key, "", l.Note)
		free = agent.Free
		return agent.World, err
	})
	return r, err
}

// whyNot returns why an analysis does not apply: the task has no simulator, the method is
// a policy on the latents of another checkpoint, or it is not trained.
func whyNot(task envs.Task, method string) string {
	if model.MethodOf(method).Policy {
		return fmt.Sprintf("the method %s, a policy on the latents of another checkpoint (hint: analyse that one)", method)
	}
	if task.New == nil {
		return fmt.Sprintf("the task %s, which has no simulator", task.Spec.Name)
	}
	return fmt.Sprintf("the method %s, which is not trained", method)
}

// tables holds the results of all checkpoints by analysis.
type tables map[string][]results.Line

// print prints one table per analysis. Each row begins with task, method and seed.
func (t tables) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var of results.Line // whose fields the next row begins with
	line := func(fields ...string) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", of.Task, of.Method, of.Seed, strings.Join(fields, "\t"))
	}
	// table prints one analysis with a title and a header, or nothing without rows.
	table := func(rows []results.Line, title, columns string, print func(result any)) {
		if len(rows) > 0 {
			fmt.Fprintf(w, "%s\ntask\tmethod\tseed\t%s\n", title, columns)
		}
		for _, r := range rows {
			of = r
			print(r.Result)
		}
	}
	table(t[results.RankAnalysis], "Distances of latents compared with those of the task state", "state\tframes\tSpearman\t95 % over episodes\tPearson", func(result any) {
		r := result.(results.Rank)
		line(cmp.Or(r.Q, results.DefaultQ), fmt.Sprint(r.N), number(r.Spearman, 3), "["+number(r.Lo, 3)+", "+number(r.Hi, 3)+"]", number(r.Pearson, 3))
	})
	table(t[results.SpectrumAnalysis], "Spectrum of the latents", "first shares\tparticipation\teffective rank\tstretch", func(result any) {
		r := result.(results.Spectrum)
		var first []string
		for _, v := range r.Eigenvalues[:min(3, len(r.Eigenvalues))] {
			first = append(first, fmt.Sprintf("%.4f", v))
		}
		line(strings.Join(first, " "), fmt.Sprintf("%.1f", r.Participation), fmt.Sprintf("%.1f", r.EffectiveRank), number(r.Stretch, 2))
	})
	// Of the probes only the mean over components is printed, and not ridge-last, the probe
	// of the last principal components. --json has everything.
	mean := slices.DeleteFunc(slices.Clone(t[results.ProbeAnalysis]), func(r results.Line) bool {
		s := r.Result.(results.ProbeLine)
		return s.Component != "mean" || s.Probe == "ridge-last"
	})
	table(mean, "Probes of the task state, mean R2 over its components", "probe\tcomponents\tR2\tSD", func(result any) {
		r := result.(results.ProbeLine)
		line(r.Probe, fmt.Sprint(r.K), number(r.R2, 4), number(r.SD, 4))
	})
	table(t[results.LeverageAnalysis], "Metric leverage: what weighs in the planning cost", "due to the state\tin its readout\tfirst 2λ\tR2 from each alone", func(result any) {
		r := result.(results.Leverage)
		var weight, r2 []string
		for k := range r.Components[:min(3, len(r.Components), len(r.R2))] {
			weight, r2 = append(weight, fmt.Sprintf("%.4g", r.Components[k])), append(r2, number(r.R2[k], 3))
		}
		line(fmt.Sprintf("%.4f", r.Explained), fmt.Sprintf("%.4f", r.Readout), strings.Join(weight, " "), strings.Join(r2, " "))
	})
	table(t[results.RolloutAnalysis], "Predictions of 25 steps compared with the simulator", "starts\terror\ttau\tencoded against physical\tin all", func(result any) {
		r := result.(results.Rollout)
		line(fmt.Sprint(r.Starts), fmt.Sprintf("%.4f", r.RollErr), fmt.Sprintf("%.3f", r.Tau), fmt.Sprintf("%.3f", r.Encoded.Tau), fmt.Sprintf("%.3f", r.Total.Tau))
	})
	table(t[results.DynamicsAnalysis], "Predictions of recorded episodes, squared error over that of two frames", "blocks\terror\tno change\tother actions", func(result any) {
		for _, b := range result.(results.Dynamics).PerBlock {
			line(fmt.Sprint(b.Blocks), fmt.Sprintf("%.4f", b.Error), fmt.Sprintf("%.4f", b.NoChange), fmt.Sprintf("%.4f", b.OtherActions))
		}
	})
	table(t[results.SelectionAnalysis], "Measures for a selection without a simulator", strings.Join(measureNames(), "\t"), func(result any) {
		r := result.(results.Selection)
		line(selectionCells(func(m results.SelectionMeasure) results.Number { return m.Value(&r) })...)
	})
	table(t[results.CostAnalysis], "Cost of a plan by CEM", "tier\trollouts\tpredictor calls\tGFLOP\tseconds", func(result any) {
		r := result.(results.CostLine)
		for i, p := range r.Tiers {
			line(p.Tier, fmt.Sprint(p.Rollouts), fmt.Sprint(p.PredictorCalls), fmt.Sprintf("%.4g", p.FLOP/1e9), planSeconds(r, i))
		}
	})
	// Checkpoints that were not trained have no cost of training.
	trained := slices.DeleteFunc(slices.Clone(t[results.CostAnalysis]), func(r results.Line) bool {
		c := r.Result.(results.CostLine)
		return c.Batch == 0 || c.Times == nil
	})
	table(trained, "Cost of training", "measured\tbatch\tsteps an epoch\tGFLOP a step\tms a step\tsteps/s\ts an epoch", func(result any) {
		r := result.(results.CostLine)
		for _, s := range []*results.StepTime{r.Times.Recorded, r.Times.Step, r.Times.OnFeatures} {
			if s == nil {
				continue
			}
			what, flop := "by the training itself", r.StepFLOP
			if s.Clips > 0 {
				what = fmt.Sprintf("now, %d clips", s.Clips)
			}
			if s == r.Times.OnFeatures {
				what, flop = what+", on features", flop-r.EncoderFLOP
			}
			line(what, fmt.Sprint(r.Batch), fmt.Sprint(r.EpochSteps), fmt.Sprintf("%.4g", flop/1e9),
				fmt.Sprintf("%.4g", s.MsStep), fmt.Sprintf("%.4g", s.StepsPerSec), fmt.Sprintf("%.4g", s.EpochSeconds))
		}
	})
	return w.Flush()
}

// planSeconds formats the time of a plan at tier i, with a note if only some of its
// iterations were timed and the rest was extrapolated.
func planSeconds(r results.CostLine, i int) string {
	// Times are in run files, which may be missing: a cell is valid without them.
	if r.Times == nil || i >= len(r.Times.Plans) {
		return "–"
	}
	p := r.Times.Plans[i]
	out := fmt.Sprintf("%.4g", p.Seconds)
	if p.Iterations < r.Tiers[i].Iterations {
		out += fmt.Sprintf(" (from %d iterations)", p.Iterations)
	}
	return out
}

// number formats a value with a fixed number of digits, "–" for NaN, which stands for
// a value that does not exist.
func number(n results.Number, digits int) string {
	if n != n { // NaN
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, float64(n))
}
