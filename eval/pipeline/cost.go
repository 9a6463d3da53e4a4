package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/model"
	"scalewm/model/train"
)

// Forecast is the result of a dry run: the amount of missing work and, if rates were
// measured, its time, memory and disk space.
type Forecast struct {
	Cells  int    `json:"cells"`            // cells of the grid
	ToDo   int    `json:"to_do"`            // missing cells
	Stages []Cost `json:"stages"`           // in the order of Stages()
	Memory int64  `json:"memory,omitempty"` // peak resident memory while measuring, in bytes
	// Jobs is the time from the first to the last job of a batch system, without queueing;
	// nil unless jobs are planned.
	Jobs *Seconds `json:"jobs,omitempty"`
}

// Cost is what the missing work of a stage takes.
type Cost struct {
	Stage   Stage    `json:"stage"`
	Units   int      `json:"units"`             // data sets, trainings or cells
	ToDo    int      `json:"to_do"`             // missing units
	Bytes   int64    `json:"bytes,omitempty"`   // disk space of the missing units
	Seconds *Seconds `json:"seconds,omitempty"` // on this machine alone; nil without measured rates
	// Longest is the time in seconds of the longest unit that shards cannot share: however
	// many jobs run, the stage takes at least that long.
	Longest float64 `json:"-"`
}

// Seconds is a range of times in seconds, from the fastest to the slowest
// measurement.
type Seconds struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

func (s Seconds) times(n float64) Seconds { return Seconds{s.Least * n, s.Most * n} }

func (s Seconds) plus(t Seconds) Seconds { return Seconds{s.Least + t.Least, s.Most + t.Most} }

// with returns the range extended to include t. The zero value is the empty range.
func (s Seconds) with(t float64) Seconds {
	if s == (Seconds{}) {
		return Seconds{t, t}
	}
	return Seconds{min(s.Least, t), max(s.Most, t)}
}

// String formats the range, or a single time if both ends read the same.
func (s Seconds) String() string {
	least, most := hours(s.Least), hours(s.Most)
	if least == most {
		return most
	}
	return least + " to " + most
}

// hours formats a time in seconds, minutes or hours, whichever suits its size.
func hours(seconds float64) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", math.Ceil(seconds))
	case seconds < 90*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// DryRun calls report with the state of each step and returns the forecast: units and
// missing units by stage, and their cost if r is not nil. It runs no step and writes
// nothing. The report is left out of the counts: it takes no noticeable time and is
// always written again.
func (g Graph) DryRun(ctx context.Context, r *Rates, report func(id string, s State)) (f Forecast, err error) {
	// Indices in f.Stages. The graph is ordered by task, so that the steps of a stage are
	// not consecutive.
	at := map[Stage]int{}
	for _, s := range g {
		state, err := s.State(ctx)
		if err != nil {
			return f, fmt.Errorf("%s: %w", s.ID(), err)
		}
		report(s.ID(), state)
		if _, earlier := s.(required); earlier || s.Stage() == StageReport {
			continue
		}
		i, ok := at[s.Stage()]
		if !ok {
			i = len(f.Stages)
			at[s.Stage()], f.Stages = i, append(f.Stages, Cost{Stage: s.Stage()})
		}
		f.Stages[i].add(s, state, r)
		f.Cells, f.ToDo = f.Cells+state.Cells, f.ToDo+state.Missing
	}
	slices.SortFunc(f.Stages, func(a, b Cost) int { return slices.Index(Stages(), a.Stage) - slices.Index(Stages(), b.Stage) })
	if r != nil {
		f.Memory = r.peak
	}
	return f, nil
}

