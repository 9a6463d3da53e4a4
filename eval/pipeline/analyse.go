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

// Analyse is the step that measures properties of an arm's checkpoint other than its
// success: one cell in cells/ per analysis. For the first seed of a method on a task
// it also leaves the films of analysis.FilmTiers, such as that of imagined futures,
// watch/TASK-METHOD-imagined.gif.
type Analyse struct {
	w *Workspace
	arm
	names []string

	Results results.Results // set by Run: existing and new results
	ids     []string        // of its cells; set by Run
}

// analyseSteps returns the analysis of an arm, or none if no analysis applies to it.
func analyseSteps(w *Workspace, a arm) []Step {
	names := Analyses(w.Grid.Analyses, a.task, a.method)
	if len(names) == 0 {
		return nil
	}
	return []Step{&Analyse{w: w, arm: a, names: names}}
}

// Analyses returns those of names that apply to a method on a task; none if the
// method does not plan with a model of its own. The analysis of rollouts needs a simulator and a trained
// predictor: at initialisation the predictor ignores actions, so that its rollouts
// cannot be ranked.
func Analyses(names []string, task envs.Task, m model.Method) (out []string) {
	for _, name := range names {
		if m.Plans() && (m.Replaced == model.Replacement{}) && (name != results.RolloutAnalysis || m.Trained() && task.New != nil) {
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

// Part implements Divisible.
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

// State implements Step. Settings of the rollouts that cannot work are a RequestError
// here, before any step has run. Until the checkpoint exists, all analyses count as
// missing.
func (s *Analyse) State(ctx context.Context) (State, error) {
	if slices.Contains(s.names, results.RolloutAnalysis) {
		if err := s.w.Grid.Rollouts.Check(s.task.Spec.Name, s.w.Grid.Training()); err != nil {
			return State{}, Requestf("%v", err)
		}
	}
	all, todo := len(s.names), s.names
	j, err := s.job()
	// Analyses are specific to a kind of device. Without a device this run computes none
	// (a report or a shard of another stage), and existing cells of any device count.
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
	return State{Text: fmt.Sprintf("%d of %d analyses to do", len(todo), all), Cells: all, Missing: len(todo)}, ignoreMissing(err)
}

// found implements Divisible. If this run has no device for analyses, cells of any
// device count.
func (s *Analyse) found(ctx context.Context) (ids []string, err error) {
	j, err := s.job()
	if s.ids != nil || err != nil { // on an error the cells cannot be named yet
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

// job returns the analysis of the arm's checkpoint. The error wraps fs.ErrNotExist if
// the data set or the checkpoint is missing.
func (s *Analyse) job() (j analysis.Job, err error) {
	// Analyses do not depend on how the models are evaluated, except for what their
	// training held out.
	rules := results.Published()
	rules.Protocol = s.w.Grid.Training()
	t, err := s.w.open(s.task)
	if err != nil {
		return j, err
	}
	d, err := t.draw(rules, nil, 0)
	if err != nil {
		return j, err
	}
	dir, kind := s.w.checkpoint(s.arm), ""
	if s.w.Analyser != nil {
		kind = s.w.Analyser.Kind().String()
	}
	a, err := s.w.describe(t, dir)
	j.Job = s.w.job(t, d.data, a, nil)
	rules.Precision, rules.Origin = j.Precision, j.Origin
	j.Rules = rules
	return analysis.Job{Job: j.Job, Settings: s.w.Grid.Rollouts, Device: kind, Checkpoint: dir}, err
}

// Run computes the missing analyses. It loads the model only if some are missing.
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
	// One film of each kind per method and task is enough: that of the first seed.
	if err == nil && s.seed == s.w.Grid.Seeds[0] {
		j.Films, err = MissingFilms(s.w.dir, s.task, s.label(), s.names, s.w.Listener.Note)
	}
	if err != nil {
		return "", err
	}
	r, made, err := analysis.Run(ctx, store, j, s.names, func() (model.World, error) {
		s.w.listing = nil
		a, err := s.w.load(s.w.Analyser, j.Job, j.Checkpoint, "")
		return a.World, err
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
