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
	"scalewm/eval/analysis"
	"scalewm/eval/infer"
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
	if *columns != "" {
		if err := dataset.CheckColumns(*columns); err != nil {
			return usagef("analyse: --q-columns: %v", err)
		}
	}
	if *data != "" { // its absence would else be one failure a checkpoint
		f, err := hdf5.Open(*data)
		if err != nil {
			return err
		}
		f.Close()
	}
	grid := pipeline.Grid{Analyses: names}
	if grid.Rollouts, err = rollouts.read(); err != nil {
		return err
	}
	grid.Rollouts.Timing = time.Duration(*timing) * time.Second
	d, err := dev.open(false)
	if err != nil {
		return err
	}
	defer d.Close()
	a := analyser{command: c, grid: grid, dev: d, task: *task, columns: *columns, data: *data, out: *out, protocol: *protocol, workers: *workers}
	failed := []string{}
	for _, dir := range checkpoints {
		some, err := a.analyse(ctx, dir)
		if err != nil {
			return err
		}
		failed = append(failed, some...)
	}
	if *asJSON {
		err = c.printJSON(a.tables.json(names, failed))
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
	grid                               pipeline.Grid
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
	data := cmp.Or(a.data, filepath.Join(a.out, "data", dataset.NoTask+".h5"))
	task, err := pipeline.TaskOf(cmp.Or(a.task, side.Task), data, cmp.Or(a.columns, recipe.QColumns))
	if err != nil {
		return nil, fmt.Errorf("analysing %s: %w", dir, err)
	}
	g := a.grid
	g.Tasks, g.Methods, g.Seeds = []envs.Task{task}, []model.Method{model.MethodOf(side.Method)}, []int64{side.Seed}
	if g.Protocol, err = dataset.ParseProtocol(cmp.Or(side.Protocol, a.protocol, string(dataset.Paper))); err != nil {
		return nil, usagef("analyse: %v", err)
	}
	w := a.workspace(g, a.out, a.workers)
	w.Listener = &teller{command: a.command, quiet: true, step: "analysing " + dir}
	w.Data, w.Weights, w.Planner, w.Analyser, w.Precision = a.data, dir, a.dev, a.dev, a.dev.Kind().Precision
	defer w.Close()
	steps := pipeline.Of[*pipeline.Analyse](w.Graph())
	for _, name := range g.Analyses {
		if len(steps) == 0 || !slices.Contains(steps[0].Names(), name) {
			w.Listener.Note(fmt.Sprintf("%s: %s says nothing of %s, and is left out", dir, name, without(task, side.Method)))
		}
	}
	if len(steps) == 0 {
		w.Listener.Note(fmt.Sprintf("%s has none of these analyses: it is of %s", dir, without(task, side.Method)))
		return nil, nil
	}
	if a.out != "" {
		if err := w.Admits(task); err != nil {
			return nil, err
		}
	}
	graph := pipeline.Graph{steps[0]}
	if err := graph.Check(ctx); err != nil {
		return nil, err
	}
	failed, err = graph.Run(ctx, w.Listener)
	arm := infer.ArmName(results.Spec{Task: task.Spec.Name, Method: side.Method, Q: recipe.Q, LossWeight: recipe.Weight})
	a.tables.add(steps[0].Results, about{Task: task.Spec.Name, Method: arm, Seed: side.Seed})
	return failed, err
}

// without says what a checkpoint lacks that has not all analyses.
func without(task envs.Task, method string) string {
	if task.New == nil {
		return fmt.Sprintf("the task %s, which has no simulator", task.Spec.Name)
	}
	return fmt.Sprintf("the method %s, which is not trained", method)
}

// about says what a row is of.
type about struct {
	Task   string `json:"task"`
	Method string `json:"method"` // or a variant, as scale@half
	Seed   int64  `json:"seed"`
}

// Rows of the tables that `analyse` prints: one for each line of a result.
type (
	rankRow struct {
		about
		results.Rank
	}
	spectrumRow struct {
		about
		results.Spectrum
	}
	probeRow struct {
		about
		N int `json:"n"`
		results.ProbeScore
	}
	rolloutRow struct {
		about
		results.Rollout
	}
	dynamicsRow struct {
		about
		results.Dynamics
	}
	costRow struct {
		about
		results.Cost
		Times *results.CostTimes `json:"times"`
	}
)

// tables are the results of all checkpoints.
type tables struct {
	rank     []rankRow
	spectrum []spectrumRow
	probe    []probeRow
	rollout  []rolloutRow
	dynamics []dynamicsRow
	cost     []costRow
}

func (t *tables) add(r results.Results, of about) {
	for _, line := range r.Rank {
		t.rank = append(t.rank, rankRow{of, line})
	}
	if r.Spectrum != nil {
		t.spectrum = append(t.spectrum, spectrumRow{of, *r.Spectrum})
	}
	if r.Probe != nil {
		for _, s := range r.Probe.Scores {
			t.probe = append(t.probe, probeRow{of, r.Probe.N, s})
		}
	}
	if r.Rollout != nil {
		t.rollout = append(t.rollout, rolloutRow{of, *r.Rollout})
	}
	if r.Dynamics != nil {
		t.dynamics = append(t.dynamics, dynamicsRow{of, *r.Dynamics})
	}
	if r.Cost != nil {
		t.cost = append(t.cost, costRow{of, *r.Cost, r.Cost.Times})
	}
}