// add adds a step to the cost of its stage.
func (c *Cost) add(s Step, state State, r *Rates) {
	units, missing := 1, 1 // a step that is not Divisible is one unit
	if state.Cells > 0 {
		units, missing = state.Cells, state.Missing
	} else if state.done() {
		missing = 0
	}
	c.Units, c.ToDo = c.Units+units, c.ToDo+missing
	if r == nil {
		return
	}
	if c.Seconds == nil {
		c.Seconds = &Seconds{}
	}
	if missing == 0 {
		return
	}
	takes, bytes := r.unit(s)
	*c.Seconds = c.Seconds.plus(takes.times(float64(missing)))
	c.Bytes += bytes * int64(missing)
	if _, shared := s.(Shareable); !shared {
		c.Longest = max(c.Longest, takes.Most)
	}
}

// Print writes the forecast as a table.
func (f Forecast) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var all *Seconds
	for i, c := range f.Stages {
		head, row := "stage\tunits\tto do", fmt.Sprintf("%s\t%d\t%d", c.Stage, c.Units, c.ToDo)
		if c.Seconds != nil {
			if all == nil {
				all = &Seconds{}
			}
			*all = all.plus(*c.Seconds)
			head, row = head+"\tthis machine\tdisk", row+fmt.Sprintf("\t%s\t%s", c.Seconds, hdf5.MB(c.Bytes))
		}
		if i == 0 {
			fmt.Fprintln(w, head)
		}
		fmt.Fprintln(w, row)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the forecast: %w", err)
	}
	if all != nil {
		fmt.Fprintf(out, "%s on this machine alone; measuring took %s of memory\n", all, hdf5.MB(f.Memory))
	} else {
		fmt.Fprintln(out, "--measure adds times, disk and memory, --verbose lists every unit")
	}
	if f.Jobs != nil {
		fmt.Fprintf(out, "%s as batch jobs on machines like this one, without the time in the queue\n", f.Jobs)
	}
	_, err := fmt.Fprintf(out, "%d cells, %d of them to do\n", f.Cells, f.ToDo)
	return err
}

// Rates are the times that this machine takes for units of a grid's work.
type Rates struct {
	peak int64 // peak resident memory while measuring, in bytes

	// Trainings and plans take about equally long for all methods of a family and all
	// tasks, so that one of each is measured.
	episode  map[string]collected                // collecting one episode, by task
	step     map[string]Seconds                  // one training step, by family
	weights  map[string]int64                    // bytes of a training's folder, by family
	planned  map[[2]string]map[eval.Tier]Seconds // one episode, by {family ("" for random actions), solver}
	analysis map[string]Seconds                  // mean of the analyses, by family
	simulate map[string]eval.SimulatorTime       // by task, if an arm searches in the simulator
}

// collected is the average episode of a data set.
type collected struct {
	takes       Seconds
	rows, bytes float64
	episodes    int // of a given data set; 0: the preset's
}

// unit returns the time and disk space of one unit of a step: a data set, a training or
// a cell.
func (r *Rates) unit(s Step) (Seconds, int64) {
	// Two small files; disk space is allocated in blocks of the file system.
	const cellBytes = 4 << 10
	switch s := s.(type) {
	case *Collect:
		e, n := r.episode[s.task.Spec.Name], float64(s.spec().Episodes)
		return e.takes.times(n), int64(e.bytes * n)
	case *Train:
		if !s.method.Trained() {
			return Seconds{}, r.weights[s.method.Family]
		}
		return r.step[s.method.Family].times(r.steps(s)), r.weights[s.method.Family]
	case *Evaluate:
		g, task := &s.w.Grid, s.task.Spec.Name
		n := float64(atMost(g.Episodes, g.Preset.Eval.AtMost[task]))
		return r.plan(s).times(n), cellBytes
	case *Analyse:
		return r.analysis[s.method.Family], cellBytes
	}
	return Seconds{}, 0 // the choice of a temperature
}

// steps returns the number of optimiser steps of a training. If the preset counts
// epochs, the clips of an epoch are estimated by the rows of the training episodes.
// That is an upper bound, since the last rows of an episode begin no clip.
func (r *Rates) steps(s *Train) float64 {
	recipe, err := s.training().recipe()
	if err != nil || recipe.Train.Steps > 0 {
		return float64(recipe.Train.Steps)
	}
	task := s.task.Spec.Name
	e := r.episode[task]
	rows := e.rows * float64(cmp.Or(e.episodes, s.w.Grid.Preset.Collect.EpisodesOf(task))) * trainingPart
	return float64(recipe.Train.Epochs) * rows / float64(recipe.Train.Batch)
}

