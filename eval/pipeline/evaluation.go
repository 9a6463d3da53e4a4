package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
)

// Axes are the solvers, tiers and sets of evaluations.
type Axes struct {
	Solvers []string
	Tiers   []eval.Tier
	Sets    []string
}

// ParseAxes parses comma-separated lists of solvers, tiers and sets. It returns a
// RequestError if a name is unknown or a solver lacks one of the tiers.
func ParseAxes(solvers, tiers, sets string) (Axes, error) {
	of, err := eval.ParseSolvers(solvers)
	at, err2 := eval.ParseTiers(tiers)
	on, err3 := eval.ParseSets(sets)
	err = cmp.Or(err2, err3, err)
	for _, solver := range of {
		for _, t := range at {
			_, unfit := t.For(solver)
			err = cmp.Or(err, unfit)
		}
	}
	if err != nil {
		err = Requestf("%v", err)
	}
	return Axes{of, at, on}, err
}

// ReadProtocol returns a protocol with some settings changed. They are given by their
// keywords (the flags of `scalewm eval` with underscores), of which "protocol" names the
// protocol; the default is paper. The error is a RequestError.
func ReadProtocol(given map[string]string) (*protocol.Definition, error) {
	d, err := protocol.Load(cmp.Or(given["protocol"], results.Paper))
	if err == nil {
		err = d.Change(given)
	}
	if err != nil {
		return nil, Requestf("%w", err)
	}
	return d, nil
}

// Request is an evaluation in terms of the flags of `scalewm eval`, as the command
// line and the Python package give it. Solver, tier, sets and episodes are those of the
// protocol if they are not given.
type Request struct {
	Task     string            `json:"task"`
	Data     string            `json:"data"` // the data set's file
	Out      string            `json:"out"`  // the results folder
	Solver   string            `json:"solver"`
	Tier     string            `json:"tier"`
	Sets     string            `json:"sets"`
	Settings map[string]string `json:"rules"` // see ReadProtocol
	Episodes int               `json:"episodes"`
	Batch    int               `json:"batch"` // see eval.Job
	Workers  int               `json:"workers"`
	Fresh    bool              `json:"fresh"` // replace existing cells and films; Python only
	// Unregistered is the task of an outside world, which Task names; nil for built-in tasks.
	Unregistered *envs.Task `json:"-"`
}

// Evaluation is the evaluation of one arm on a task, with solvers at tiers on sets.
type Evaluation struct {
	Request
	Task  envs.Task
	World *eval.World // simulates the task if it is not nil
	Axes
	TiersChosen bool // by the request or its protocol, see Grid
	results.Rules
	Version  string
	Listener Listener
}

// usualEpisodes is the number of episodes of a set if neither the request nor the protocol
// states one.
const usualEpisodes = 100

// Evaluation parses the request. The error is a RequestError.
func (r Request) Evaluation(version string, l Listener) (e Evaluation, err error) {
	e = Evaluation{Request: r, Version: version, Listener: l}
	p, err := ReadProtocol(r.Settings)
	if err != nil {
		return e, err
	}
	e.Episodes = cmp.Or(r.Episodes, p.Usual.Episodes, usualEpisodes)
	switch {
	case e.Episodes < 1:
		return e, Requestf("eval: --episodes %d: a set has at least one", r.Episodes)
	case r.Task == dataset.NoTask:
		return e, Requestf("eval: --task none has no simulator to act in (`scalewm analyse rank,spectrum,probe,dynamics` measures such a checkpoint; scalewm.evaluate(..., world=) in Python acts in any gymnasium environment)")
	}
	if r.Unregistered != nil {
		e.Task = *r.Unregistered
	} else if e.Task, err = envs.Lookup(r.Task); err != nil {
		return e, Requestf("eval: %v", err)
	}
	e.Rules, e.TiersChosen = p.For(r.Task), cmp.Or(r.Tier, p.Usual.Tier()) != ""
	e.Axes, err = ParseAxes(cmp.Or(r.Solver, p.Usual.Solver, results.CEM), cmp.Or(r.Tier, p.Usual.Tier(), "all"), cmp.Or(r.Sets, strings.Join(p.Usual.Sets, ","), "all"))
	return e, err
}

// Subject is what is evaluated: an arm and its loaded model.
type Subject struct {
	Name string // name of the checkpoint's folder or of the model, for messages
	eval.Arm
	eval.Agent
}

// Evaluated is the result of Evaluation.Run: scores, failures, and the result of the
// render gate in grey levels.
type Evaluated struct {
	Cells       []Score  `json:"cells"`
	Failed      []string `json:"failed"`
	RenderError float64  `json:"render_error"`
}

