package pipeline

import (
	"cmp"
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

// Evaluate is the step that computes an arm's cells of one solver and tier, one per
// set, in cells/, from the arm's checkpoint and the task's data set. The first such
// step of a method on a task also makes a film of one episode,
// watch/TASK-METHOD-TIER.gif.
type Evaluate struct {
	w *Workspace
	arm
	solver string    // "" for random actions
	tier   eval.Tier // the zero value for random actions
	sets   []int     // indices in the task's list of sets
	film   bool
	tune   *Tune // the step that tunes MPPI's temperature; nil if it is not tuned
	id     string
	ids    []string // cached ids of its cells; nil until they can be named
	done   bool     // cached: the last State found nothing missing

	Cells []results.Cell // set by Run: existing and new cells
}

// evaluateSteps returns an arm's evaluations: one for each solver and tier, or a
// single one for a policy and for random actions.
func evaluateSteps(w *Workspace, a arm) (out []Step) {
	g := &w.Grid
	all := Evaluate{w: w, arm: a}
	for i := range g.sets(a.task.Spec.Name) {
		all.sets = append(all.sets, i)
	}
	if !a.method.Plans() {
		all.film, all.id = a.seed == g.Seeds[0] && g.suffix == "", "evaluate "+a.name()+g.suffix
		return []Step{&all}
	}
	for i, solver := range g.Solvers {
		if solver == results.Descent && (a.method.NoGradient || a.method.Replaced.Simulator) {
			continue
		}
		for k, tier := range g.tiers(a.method) {
			if only, ok := g.Preset.Eval.TiersOf[solver]; ok && !slices.Contains(only, tier.Name) {
				continue
			}
			s := all
			s.solver, s.tier, s.film = solver, tier, i == 0 && k == 0 && a.seed == g.Seeds[0] && g.suffix == ""
			s.id = strings.Join([]string{"evaluate", a.name(), solver, tier.Name}, " ") + g.suffix
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

// Needs implements Step. The training comes first: shards keep evaluations of the
// same checkpoint together.
func (s *Evaluate) Needs() (ids []string) {
	if s.method.HasModel() {
		ids = append(ids, trainID(s.searcher()))
	}
	if s.proposal != "" {
		ids = append(ids, trainID(s.proposer()))
	}
	if s.tune != nil {
		ids = append(ids, s.tune.ID())
	}
	return append(ids, collectID(s.task))
}

// Len and Part implement Divisible.
func (s *Evaluate) Len() int { return len(s.sets) }

// Part implements Divisible.
func (s *Evaluate) Part(ours func(cell int) bool) Divisible {
	part := *s
	part.sets, part.ids = nil, nil
	for i, set := range s.sets {
		if ours(i) {
			part.sets = append(part.sets, set)
		}
	}
	// The shard with the first set makes the film, whatever the number of shards.
	part.film = s.film && len(part.sets) > 0 && part.sets[0] == s.sets[0]
	return &part
}

// State implements Step. The ids of the cells depend on the data set, the checkpoint
// and the tuned temperature. Until those exist, all cells count as missing.
func (s *Evaluate) State(context.Context) (State, error) {
	all := len(s.sets)
	if s.done && s.w.listing != nil { // the listing did not change since
		return State{Text: fmt.Sprintf("0 of %d cells to do", all), Cells: all}, nil
	}
	todo, torn := s.sets, []string(nil) // all, if the cells cannot be named yet
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
	return State{Text: text, Cells: all, Missing: len(todo)}, ignoreMissing(err)
}

// Job returns the step's evaluation. The error wraps fs.ErrNotExist if the data set,
// the checkpoint or the tuned temperature is missing.
func (s *Evaluate) Job() (eval.Job, error) {
	t, d, err := s.w.openSets(s.task)
	if err != nil {
		return eval.Job{}, err
	}
	var sets []eval.Set
	for _, i := range s.sets {
		sets = append(sets, d.sets[i])
	}
	a := eval.Arm{Method: s.method.Name}
	if s.method.HasModel() {
		if a, err = s.w.describe(t, s.w.checkpoint(s.arm)); err == nil {
			a, err = Proposing(a, s.w.proposal(s.arm), s.task)
		}
		if err != nil {
			return eval.Job{}, err
		}
	}
	a.Replaced = s.method.Replaced
	j := s.w.job(t, d.data, a, sets)
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

// Run computes the missing cells. It loads the model only for them and for the film.
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
	if text := assumed(s.w.Grid.Rules, j); text != "" && !s.w.opened.assumed {
		s.w.Listener.Note(text)
		s.w.opened.assumed = true
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
	failed := failures(made, nil)
	if len(s.Cells) == 0 {
		return "", failed
	}
	success := 0.0
	for _, c := range s.Cells {
		success += c.Result.Rate() / float64(len(s.Cells))
	}
	outcome := fmt.Sprintf("%d new of %d cells, success %.1f %%, %s", len(made.Evaluated)-len(failed), len(s.sets), success, since(began))
	if note := infer.ScoreOf(s.Cells).Note(); note != "" {
		outcome += "; " + note
	}
	if len(failed) > 0 {
		return outcome, failed
	}
	return outcome, nil
}

// filmOf returns the tier in the film's name. Random actions have no tier; their film
// is named after the grid's first, to be found next to the films of the methods.
func (s *Evaluate) filmOf() string { return cmp.Or(s.tier.Name, s.w.Grid.Tiers[0].Name) }

// found implements Divisible. If the cells cannot be named yet, there are none.
func (s *Evaluate) found(context.Context) (ids []string, err error) {
	if s.ids == nil {
		j, err := s.Job()
		if err != nil {
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