// trainingPart is the fraction of rows that are not held out for validation.
const trainingPart = 0.9

// plan returns the time of an episode at the step's tier: measured, or extrapolated
// from the largest measured tier in proportion to the number of rollouts. For a search in the
// simulator it is that of its steps and frames.
func (r *Rates) plan(s *Evaluate) Seconds {
	if replaced := s.method.Replaced; replaced.Simulator {
		rules := s.w.Grid.For(s.task.Spec.Name)
		t := r.simulate[s.task.Spec.Name].Plan(replaced.Draws(), s.tier, rules, s.w.Workers) * float64(eval.Plans(rules))
		return Seconds{t, t}
	}
	tiers := r.planned[[2]string{s.method.Family, s.solver}]
	tier, _ := s.tier.For(s.solver)
	if t, ok := tiers[tier]; ok {
		return t
	}
	var most eval.Tier
	for t := range tiers {
		if work(t) > work(most) {
			most = t
		}
	}
	return tiers[most].times(float64(work(tier)) / float64(max(work(most), 1)))
}

// work returns the number of rollouts of a plan.
func work(t eval.Tier) int { return t.Candidates * t.Iterations }

// A measurement is repeated with more work until it takes at least enough, so that
// the clock's resolution and start-up do not matter, and is not repeated after one
// that took plenty.
const (
	enough = time.Second
	plenty = 5 * time.Second
)

// trialTask is the task on which trainings and plans are timed. The task makes hardly
// any difference to them, and this one draws its frames fastest.
const trialTask = "tworoom"

// Measure runs the workspace's steps with the preset's geometry on a few episodes and
// for a few training steps, in a temporary folder, and returns their rates.
func (w *Workspace) Measure(ctx context.Context) (*Rates, error) {
	dir, err := os.MkdirTemp("", "scalewm-measure-")
	if err != nil {
		return nil, fmt.Errorf("measuring rates: %w", err)
	}
	defer os.RemoveAll(dir)
	r := &Rates{episode: map[string]collected{}, step: map[string]Seconds{}, weights: map[string]int64{},
		planned: map[[2]string]map[eval.Tier]Seconds{}, analysis: map[string]Seconds{}, simulate: map[string]eval.SimulatorTime{}}
	for _, task := range w.Grid.Tasks {
		if slices.ContainsFunc(w.Grid.Methods, func(m model.Method) bool { return m.Replaced.Simulator }) {
			if r.simulate[task.Spec.Name], err = eval.TimeSimulator(task, w.Grid.For(task.Spec.Name)); err != nil {
				return nil, fmt.Errorf("measuring the simulator of %s: %w", task.Spec.Name, err)
			}
		}
		if err := w.timeCollect(ctx, r, dir, task); err != nil {
			return nil, fmt.Errorf("measuring how fast %s is collected: %w", task.Spec.Name, err)
		}
	}
	if err := w.timeArms(ctx, r, dir); err != nil {
		return nil, fmt.Errorf("measuring trainings, plans and analyses: %w", err)
	}
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return nil, fmt.Errorf("reading the memory use of this process: %w", err)
	}
	r.peak = use.Maxrss << 10 // Linux reports KiB
	return r, nil
}

// trial returns a workspace like w whose steps read the given data set and checkpoints,
// by family, and write no results.
func (w *Workspace) trial(data string, checkpoints map[string]string) *Workspace {
	o := w.Options
	o.BreakLock, o.Remote, o.Listener = false, nil, silent{}
	t := NewWorkspace(w.Grid, "", o)
	t.data, t.weights = data, checkpoints
	return t
}

// silent is a Listener that ignores everything.
type silent struct{}

