package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model/weights"
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
	done   bool            // nothing was missing when it was asked last
	made   map[string]bool // after Run: the sets whose cells it made or failed to make

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
			if solver == results.MPPI && g.tuned(a.method) {
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
	part.sets = nil
	for i, set := range s.sets {
		if ours(i) {
			part.sets = append(part.sets, set)
		}
	}
	part.film = s.film && len(part.sets) > 0 && part.sets[0] == s.sets[0] // one film, whatever the shards
	return &part
}

func (s *Evaluate) State(context.Context) (State, error) {
	missing, torn := len(s.sets), 0
	if s.done && s.w.seen != nil { // the listing holds still
		return State{Text: fmt.Sprintf("0 of %d cells to do", missing), Cells: missing}, nil
	}
	j, err := s.Job()
	if err == nil {
		store, err := s.w.listed(false)
		if err != nil {
			return State{}, err
		}
		todo, broken, err := j.Missing(store)
		if err != nil {
			return State{}, err
		}
		missing, torn = len(todo), len(broken)
		s.done = missing == 0
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, weights.ErrDamaged) && !errors.Is(err, cell.ErrTorn) { // what it needs is not there yet
		return State{}, err
	}
	text := fmt.Sprintf("%d of %d cells to do", missing, len(s.sets))
	if torn > 0 {
		text += fmt.Sprintf(", %d of them torn", torn)
	}
	return State{Text: text, Cells: len(s.sets), Missing: missing}, nil
}

// Job is the step's evaluation. The model is there if it is the one that was
// used last; without it the job can be asked for its cells, but not run. Where
// the data set, the checkpoint or the temperature is missing, the error is
// fs.ErrNotExist.
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
	switch {
	case s.w.External != nil:
		a = *s.w.External
	case s.method.Plans():
		if a, err = s.w.look(t, s.w.checkpoint(s.arm)); err != nil {
			return eval.Job{}, err
		}
	}
	j := s.w.job(t, a, sets)
	if s.solver == "" {
		return j, nil
	}
	j.Solver = s.solver
	if j.Tier, err = s.tier.For(s.solver); err != nil || s.solver != results.MPPI {
		return j, err
	}
	temperature := s.w.Grid.Temperature
	if s.tune != nil {
		c, err := s.tune.chosen()
		if err != nil {
			return j, err
		}
		temperature = temperature.Chosen(c)
	}
	j.Temperature, err = temperature.For(s.task.Spec.Name, s.method.Name)
	return j, err
}

// Run makes the missing cells; a model is loaded only for them and for the film.
func (s *Evaluate) Run(ctx context.Context) (string, error) {
	began := time.Now()
	j, err := s.Job()
	if err != nil {
		return "", err
	}
	var todo []int
	var torn []string
	store, err := s.w.missing(func(c cell.Store) (int, error) {
		todo, torn, err = j.Missing(c)
		return len(todo), err
	})
	if err != nil {
		return "", err
	}
	for _, id := range torn {
		s.w.Listener.Note(fmt.Sprintf("cell %s is torn and is made again", id))
	}
	if t := s.w.now; s.solver == results.MPPI && s.w.Grid.Temperature.Assumed(s.task.Spec.Name) && !t.assumed {
		s.w.Listener.Note(fmt.Sprintf("the paper has no temperature of mppi on %s: %g is assumed", s.task.Spec.Name, j.Temperature))
		t.assumed = true
	}
	film := ""
	if s.film {
		if film, err = s.w.missingFilm(s.arm, j.Arm, s.filmOf()); err != nil {
			return "", err
		}
	}
	if j.Arm.Plans() && (len(todo) > 0 || film != "") {
		if j.Arm, err = s.w.load(s.w.now, s.w.checkpoint(s.arm)); err != nil {
			return "", err
		}
	}
	if len(todo) > 0 {
		s.w.seen = nil
	}
	s.made = map[string]bool{}
	for _, i := range todo {
		s.made[j.Sets[i].Name] = true
	}
	cells, failed, err := eval.Cells(ctx, store, j)
	if err == nil && film != "" && len(failed) == 0 {
		var f eval.Film
		if f, err = eval.Watch(ctx, j, 0); err == nil { // the first episode of the first set
			err = f.Save(film)
		}
	}
	if err != nil {
		return "", err
	}
	s.Cells = cells
	var parts Failures
	for _, f := range failed {
		parts = append(parts, fmt.Errorf("set %s: %w", f.Set, f.Err))
	}
	if len(cells) == 0 {
		return "", parts
	}
	success := 0.0
	for _, c := range cells {
		success += c.Result.Rate() / float64(len(cells))
	}
	outcome := fmt.Sprintf("%d new of %d cells, success %.1f %%, %s", len(todo)-len(failed), len(s.sets), success, since(began))
	if note := infer.ScoreOf(cells).Note(); note != "" {
		outcome += "; " + note
	}
	if len(parts) > 0 {
		return outcome, parts
	}
	return outcome, nil
}

// reused says which cells existed before Run, and when they were made; "" where none did.
func (s *Evaluate) reused() string {
	var sets, dates []string
	for _, c := range s.Cells {
		if s.made[c.Spec.Set] {
			continue
		}
		var run results.Run
		if s.w.cells().LoadRun(c.ID, &run) != nil || run.Started == "" { // which no result depends on
			run.Started = "at an unknown time"
		}
		sets, dates = append(sets, c.Spec.Set), append(dates, run.Started)
	}
	if len(sets) == 0 {
		return ""
	}
	slices.Sort(dates)
	return fmt.Sprintf("%s: %d of %d cells existed and were reused (%s), made %s", s.id, len(sets), len(s.sets), strings.Join(sets, ", "), strings.Join(slices.Compact([]string{dates[0], dates[len(dates)-1]}), " to "))
}

// filmOf is the tier that the film is called after. What does not search has none; its film
// carries the name of the first.
func (s *Evaluate) filmOf() string { return s.w.Grid.Tiers[0].Name }

// found are the ids of the step's cells that are there.
func (s *Evaluate) found() (ids []string, err error) {
	for _, c := range s.Cells {
		ids = append(ids, c.ID)
	}
	j, err := s.Job()
	if s.Cells != nil || err != nil { // what its cells are named by is not there
		return ids, nil
	}
	store, err := s.w.listed(false)
	if err != nil {
		return nil, err
	}
	all, err := j.IDs()
	for _, id := range all {
		switch err := store.Load(id, nil, nil); {
		case err == nil:
			ids = append(ids, id)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, cell.ErrTorn):
			return nil, err
		}
	}
	return ids, err
}

// Verify runs up to n cells of the grid's only arm again and compares them with
// those that are there.
func (w *Workspace) Verify(ctx context.Context, n int) ([]eval.Verdict, error) {
	var jobs []eval.Job
	for _, s := range Of[*Evaluate](w.Graph()) {
		j, err := s.Job()
		if err != nil {
			return nil, err
		}
		if s.method.Plans() {
			j.Arm = w.loaded.arm
		}
		jobs = append(jobs, j)
	}
	return eval.Verify(ctx, w.cells(), jobs, n)
}
