package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// Evaluate makes an arm's cells of one solver and tier in cells/, a cell for each
// set, from the arm's checkpoint and the task's data set. The first such step of
// a method on a task also leaves a film of one episode, watch/TASK-METHOD-TIER.gif.
type Evaluate struct {
	w *Workspace
	arm
	solver string    // "" for random actions
	tier   eval.Tier // without a name for random actions
	sets   []int     // of the task's sets
	film   bool
	tune   *Tune // what chooses MPPI's temperature, where that is tuned
	id     string
	ids    []string // of its cells, once they can be named
	done   bool     // nothing was missing when it was asked last

	Cells []results.Cell // after Run: the cells that are there
}

// evaluateSteps are an arm's evaluations: one for each solver and tier, one in
// all for what does not plan.
func evaluateSteps(w *Workspace, a arm) (out []Step) {
	g := &w.Grid
	all := Evaluate{w: w, arm: a}
	for i := range g.sets(a.task.Spec.Name) {
		all.sets = append(all.sets, i)
	}
	if !a.method.Plans() {
		all.film, all.id = true, "evaluate "+a.name()
		return []Step{&all}
	}
	for i, solver := range g.Solvers {
		if solver == results.Descent && a.method.NoGradient {
			continue
		}
		for k, tier := range g.Tiers {
			if only, ok := g.Preset.Eval.TiersOf[solver]; ok && !slices.Contains(only, tier.Name) {
				continue
			}
			s := all
			s.solver, s.tier, s.film = solver, tier, i == 0 && k == 0 && a.seed == g.Seeds[0]
			s.id = strings.Join([]string{"evaluate", a.name(), solver, tier.Name}, " ")
			if solver == results.MPPI && tuned(g.Rules, g.Solvers, a.method) {
				s.tune = newTune(w, a)
			}
			out = append(out, &s)
		}
	}
	return out
}

func (s *Evaluate) ID() string { return s.id }

func (s *Evaluate) Stage() Stage { return StageEval }

func (s *Evaluate) Needs() (ids []string) {
	if s.method.Plans() {
		ids = append(ids, trainID(s.arm))
	}
	if s.tune != nil {
		ids = append(ids, s.tune.ID())
	}
	return append(ids, collectID(s.task))
}

// Len and Part implement Divisible.
func (s *Evaluate) Len() int { return len(s.sets) }

func (s *Evaluate) Part(ours func(cell int) bool) Divisible {
	part := *s
	part.sets, part.ids = nil, nil
	for i, set := range s.sets {
		if ours(i) {
			part.sets = append(part.sets, set)
		}
	}
	part.film = s.film && len(part.sets) > 0 && part.sets[0] == s.sets[0] // one film, whatever the shards
	return &part
}

func (s *Evaluate) State(context.Context) (State, error) {
	all := len(s.sets)
	if s.done && s.w.seen != nil { // the listing is the same
		return State{Text: fmt.Sprintf("0 of %d cells to do", all), Cells: all}, nil
	}
	todo, torn := s.sets, []string(nil)
	j, err := s.Job()
	if err == nil {
		var store cell.Store
		if store, err = s.w.listed(false); err == nil {
			todo, torn, err = j.Missing(store)
		}
		s.done = err == nil && len(todo) == 0
	}
	text := fmt.Sprintf("%d of %d cells to do", len(todo), all)
	if len(torn) > 0 {
		text += fmt.Sprintf(", %d of them torn", len(torn))
	}
	return State{Text: text, Cells: all, Missing: len(todo)}, notYet(err)
}

// Job is the step's evaluation. Where the data set, the checkpoint or the temperature
// is missing, the error is fs.ErrNotExist.
func (s *Evaluate) Job() (eval.Job, error) {
	t, err := s.w.openSets(s.task)
	if err != nil {
		return eval.Job{}, err
	}
	var sets []eval.Set
	for _, i := range s.sets {
		sets = append(sets, t.sets[i])
	}
	a := eval.Arm{Method: s.method.Name}
	if s.method.Plans() {
		if a, err = s.w.look(t, s.w.checkpoint(s.arm)); err != nil {
			return eval.Job{}, err
		}
	}
	j := s.w.job(t, a, sets)
	if s.solver == "" {
		return j, nil
	}
	if s.tune != nil {
		c, err := s.tune.chosen()
		if err != nil {
			return j, err
		}
		j.Temperature = c.Temperature
	}
	return planning(j, s.solver, s.tier)
}

// Run makes the missing cells; a model is loaded only for them and for the film.
func (s *Evaluate) Run(ctx context.Context) (string, error) {
	began := time.Now()
	j, err := s.Job()
	if err != nil {
		return "", err
	}
	e := s.w.evaluation(j, s.arm)
	e.Store, err = s.w.missing(func(c cell.Store) (int, error) {
		todo, _, err := j.Missing(c)
		return len(todo), err
	})
	if err != nil {
		return "", err
	}
	if text := assumed(s.w.Grid.Rules, j); text != "" && !s.w.now.assumed {
		s.w.Listener.Note(text)
		s.w.now.assumed = true
	}
	if s.film {
		if e.Film, err = MissingFilm(s.w.dir, s.task, s.label(), s.filmOf(), false, s.w.Listener.Note); err != nil {
			return "", err
		}
	}
	made, err := e.Run(ctx)
	if err != nil {
		return "", err
	}
	s.Cells = made.Cells
	failed := parts(made, nil)
	if len(s.Cells) == 0 {
		return "", failed
	}
	success := 0.0
	for _, c := range s.Cells {
		success += c.Result.Rate() / float64(len(s.Cells))
	}
	outcome := fmt.Sprintf("%d new of %d cells, success %.1f %%, %s", len(made.Made)-len(failed), len(s.sets), success, since(began))
	if note := infer.ScoreOf(s.Cells).Note(); note != "" {
		outcome += "; " + note
	}
	if len(failed) > 0 {
		return outcome, failed
	}
	return outcome, nil
}

// filmOf is the tier that the film is called after. What does not search has none; its film
// carries the name of the first.
func (s *Evaluate) filmOf() string { return s.w.Grid.Tiers[0].Name }

// found implements Divisible.
func (s *Evaluate) found(context.Context) (ids []string, err error) {
	if s.ids == nil {
		j, err := s.Job()
		if err != nil { // what its cells are named by does not exist
			return nil, nil
		}
		if s.ids, err = j.IDs(); err != nil {
			return nil, err
		}
	}
	store, err := s.w.listed(false)
	for _, id := range s.ids {
		if store.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}