func (silent) Begin(string, int, int)        {}
func (silent) Progress(int64, int64, string) {}
func (silent) Note(string)                   {}
func (silent) End(string, string)            {}
func (silent) Failed(string, error)          {}

// timeDoubling times n units of work, then 2n, 4n and so on. The time of a unit is that of
// the additional work of a round, (T(2n)-T(n))/n, which cancels the start-up time.
// The range covers the last two such estimates.
func timeDoubling(ctx context.Context, n int, run func(n int) error) (unit Seconds, err error) {
	var before time.Duration
	last := 0.0
	for round := 0; ; round++ {
		began := time.Now()
		if err := run(n); err != nil {
			return unit, err
		}
		if ctx.Err() != nil {
			return unit, ctx.Err()
		}
		// The first round did all n units; each later one n/2 more than the round before.
		took, further := time.Since(began), n
		if round > 0 {
			further = n / 2
		}
		each := max(0, (took-before).Seconds()/float64(further))
		if round > 1 && took > enough {
			unit = unit.with(last)
		}
		if took > plenty || round > 1 && took > enough {
			return unit.with(each), nil
		}
		before, last, n = took, each, 2*n
	}
}

// timeCollect measures how long collecting an episode of a task takes. Of a given data set
// it reads the size.
func (w *Workspace) timeCollect(ctx context.Context, r *Rates, dir string, task envs.Task) error {
	if path := w.Grid.Data[task.Spec.Name]; path != "" {
		file, err := hdf5.Open(path)
		if err != nil {
			return err
		}
		n := len(file.Episodes())
		r.episode[task.Spec.Name] = collected{rows: float64(file.Rows()) / float64(n), episodes: n}
		return file.Close()
	}
	o, p := w.trial("", nil).Options, w.Grid.Preset.Collect
	var last collect.Result
	takes, err := timeDoubling(ctx, 2, func(n int) (err error) {
		spec := collect.Spec{Task: task.Spec.Name, Policy: p.Policy, Episodes: n, Seed: p.Seed}
		last, _, err = CollectData(ctx, filepath.Join(dir, fmt.Sprintf("%s-%d.h5", spec.Task, n)), spec, cell.Shard{}, o)
		return err
	})
	n := float64(last.Episodes)
	r.episode[task.Spec.Name] = collected{takes: takes, rows: float64(last.Rows) / n, bytes: float64(last.Bytes) / n}
	return err
}

// timeArms measures the first method of each family, on Two-Room. Methods with the
// most loss terms come first, because their steps take longest.
func (w *Workspace) timeArms(ctx context.Context, r *Rates, dir string) error {
	task, err := envs.Lookup(trialTask)
	if err != nil {
		return err
	}
	const episodes = 32 // clips for a batch, starts for a set
	data := filepath.Join(dir, "trial.h5")
	if _, _, err := CollectData(ctx, data, collect.Spec{Task: trialTask, Episodes: episodes, Seed: 1}, cell.Shard{}, w.trial("", nil).Options); err != nil {
		return err
	}
	timed, made := map[string]bool{}, map[string]string{}
	for _, m := range w.Grid.timedMethods() {
		if timed[m.Family] || m.Latents().Pretrained && w.Backbone == nil {
			continue
		}
		timed[m.Family] = true
		if err := w.timeArm(ctx, r, dir, data, made, arm{task: task, method: m, seed: w.Grid.Seeds[0]}); err != nil {
			return err
		}
	}
	return nil
}

// timedMethods returns the grid's methods in the order in which they are measured: policies
// come after the world models that encode their frames.
func (g *Grid) timedMethods() []model.Method {
	all := append(append(g.Worlds(), g.Methods...), g.Proposals...)
	all = slices.DeleteFunc(all, func(m model.Method) bool { return m.Replaced != model.Replacement{} })
	late := func(m model.Method) int {
		if m.Policy {
			return 1
		}
		return -len(m.Terms)
	}
	slices.SortStableFunc(all, func(a, b model.Method) int { return late(a) - late(b) })
	return all
}