// Run computes the missing cells and the film, and returns the scores of all cells.
// Before it writes anything, it returns an error if the arm does not fit the task or
// if the results folder belongs to other data or another protocol. Cells that fail
// are listed in the result and do not end the run.
func (e Evaluation) Run(ctx context.Context, s Subject) (out Evaluated, err error) {
	out = Evaluated{Cells: []Score{}, Failed: []string{}} // in JSON empty lists, never null
	e = e.of(s)
	defer Tidy(e.Out)
	var cells []results.Cell
	// The name of the evaluations in messages: as steps of a grid, but without a seed for
	// arms that do not search.
	method := model.MethodOf(s.Method)
	if !s.Searches() {
		method.Family = ""
	}
	method.Replaced = s.Replaced
	name := arm{task: e.Task, method: method, seed: int64(s.TrainSeed)}.name()
	err = e.each(ctx, s, true, func(gate results.Gate, jobs []eval.Evaluation) error {
		out.RenderError = gate.Error
		film, err := MissingFilm(e.Out, e.Task, Label(e.Task, s.Arm), e.Tiers[0].Name, e.Fresh, e.Listener.Note)
		if err != nil {
			return err
		}
		for i, run := range jobs {
			if i == 0 {
				run.Film = film
			}
			id := evaluationID(name, run.Job)
			e.Listener.Begin(id, i+1, len(jobs))
			made, err := run.Run(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for _, err := range failures(made, err) {
				out.Failed = append(out.Failed, fmt.Sprintf("%s: %v", id, err))
				e.Listener.Failed(id, err)
			}
			e.Listener.End(id, "")
			if note := reused(run.Store, made); note != "" {
				e.Listener.Note(id + ": " + note)
			}
			cells = append(cells, made.Cells...)
		}
		out.Cells = Scores(cells)
		return nil
	})
	return out, err
}

// Verify evaluates up to n existing cells again and compares them; see eval.Verify.
func (e Evaluation) Verify(ctx context.Context, s Subject, n int) (out []eval.Verdict, err error) {
	err = e.of(s).each(ctx, s, false, func(_ results.Gate, jobs []eval.Evaluation) (err error) {
		var all []eval.Job
		for _, j := range jobs {
			all = append(all, j.Job)
		}
		out, err = eval.Verify(ctx, CellStore(e.Out), all, s.Agent, n)
		return err
	})
	return out, err
}

// of returns the evaluation with the tiers of a subject.
func (e Evaluation) of(s Subject) Evaluation {
	grid := Grid{Axes: e.Axes, TiersChosen: e.TiersChosen}
	all := len(e.Tiers)
	if e.Tiers = grid.tiers(model.Method{Replaced: s.Replaced}); len(e.Tiers) < all {
		e.Listener.Note(leftOut(Label(e.Task, s.Arm).String(), all-len(e.Tiers)))
	}
	return e
}

// open opens the data set and draws the sets. The caller calls done. Without a data set, the
// starts are those of an outside world.
func (e Evaluation) open() (data *eval.Data, sets []eval.Set, done func() error, err error) {
	done = func() error { return nil }
	if e.World != nil && e.Data == "" {
		data = eval.NewSeededData(e.Task, e.Rules)
		for _, name := range e.Axes.Sets {
			set, err := data.SeededSet(e.World, name, results.Folder(e.Out).Sets(), e.Episodes)
			if err != nil {
				return nil, nil, done, Requestf("%w", err)
			}
			sets = append(sets, set)
		}
		return data, sets, done, nil
	}
	file, err := hdf5.Open(e.Data)
	if err != nil {
		return nil, nil, done, err
	}
	data, sets, err = drawSets(file, e.Task, e.Rules, e.World, e.Axes.Sets, e.Episodes)
	return data, sets, file.Close, err
}

// each opens the data set, runs the render gate or the replay gate, and calls do with the evaluations,
// one for each solver and tier. If MPPI's temperature is to be tuned and mayChoose is
// set, it tunes it first.
func (e Evaluation) each(ctx context.Context, s Subject, mayChoose bool, do func(results.Gate, []eval.Evaluation) error) error {
	if (s.Python != "" && s.Searches() || s.Replaced.Simulator) && slices.Contains(e.Solvers, results.Descent) {
		return Requestf("solver %s needs a gradient, which neither a model in another program nor the simulator provides (hint: %s, %s or %s)", results.Descent, results.CEM, results.ICEM, results.MPPI)
	}
	data, sets, done, err := e.open()
	defer done()
	if err != nil {
		return err
	}
	j := eval.Job{Task: e.Task, Data: data, Outside: e.World, Arm: s.Arm, Rules: e.Rules, Sets: sets, Fresh: e.Fresh, Batch: e.Batch, Workers: e.Workers, Version: e.Version, Progress: e.Listener.Progress}
	if err = check(j, s.Agent, s.Name, e.Listener.Note); err == nil {
		err = CheckFolder(e.Out, e.Data, e.Task, data.Fingerprint)
	}
	if err != nil {
		return err
	}
	gate, err := e.gate(ctx, data, sets)
	if err != nil {
		return err
	}
	run := eval.Evaluation{Job: j, Store: CellStore(e.Out), Load: func() (eval.Agent, error) { return s.Agent, nil }, Note: e.Listener.Note}
	if !s.Searches() {
		return do(gate, []eval.Evaluation{run})
	}
	if tuned(j.Rules, e.Solvers, model.MethodOf(s.Method)) {
		store := results.Folder(e.Out).Tuning()
		c, err := eval.FindChoice(ctx, store, j)
		if errors.Is(err, fs.ErrNotExist) && mayChoose {
			choosing := run
			choosing.Store = store
			if choosing.Job, err = tuningJob(j); err == nil {
				c, err = eval.Tune(ctx, choosing)
			}
		}
		if err != nil {
			return err
		}
		j.Temperature = c.Temperature
	}
	// One evaluation per solver and tier, in the order of the flags.
	var all []eval.Evaluation
	for _, solver := range e.Solvers {
		if solver == results.Descent && model.MethodOf(s.Method).NoGradient {
			continue
		}
		for i, tier := range e.Tiers {
			if run.Job, err = planning(j, solver, tier); err != nil {
				return err
			}
			if text := assumed(e.Rules, run.Job); text != "" && i == 0 {
				e.Listener.Note(text)
			}
			all = append(all, run)
		}
	}
	return do(gate, all)
}

// gate compares the simulator with the data set, and writes the verdict and the sets.
func (e Evaluation) gate(ctx context.Context, data *eval.Data, sets []eval.Set) (results.Gate, error) {
	if e.World == nil {
		return renderGate(ctx, e.Out, data, sets, e.Listener.Note)
	}
	return replayGate(ctx, e.Out, data, e.World, sets, e.Listener.Note)
}

// planning returns j with a solver at a tier and, for MPPI, its temperature.
func planning(j eval.Job, solver string, tier eval.Tier) (_ eval.Job, err error) {
	j.Solver = solver
	if j.Tier, err = tier.For(solver); err == nil && solver == results.MPPI {
		j.Temperature, err = eval.Temperature(j.Rules, j.Task.Spec.Name, j.Arm.Method)
	}
	return j, err
}

// assumed returns a note if MPPI's temperature on the job's task is not one of the
// paper's but a default, else "".
func assumed(r results.Rules, j eval.Job) string {
	if task := j.Task.Spec.Name; j.Solver == results.MPPI && eval.AssumesTemperature(r, task) {
		return fmt.Sprintf("the paper has no temperature of mppi on %s: %g is assumed", task, j.Temperature)
	}
	return ""
}

// evaluationID returns the name of an evaluation, as the step of a grid has it:
// "evaluate tworoom lewm s3072 cem T1".
func evaluationID(name string, j eval.Job) string {
	return strings.TrimSpace(strings.Join([]string{"evaluate", name, j.Solver, j.Tier.Name}, " "))
}

// failures returns the failures of an evaluation's sets, and err as one more if it is
// not nil.
func failures(o eval.Outcome, err error) (out Failures) {
	for _, f := range o.Failed {
		out = append(out, fmt.Errorf("set %s: %w", f.Set, f.Err))
	}
	if err != nil {
		out = append(out, err)
	}
	return out
}

// reused returns a note on the cells that existed before an evaluation and when they
// were computed, or "" if there were none. Without it a user who changed nothing that
// matters would take old numbers for new ones.
func reused(store cell.Store, o eval.Outcome) string {
	var sets, dates []string
	for _, c := range o.Cells {
		if slices.Contains(o.Evaluated, c.Spec.Set) {
			continue
		}
		var run results.Run
		// The run file is informative only: without it the cell is still valid.
		if store.LoadRun(c.ID, &run) != nil || run.Started == "" {
			run.Started = "at an unknown time"
		}
		sets, dates = append(sets, c.Spec.Set), append(dates, run.Started)
	}
	if len(sets) == 0 {
		return ""
	}
	slices.Sort(dates)
	return fmt.Sprintf("%d of %d cells existed and were reused (%s), made %s", len(sets), len(o.Cells)+len(o.Failed), strings.Join(sets, ", "), strings.Join(slices.Compact([]string{dates[0], dates[len(dates)-1]}), " to "))
}