// json is the object that --json prints: only what was asked for.
func (t *tables) json(names, failed []string) map[string]any {
	all := map[string]any{results.RankAnalysis: t.rank, results.SpectrumAnalysis: t.spectrum, results.ProbeAnalysis: t.probe, results.RolloutAnalysis: t.rollout, results.DynamicsAnalysis: t.dynamics, results.CostAnalysis: t.cost}
	out := map[string]any{"failed": failed}
	for _, name := range names {
		out[name] = all[name]
	}
	return out
}

// print writes a table for each analysis.
func (t *tables) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := func(rows int, title string, columns ...string) {
		if rows > 0 {
			fmt.Fprintf(w, "%s\ntask\tmethod\tseed\t%s\n", title, strings.Join(columns, "\t"))
		}
	}
	row := func(a about, fields ...string) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", a.Task, a.Method, a.Seed, strings.Join(fields, "\t"))
	}
	head(len(t.rank), "Distances of latents beside those of the task state", "state", "frames", "Spearman", "95 % over episodes", "Pearson")
	for _, r := range t.rank {
		row(r.about, cmp.Or(r.Q, results.DefaultQ), fmt.Sprint(r.N), number(r.Spearman, 3), "["+number(r.Lo, 3)+", "+number(r.Hi, 3)+"]", number(r.Pearson, 3))
	}
	head(len(t.spectrum), "Spectrum of the latents", "first shares", "participation", "effective rank", "stretch")
	for _, r := range t.spectrum {
		var first []string
		for _, v := range r.Eigenvalues[:min(3, len(r.Eigenvalues))] {
			first = append(first, fmt.Sprintf("%.4f", v))
		}
		row(r.about, strings.Join(first, " "), fmt.Sprintf("%.1f", r.Participation), fmt.Sprintf("%.1f", r.EffectiveRank), number(r.Stretch, 2))
	}
	mean := slices.DeleteFunc(slices.Clone(t.probe), func(r probeRow) bool { return r.Component != "mean" || r.Probe == "ridge-last" })
	head(len(mean), "Probes of the task state, mean R2 over its components", "probe", "components", "R2", "SD")
	for _, r := range mean {
		row(r.about, r.Probe, fmt.Sprint(r.K), number(r.R2, 4), number(r.SD, 4))
	}
	head(len(t.rollout), "Predictions of 25 steps beside the simulator", "starts", "error", "tau", "encoded against physical", "in all")
	for _, r := range t.rollout {
		row(r.about, fmt.Sprint(r.Starts), fmt.Sprintf("%.4f", r.RollErr), fmt.Sprintf("%.3f", r.Tau), fmt.Sprintf("%.3f", r.Encoded.Tau), fmt.Sprintf("%.3f", r.Total.Tau))
	}
	head(len(t.dynamics), "Predictions of recorded episodes, squared error over that of two frames", "blocks", "error", "no change", "other actions")
	for _, r := range t.dynamics {
		for _, b := range r.PerBlock {
			row(r.about, fmt.Sprint(b.Blocks), fmt.Sprintf("%.4f", b.Error), fmt.Sprintf("%.4f", b.NoChange), fmt.Sprintf("%.4f", b.OtherActions))
		}
	}
	head(len(t.cost), "Cost of a plan by CEM", "tier", "rollouts", "predictor calls", "GFLOP", "seconds")
	for _, r := range t.cost {
		for i, p := range r.Tiers {
			row(r.about, p.Tier, fmt.Sprint(p.Rollouts), fmt.Sprint(p.PredictorCalls), fmt.Sprintf("%.4g", p.FLOP/1e9), r.seconds(i))
		}
	}
	trained := slices.DeleteFunc(slices.Clone(t.cost), func(r costRow) bool { return r.Batch == 0 || r.Times == nil })
	head(len(trained), "Cost of training", "measured", "batch", "steps an epoch", "GFLOP a step", "ms a step", "steps/s", "s an epoch")
	for _, r := range trained {
		for _, s := range []*results.StepTime{r.Times.Recorded, r.Times.Step} {
			if s == nil {
				continue
			}
			what := "by the training itself"
			if s.Clips > 0 {
				what = fmt.Sprintf("now, %d clips", s.Clips)
			}
			row(r.about, what, fmt.Sprint(r.Batch), fmt.Sprint(r.EpochSteps), fmt.Sprintf("%.4g", r.StepFLOP/1e9),
				fmt.Sprintf("%.4g", s.MsStep), fmt.Sprintf("%.4g", s.StepsPerSec), fmt.Sprintf("%.4g", s.EpochSeconds))
		}
	}
	return w.Flush()
}

// seconds are those of the plans of tier i, and how many of their iterations were
// timed where these are not all.
func (r costRow) seconds(i int) string {
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
