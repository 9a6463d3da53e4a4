package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval/analysis"
	"scalewm/eval/results"
	"scalewm/model"
)

// Analyse measures an arm's checkpoint beside its success, a cell in cells/ for
// each analysis. That of dynamics leaves, of a method's first seed on a task, a film of
// what the model imagines too, watch/TASK-METHOD-imagined.gif.
type Analyse struct {
	w *Workspace
	arm
	names []string

	Results results.Results // after Run: the existing results and the new ones
	ids     []string        // of its cells
}

func analyseSteps(w *Workspace, a arm) []Step {
	names := Analyses(w.Grid.Analyses, a.task, a.method)
	if len(names) == 0 {
		return nil
	}
	return []Step{&Analyse{w: w, arm: a, names: names}}
}

// Analyses are those of names that a method has on a task; none if it does not plan. Rollouts need a
// simulator, and a predictor as it is initialised ignores actions, so that its rollouts have no order.
func Analyses(names []string, task envs.Task, m model.Method) (out []string) {
	for _, name := range names {
		if m.Plans() && (name != results.RolloutAnalysis || m.Trained() && task.New != nil) {
			out = append(out, name)
		}
	}
	return out
}

func (s *Analyse) ID() string      { return "analyse " + s.name() }
func (s *Analyse) Stage() Stage    { return StageAnalyse }
func (s *Analyse) Needs() []string { return []string{trainID(s.arm), collectID(s.task)} }

// Len and Part implement Divisible.
func (s *Analyse) Len() int { return len(s.names) }

func (s *Analyse) Part(ours func(cell int) bool) Divisible {
	part := *s
	part.names = nil
	for i, name := range s.names {
		if ours(i) {
			part.names = append(part.names, name)
		}
	}
	return &part
}

func (s *Analyse) State(ctx context.Context) (State, error) {
	if slices.Contains(s.names, results.RolloutAnalysis) {
		if err := s.w.Grid.Rollouts.Check(s.task.Spec.Name, s.w.Grid.Protocol); err != nil {
			return State{}, Requestf("%v", err)
		}
	}
	all, todo := len(s.names), s.names
	j, err := s.job()
	if err == nil && s.w.Analyser == nil {
		var found []string
		found, err = s.found(ctx)
		todo = todo[len(found):]
	} else if err == nil {
		var store cell.Store
		if store, err = s.w.listed(false); err == nil {
			_, todo, err = j.Load(store, s.names)
		}
	}
	return State{Text: fmt.Sprintf("%d of %d analyses to do", len(todo), all), Cells: all, Missing: len(todo)}, notYet(err)
}

// found implements Divisible. If this run makes no cells, they may have been made on any device.
func (s *Analyse) found(ctx context.Context) (ids []string, err error) {
	j, err := s.job()
	if s.ids != nil || err != nil { // what its cells are named by is not there
		return s.ids, nil
	}
	all, err := s.w.analyses(ctx)
	for _, name := range s.names {
		if id, ok := all[j.Spec(name)]; ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// job is the analysis of the arm's checkpoint.
func (s *Analyse) job() (j analysis.Job, err error) {
	t, err := s.w.openSets(s.task)
	if err != nil {
		return j, err
	}
	dir, kind := s.w.checkpoint(s.arm), ""
	if s.w.Analyser != nil {
		kind = s.w.Analyser.Kind().String()
	}
	a, err := s.w.look(t, dir)
	return analysis.Job{Job: s.w.job(t, a, nil), Settings: s.w.Grid.Rollouts, Device: kind, Checkpoint: dir}, err
}

// Run makes the missing cells; the model is loaded only for them.
func (s *Analyse) Run(ctx context.Context) (string, error) {
	began := time.Now()
	j, err := s.job()
	if err != nil {
		return "", err
	}
	store, err := s.w.missing(func(c cell.Store) (int, error) {
		_, missing, err := j.Load(c, s.names)
		return len(missing), err
	})
	if err == nil && s.seed == s.w.Grid.Seeds[0] && slices.Contains(s.names, results.DynamicsAnalysis) {
		j.Film, err = MissingFilm(s.w.dir, s.task, s.label(), results.Imagined, false, s.w.Listener.Note)
	}
	if err != nil {
		return "", err
	}
	r, made, err := analysis.Run(ctx, store, j, s.names, func() (model.World, error) {
		s.w.seen = nil
		return s.w.load(s.w.Analyser, j.Job, j.Checkpoint)
	})
	if err != nil {
		return "", err
	}
	if s.ids, err = j.IDs(s.names); err != nil {
		return "", err
	}
	s.Results = r
	return fmt.Sprintf("%d new of %d analyses, %s", made, len(s.names), since(began)), nil
}
