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

func init() {
	register(verb{name: "analyse", args: "ANALYSES [OUT]", summary: "measure checkpoints beside their success: " + strings.Join(analysis.Names(), ", "),
		example: "scalewm analyse rank,spectrum,probe out/demo\n" +
			"scalewm analyse rollout --weights runs/lewm --weights runs/scale --data tworoom.h5\n" +
			"scalewm analyse all --weights runs/scale --data tworoom.h5 --out results --json", run: runAnalyse})
}

// texts is a flag that may be given several times.
type texts []string

func (t *texts) String() string     { return strings.Join(*t, ",") }
func (t *texts) Set(s string) error { *t = append(*t, s); return nil }

// rolloutFlags are how the rollouts of `analyse` and `reproduce` are measured.
type rolloutFlags struct {
	starts, candidates *int
	noise              *string
}

var rolloutFlagNames = []string{"starts", "candidates", "noise"}

func (c *command) rolloutFlags() rolloutFlags {
	p := analysis.Published()
	return rolloutFlags{
		starts:     c.Count("starts", p.Starts, "`starts` of the analysis rollout"),
		candidates: c.Count("candidates", p.Candidates, "`candidates` of each start of the analysis rollout"),
		noise:      c.String("noise", p.Noise, "`generator` of these candidates: torch (PyTorch's, as published) or own"),
	}
}

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

