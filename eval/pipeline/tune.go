package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/weights"
)

// Tune chooses MPPI's temperature on a task with the baseline's checkpoint. The
// choice, and the cells that it rests on, lie in tuning/.
type Tune struct {
	w *Workspace
	arm
	choice *eval.Choice // once it is known
}

// tuneSteps are the choice and the training that it needs, where methods of the
// grid plan at a tuned temperature.
func tuneSteps(w *Workspace, a arm) []Step {
	if !slices.ContainsFunc(w.Grid.Methods, w.Grid.tuned) {
		return nil
	}
	t := newTune(w, a)
	return []Step{&Train{w: w, arm: t.arm}, t}
}

// newTune is the choice for an arm's task. It is made with the first seed.
func newTune(w *Workspace, a arm) *Tune {
	a.method, a.seed, a.variant = baseline(), w.Grid.Seeds[0], variant{}
	return &Tune{w: w, arm: a}
}

func baseline() model.Method {
	m, err := model.LookUp(model.Baseline)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	return m
}

// tuned says whether a method's evaluations with MPPI wait for the choice.
func (g *Grid) tuned(m model.Method) bool {
	return g.Temperature.NeedsTuning() && slices.Contains(g.Solvers, results.MPPI) && m.Plans() && m.Group == baseline().Group
}

func (s *Tune) ID() string      { return "tune " + s.name() }
func (s *Tune) Stage() Stage    { return StageTrain }
func (s *Tune) Needs() []string { return []string{trainID(s.arm), collectID(s.task)} }

func (s *Tune) State(context.Context) (State, error) {
	_, err := s.chosen()
	switch {
	case errors.Is(err, cell.ErrTorn):
		return State{Text: "to do again: the choice is torn"}, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, weights.ErrDamaged):
		return toDo, nil
	}
	return done, err
}

// chosen is the choice that was made, fs.ErrNotExist where there is none yet.
func (s *Tune) chosen() (eval.Choice, error) {
	if s.choice != nil {
		return *s.choice, nil
	}
	j, err := s.job(s.w.look)
	if err != nil {
		return eval.Choice{}, err
	}
	c, err := eval.Tuned(s.w.tuning(), j)
	if err == nil {
		s.choice = &c
	}
	return c, err
}

// job is the baseline, as read gets it from its checkpoint, on the set that
// temperatures are chosen on.
func (s *Tune) job(read func(*openTask, string) (eval.Arm, error)) (j eval.Job, err error) {
	t, err := s.w.openSets(s.task)
	if err != nil {
		return j, err
	}
	a, err := read(t, s.w.checkpoint(s.arm))
	if err != nil {
		return j, err
	}
	set, err := t.data.Set(results.TuningSet, len(t.sets[0].Starts))
	return s.w.job(t, a, []eval.Set{set}), err
}

func (s *Tune) Run(ctx context.Context) (string, error) {
	began := time.Now()
	if _, err := s.chosen(); errors.Is(err, cell.ErrTorn) {
		s.w.Listener.Note(fmt.Sprintf("the temperature chosen on %s is torn and is chosen again", s.task.Spec.Name))
	}
	j, err := s.job(s.w.load)
	if err != nil {
		return "", err
	}
	c, err := eval.Tune(ctx, s.w.tuning(), j)
	if err != nil {
		return "", err
	}
	s.choice = &c
	return fmt.Sprintf("temperature %g of %v, %s", c.Temperature, c.Ladder, since(began)), nil
}

// UseChoice replaces a temperature that is to be tuned by the one that was chosen
// on the task's data in this folder, with whichever baseline. Where there is none
// and it may, it chooses one with the checkpoint Weights, which was loaded.
func (w *Workspace) UseChoice(ctx context.Context, task envs.Task, may bool) error {
	if !slices.ContainsFunc(w.Grid.Methods, w.Grid.tuned) {
		return nil
	}
	c, err := eval.FindChoice(ctx, w.tuning(), w.job(w.now, w.loaded.arm, w.now.sets))
	if errors.Is(err, fs.ErrNotExist) && may {
		s := newTune(w, arm{task: task})
		if _, err = s.Run(ctx); err == nil {
			c = *s.choice
		}
	}
	if err == nil {
		w.Grid.Temperature = w.Grid.Temperature.Chosen(c)
	}
	return err
}
