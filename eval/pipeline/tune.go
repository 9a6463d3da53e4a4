package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/tensorfile"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// Tune is the step that chooses MPPI's temperature on a task with the baseline's
// checkpoint. Its result is a cell in tuning/, next to the cells of the evaluations
// that it is based on.
type Tune struct {
	w *Workspace
	arm
	choice *eval.Choice // cached; nil until it was read or made
}

// tuneSteps returns the tuning step of a task and the training that it needs, if a
// method of the grid plans at a tuned temperature.
func tuneSteps(w *Workspace, a arm) []Step {
	g := &w.Grid
	if !slices.ContainsFunc(g.Methods, func(m model.Method) bool { return tuned(g.Rules, g.Solvers, m) }) {
		return nil
	}
	t := newTune(w, a)
	return []Step{w.trainingOf(t.arm), t}
}

// newTune returns the tuning step for an arm's task. It always uses the baseline with
// the grid's first seed: all arms share one temperature.
func newTune(w *Workspace, a arm) *Tune {
	a.method, a.seed, a.variant = baseline(), w.Grid.Seeds[0], variant{}
	return &Tune{w: w, arm: a}
}

// baseline returns the method on which temperatures are tuned.
func baseline() model.Method {
	m, err := model.LookUp(model.Baseline)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	return m
}

// tuned reports whether a method's evaluations with MPPI need a tuned temperature.
func tuned(r results.Rules, solvers []string, m model.Method) bool {
	return r.Temperature == results.Tuned && slices.Contains(solvers, results.MPPI) && m.Plans() && m.Group == baseline().Group
}

func (s *Tune) ID() string      { return "tune " + s.name() }
func (s *Tune) Stage() Stage    { return StageTrain }
func (s *Tune) Needs() []string { return []string{trainID(s.arm), collectID(s.task)} }

// State implements Step. A choice whose checkpoint is missing or damaged counts as to
// do.
func (s *Tune) State(context.Context) (State, error) {
	_, err := s.chosen()
	switch {
	case errors.Is(err, cell.ErrTorn):
		return State{Text: "to do again: the choice is torn"}, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, tensorfile.ErrDamaged):
		return toDo, nil
	}
	return done, err
}

// chosen returns the existing choice. The error wraps fs.ErrNotExist if there is
// none.
func (s *Tune) chosen() (eval.Choice, error) {
	if s.choice != nil {
		return *s.choice, nil
	}
	j, err := s.job()
	if err != nil {
		return eval.Choice{}, err
	}
	c, err := eval.Tuned(s.w.tuning(), j)
	if err == nil {
		s.choice = &c
	}
	return c, err
}

// job returns the evaluation of the baseline on the tuning set, without a solver.
func (s *Tune) job() (j eval.Job, err error) {
	t, d, err := s.w.openSets(s.task)
	if err != nil {
		return j, err
	}
	a, err := s.w.describe(t, s.w.checkpoint(s.arm))
	if err != nil {
		return j, err
	}
	return tuningJob(s.w.job(t, d.data, a, d.sets))
}

// tuningJob returns j on the tuning set, with as many episodes as j's sets have.
func tuningJob(j eval.Job) (eval.Job, error) {
	set, err := j.Data.Set(results.TuningSet, len(j.Sets[0].Starts))
	j.Sets = []eval.Set{set}
	return j, err
}

// Run implements Step. Tuning resumes at the first missing evaluation.
func (s *Tune) Run(ctx context.Context) (string, error) {
	began := time.Now()
	j, err := s.job()
	if err != nil {
		return "", err
	}
	e := s.w.evaluation(j, s.arm)
	e.Store = s.w.tuning()
	c, err := eval.Tune(ctx, e)
	if err != nil {
		return "", err
	}
	s.choice = &c
	return fmt.Sprintf("temperature %g of %v, %s", c.Temperature, c.Ladder, since(began)), nil
}