func runAnalyse(ctx context.Context, c *command, args []string) error {
	var checkpoints texts
	c.Var(&checkpoints, "weights", "a checkpoint, a `folder` that train wrote; may be given several times")
	task := c.String("task", "", "`name` of the task, where the checkpoint does not say it")
	columns := c.String("q-columns", "", "`columns` of the data set that are the task state of a checkpoint of --task none, where it does not say them or others are asked for")
	data := c.String("data", "", "the data set that --weights are analysed on, a `file` in HDF5")
	out := c.String("out", "", "results `folder` whose cells/ keep the results; without it nothing is kept")
	protocol := c.String("protocol", "", "`rules` where the checkpoint was not trained under any: paper (the default) or strict (held-out episodes only)")
	rollouts := c.rolloutFlags()
	timing := c.Count("seconds", int(analysis.Published().Timing.Seconds()), "`seconds` that each timing of the analysis cost may take; where plans and steps need longer, less of them is timed and scaled")
	workers := c.Count("workers", 0, "`goroutines` that simulate and read; 0 is one a core (no result depends on it)")
	asJSON := c.Bool("json", false, "print one JSON object")
	dev := c.deviceFlags("fp32")
	pos, err := c.parse(args, 1, 2)
	if err != nil {
		return err
	}
	names, err := analysis.Parse(pos[0])
	if err == nil && len(names) == 0 {
		err = errors.New("none is no analysis")
	}
	if err != nil {
		return usagef("analyse: %v", err)
	}
	for name, flags := range map[string][]string{results.RolloutAnalysis: rolloutFlagNames, results.CostAnalysis: {"seconds"}} {
		if !slices.Contains(names, name) {
			if err := c.meaningless("without the analysis "+name, flags...); err != nil {
				return err
			}
		}
	}
	switch folder := append(pos, "")[1]; {
	case (folder == "") == (len(checkpoints) == 0):
		return usagef("analyse needs a results folder or --weights DIR, and not both")
	case folder == "" && *data == "":
		return usagef("analyse --weights DIR needs --data FILE")
	case folder != "" && (*data != "" || *out != ""):
		return usagef("analyse OUT takes data sets and cells of the results folder: leave out --data and --out")
	case folder != "":
		if checkpoints, err = checkpointsOf(folder); err != nil {
			return err
		}
		*out = folder
	}
	if *data != "" { // whose absence is the first thing to report
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
	a := analyser{command: c, tables: tables{}, names: names, settings: settings, dev: d, task: *task, columns: *columns, data: *data, out: *out, protocol: *protocol, workers: *workers}
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

// checkpointsOf lists the trainings of a results folder.
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

// analyser analyses one checkpoint after the other.
type analyser struct {
	*command
	names                              []string
	settings                           analysis.Settings
	dev                                device.Device
	task, columns, data, out, protocol string
	workers                            int
	tables                             tables
}

// analyse measures the checkpoint in dir and keeps its rows.
func (a *analyser) analyse(ctx context.Context, dir string) (failed []string, err error) {
	side, err := model.Describe(dir)
	if err != nil {
		return nil, err
	}
	recipe := train.RecipeOf(side)
	if name := cmp.Or(a.task, side.Task); a.columns != "" && name != dataset.NoTask {
		return nil, usagef("analysing %s: --q-columns is for data sets without a task, and task %s has states of its own (hint: leave it out)", dir, name)
	}
	data := cmp.Or(a.data, results.Folder(a.out).Data(dataset.NoTask))
	task, err := pipeline.TaskOf(cmp.Or(a.task, side.Task), data, cmp.Or(a.columns, recipe.QColumns))
	if err != nil {
		return nil, fmt.Errorf("analysing %s: %w", dir, err)
	}
	rules, method := results.Published(), model.MethodOf(side.Method)
	if rules.Protocol = cmp.Or(side.Protocol, a.protocol, results.Paper); rules.Protocol != results.Paper && rules.Protocol != results.Strict {
		return nil, usagef("analyse: unknown protocol %q (hint: paper or strict)", rules.Protocol)
	}
	l := &teller{command: a.command, quiet: true, step: "analysing " + dir}
	defer l.line()
	names := pipeline.Analyses(a.names, task, method)
	for _, name := range a.names {
		if !slices.Contains(names, name) {
			l.Note(fmt.Sprintf("%s: %s says nothing of %s, and is left out", dir, name, without(task, side.Method)))
		}
	}
	if len(names) == 0 {
		l.Note(fmt.Sprintf("%s has none of these analyses: it is of %s", dir, without(task, side.Method)))
		return nil, nil
	}
	if slices.Contains(names, results.RolloutAnalysis) {
		if err := a.settings.Check(task.Spec.Name, rules.Protocol); err != nil {
			return nil, usagef("%v", err)
		}
	}
	data = cmp.Or(a.data, results.Folder(a.out).Data(task.Spec.Name))
	file, err := hdf5.Open(data)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if a.out != "" {
		defer pipeline.Tidy(a.out)
		fingerprint, err := file.Fingerprint()
		if err == nil {
			err = pipeline.Admits(a.out, data, rules.Protocol, task, fingerprint)
		}
		if err != nil {
			return nil, err
		}
	}
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

// measure analyses a checkpoint on a data set.
func (a *analyser) measure(ctx context.Context, dir string, file *hdf5.File, task envs.Task, rules results.Rules, names []string, l *teller) (r results.Results, err error) {
	j := analysis.Job{Job: eval.Job{Task: task, Rules: rules, Workers: orCores(a.workers), Version: version(), Progress: l.Progress},
		Settings: a.settings, Device: a.dev.Kind().String(), Checkpoint: dir}
	if j.Data, err = eval.NewData(file, task, rules); err == nil {
		j.Arm, err = pipeline.ArmOf(dir, task)
	}
	if err == nil && slices.Contains(names, results.DynamicsAnalysis) {
		j.Film, err = pipeline.MissingFilm(a.out, task, pipeline.Label(task, j.Arm), results.Imagined, false, l.Note)
	}
	if err != nil {
		return r, err
	}
	free := func() {}
	defer func() { free() }()
	r, _, err = analysis.Run(ctx, pipeline.CellStore(a.out), j, names, func() (model.World, error) {
		world, err := pipeline.LoadFor(j.Job, a.dev, dir, l.Note)
		if err == nil {
			free = world.Free
		}
		return world, err
	})
	return r, err
}

// without says what a checkpoint lacks that has not all analyses.
func without(task envs.Task, method string) string {
	if task.New == nil {
		return fmt.Sprintf("the task %s, which has no simulator", task.Spec.Name)
	}
	return fmt.Sprintf("the method %s, which is not trained", method)
}

// tables are the results of all checkpoints by analysis.
type tables map[string][]results.Line

// print writes a table for each analysis.
func (t tables) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var of results.Line
	line := func(fields ...string) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", of.Task, of.Method, of.Seed, strings.Join(fields, "\t"))
	}
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
	mean := slices.DeleteFunc(slices.Clone(t[results.ProbeAnalysis]), func(r results.Line) bool {
		s := r.Result.(results.ProbeLine)
		return s.Component != "mean" || s.Probe == "ridge-last"
	})
	table(mean, "Probes of the task state, mean R2 over its components", "probe\tcomponents\tR2\tSD", func(result any) {
		r := result.(results.ProbeLine)
		line(r.Probe, fmt.Sprint(r.K), number(r.R2, 4), number(r.SD, 4))
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
	table(t[results.CostAnalysis], "Cost of a plan by CEM", "tier\trollouts\tpredictor calls\tGFLOP\tseconds", func(result any) {
		r := result.(results.CostLine)
		for i, p := range r.Tiers {
			line(p.Tier, fmt.Sprint(p.Rollouts), fmt.Sprint(p.PredictorCalls), fmt.Sprintf("%.4g", p.FLOP/1e9), planSeconds(r, i))
		}
	})
	trained := slices.DeleteFunc(slices.Clone(t[results.CostAnalysis]), func(r results.Line) bool {
		c := r.Result.(results.CostLine)
		return c.Batch == 0 || c.Times == nil
	})
	table(trained, "Cost of training", "measured\tbatch\tsteps an epoch\tGFLOP a step\tms a step\tsteps/s\ts an epoch", func(result any) {
		r := result.(results.CostLine)
		for _, s := range []*results.StepTime{r.Times.Recorded, r.Times.Step} {
			if s == nil {
				continue
			}
			what := "by the training itself"
			if s.Clips > 0 {
				what = fmt.Sprintf("now, %d clips", s.Clips)
			}
			line(what, fmt.Sprint(r.Batch), fmt.Sprint(r.EpochSteps), fmt.Sprintf("%.4g", r.StepFLOP/1e9),
				fmt.Sprintf("%.4g", s.MsStep), fmt.Sprintf("%.4g", s.StepsPerSec), fmt.Sprintf("%.4g", s.EpochSeconds))
		}
	})
	return w.Flush()
}

// planSeconds are those of the plans of tier i, and how many of their iterations were
// timed where these are not all.
func planSeconds(r results.CostLine, i int) string {
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

// number shows a value that may be absent.
func number(n results.Number, digits int) string {
	if n != n {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, float64(n))
}