// timeArm trains an arm for some steps, plans with it, and analyses it. made has the
// checkpoints of the families that were timed before; timeArm adds the arm's.
func (w *Workspace) timeArm(ctx context.Context, r *Rates, dir, data string, made map[string]string, a arm) (err error) {
	family, checkpoint := a.method.Family, ""
	// The training measures the median time of its steps, which is more precise than the
	// time of the entire call with its start-up and checkpoints.
	var clocks []float64 // seconds per step, one for each run
	run := func(n int) error {
		checkpoint = filepath.Join(dir, fmt.Sprintf("%s-%d", a.method.Name, n))
		made[family] = checkpoint
		t := w.trial(data, made)
		defer t.Close()
		t.Grid.Preset.SetSteps(n)
		if _, err := (&Train{w: t, arm: a}).Run(ctx); err != nil || !a.method.Trained() {
			return err
		}
		clock, err := train.ReadClock(checkpoint)
		clocks = append(clocks, clock.MsStep/1000)
		return err
	}
	switch {
	case a.method.Trained():
		if _, err = timeDoubling(ctx, 2, run); err != nil {
			return err
		}
		for _, step := range clocks[max(0, len(clocks)-2):] {
			r.step[family] = r.step[family].with(step)
		}
	case a.method.Plans():
		if err := run(1); err != nil {
			return err
		}
	}
	for _, e := range entries(checkpoint) { // of the last run
		if info, err := os.Stat(e); err == nil {
			r.weights[family] += info.Size()
		}
	}
	t := w.trial(data, made)
	defer t.Close()
	t.Grid.Seeds = []int64{a.seed}
	t.Grid.Temperature = max(t.Grid.Temperature, 0) // Tuned is negative; do not tune for a measurement
	t.Grid.Episodes, t.Grid.Sets = min(w.Grid.Episodes, 8), eval.SetNames()[:1]
	for _, g := range w.Grid.Also {
		for _, solver := range g.Solvers {
			if !slices.Contains(t.Grid.Solvers, solver) {
				t.Grid.Solvers = append(slices.Clip(t.Grid.Solvers), solver)
			}
		}
	}
	t.Grid.Also = nil
	if w.Planner != nil {
		if err := t.timePlans(ctx, r, a); err != nil {
			return err
		}
	}
	for _, s := range analyseSteps(t, a) {
		if w.Analyser == nil {
			break
		}
		began := time.Now()
		if _, err := s.Run(ctx); err != nil {
			return err
		}
		each := time.Since(began).Seconds() / float64(s.(*Analyse).Len())
		r.analysis[family] = Seconds{each, each}
	}
	return nil
}

// timePlans evaluates an arm twice with each solver, starting at the smallest tier,
// until a tier takes at least enough; larger tiers are extrapolated. It writes
// nothing.
func (t *Workspace) timePlans(ctx context.Context, r *Rates, a arm) error {
	steps := evaluateSteps(t, a)
	slices.SortStableFunc(steps, func(x, y Step) int { return work(x.(*Evaluate).tier) - work(y.(*Evaluate).tier) })
	slow := map[string]bool{} // solvers that need no larger tier
	for _, step := range steps {
		s := step.(*Evaluate)
		if slow[s.solver] {
			continue
		}
		j, err := s.Job()
		if err != nil {
			return err
		}
		agent, err := t.evaluation(j, a).Load()
		if err != nil {
			return err
		}
		var each Seconds
		for range 2 {
			began := time.Now()
			if _, err := eval.Run(ctx, j, agent); err != nil {
				return err
			}
			took := time.Since(began)
			each = each.with(took.Seconds() / float64(t.Grid.Episodes))
			if slow[s.solver] = took > enough; took > plenty {
				break
			}
		}
		key := [2]string{a.method.Family, s.solver}
		if r.planned[key] == nil {
			r.planned[key] = map[eval.Tier]Seconds{}
		}
		r.planned[key][j.Tier] = each
	}
	return nil
}
