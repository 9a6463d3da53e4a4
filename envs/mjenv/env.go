package mjenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"scalewm/envs"
	"scalewm/mujoco"
)

// Env is one running world of a Task: an envs.Env, Restarter, Controlled and Drawer.
type Env struct {
	task  *Task
	world World
	p     Physics
	last  envs.Outcome
}

func (e *Env) Spec() *envs.Spec { return e.task.Spec }

// change goes on in a world whose factors have these values.
func (e *Env) change(values []float64) error {
	if e.p.stage != nil && slices.Equal(values, e.p.stage.values) {
		return nil
	}
	s, err := e.task.stage(e.p.vary, values)
	if err != nil {
		return err
	}
	return e.enter(s)
}

// enter goes on in a stage.
func (e *Env) enter(s *stage) error {
	p := &e.p
	if s == p.stage {
		return nil
	}
	d, err := s.model.NewData()
	if err != nil {
		return e.failed("making a world", err)
	}
	if p.Data != nil {
		p.Data.Close()
	}
	p.stage, p.Data, p.QPos, p.QVel, p.Ctrl = s, d, d.QPos(), d.QVel(), d.Ctrl()
	p.seen, p.Kept = slices.Clone(p.QPos), nil
	p.arrays = map[string][]float64{"qpos": p.QPos, "qvel": p.QVel, ControlColumn: p.Ctrl, WarmstartColumn: mujoco.Array[float64](d, "qacc_warmstart")}
	p.computed = map[string]func([]float64){
		"time":       func(dst []float64) { dst[0] = p.Data.Time() },
		"substeps":   func(dst []float64) { dst[0] = float64(e.last.Substeps) },
		"reward":     func(dst []float64) { e.last.Observe("reward", dst) },
		"terminated": func(dst []float64) { e.last.Observe("terminated", dst) },
	}
	if err := e.world.Enter(p); err != nil {
		return e.failed("making a world", err)
	}
	return e.complete()
}

// complete says whether every column of the Spec is shown.
func (e *Env) complete() error {
	for _, c := range e.task.Spec.Columns {
		array, shown := e.p.arrays[c.Name]
		if shown && len(array) != c.Width {
			return fmt.Errorf("%s: column %s shows an array of %d numbers, not %d (hint: World.Enter)", e.task.Spec.Name, c.Name, len(array), c.Width)
		}
		if !shown && e.p.computed[c.Name] == nil {
			return fmt.Errorf("%s: nothing shows column %s (hint: Physics.Show or Physics.Compute in World.Enter)", e.task.Spec.Name, c.Name)
		}
	}
	return nil
}

// failed is an error of MuJoCo while it was doing something for this task.
func (e *Env) failed(doing string, err error) error {
	if errors.Is(err, mujoco.ErrDiverged) {
		return fmt.Errorf("%s: %s: %w: %w", e.task.Spec.Name, doing, envs.ErrDiverged, err)
	}
	return fmt.Errorf("%s: %s: %w", e.task.Spec.Name, doing, err)
}

// Reset draws the factors that vary, then lets the task start an episode.
func (e *Env) Reset(r *rand.Rand) error {
	values, err := e.p.vary.Draw(r, func(string, []float64) bool { return true })
	if err != nil {
		return err
	}
	if err := e.change(values); err != nil {
		return err
	}
	if err := e.p.Data.Reset(); err != nil {
		return e.failed("resetting", err)
	}
	e.last, e.p.HasGoal = envs.Outcome{}, false
	if err := e.world.Start(r); err != nil {
		return e.failed("starting an episode", err)
	}
	if err := e.p.Forward(); err != nil {
		return e.failed("starting an episode", err)
	}
	return nil
}

func (e *Env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(e.task.Spec, action); err != nil {
		return envs.Step{}, err
	}
	if err := e.world.Control(action); err != nil {
		return envs.Step{}, e.failed("finding the control of an action", err)
	}
	return e.drive()
}

func (e *Env) ControlColumn() string { return ControlColumn }

func (e *Env) StepControl(control []float64) (envs.Step, error) {
	if _, _, err := (envs.Row{ControlColumn: control}).First([]string{ControlColumn}, len(e.p.Ctrl)); err != nil {
		return envs.Step{}, e.failed("stepping", err)
	}
	copy(e.p.Ctrl, control)
	return e.drive()
}

func (e *Env) drive() (envs.Step, error) {
	s, err := e.world.Drive()
	if err != nil {
		return s, e.failed("stepping", err)
	}
	e.last = envs.Outcome{Step: s, Stepped: true}
	return s, nil
}

func (e *Env) Solved() bool { return e.world.Solved() }

// Frame draws things where MuJoCo has computed their places last.
func (e *Env) Frame(dst []byte) error {
	if err := pen.Render(context.Background(), e.p.Data, e.p.stage.camera, dst); err != nil {
		return e.failed("drawing", err)
	}
	return nil
}

func (e *Env) OneCore() []string { return pen.OneCore() }

func (e *Env) Observe(column string, dst []float64) error {
	c, ok := e.task.Spec.Column(column)
	if !ok {
		return e.p.vary.Observe(e.p.stage.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("%s: column %s has %d numbers, not %d", e.task.Spec.Name, column, c.Width, len(dst))
	}
	if array := e.p.arrays[column]; array != nil {
		copy(dst, array)
		return nil
	}
	e.p.computed[column](dst)
	return nil
}

// checkRow refuses a row with a bad value in one of the columns, or without it where
// it is needed.
func (e *Env) checkRow(row envs.Row, columns []string, needed bool) error {
	for _, name := range columns {
		if _, ok := row[name]; !ok && !needed {
			continue
		}
		c, _ := e.task.Spec.Column(name)
		if _, _, err := row.First([]string{name}, c.Width); err != nil {
			return e.failed("setting a state", err)
		}
	}
	return nil
}

// SetState puts the world where a row has it, with the row's factors; the goal and all
// mocap bodies stay. MuJoCo's solver starts from nothing, as after a reset.
func (e *Env) SetState(row envs.Row) error { return e.set(row, nil) }

// Restart continues from a row with its hidden columns. The first row of an episode
// needs none of them: they are what a set-state computes.
func (e *Env) Restart(row envs.Row, first bool) error {
	var hidden []string
	for _, c := range e.task.Hidden {
		if row[c] != nil {
			hidden = append(hidden, c)
		} else if !first {
			return envs.ErrNotExact
		}
	}
	return e.set(row, hidden)
}

// set writes a state; nothing is changed where the row is wrong.
func (e *Env) set(row envs.Row, hidden []string) error {
	state := slices.Concat(e.task.Spec.StateColumns, hidden)
	if err := errors.Join(e.checkRow(row, state, true), e.checkRow(row, e.task.Extra, false)); err != nil {
		return err
	}
	values, err := e.p.vary.Read(row, e.p.stage.values)
	if err != nil {
		return err
	}
	at, turn := slices.Clone(e.p.Data.MocapPos()), slices.Clone(e.p.Data.MocapQuat())
	if err := e.change(values); err != nil {
		return err
	}
	if err := e.p.Data.Reset(); err != nil {
		return e.failed("setting a state", err)
	}
	copy(e.p.Data.MocapPos(), at)
	copy(e.p.Data.MocapQuat(), turn)
	write := func(columns []string) {
		for _, c := range columns {
			copy(e.p.arrays[c], row[c])
		}
	}
	write(state)
	e.last = envs.Outcome{}
	if err := e.p.Forward(); err != nil {
		return e.failed("setting a state", err)
	}
	write(hidden) // again, over what was computed of the positions
	if s, ok := e.world.(Setter); ok {
		return s.Set(row)
	}
	return nil
}

// SetGoal sets the goal from the first of Spec.GoalColumns that row has.
func (e *Env) SetGoal(row envs.Row) error {
	v, _, err := row.First(e.task.Spec.GoalColumns, len(e.p.Goal))
	if err != nil {
		return e.failed("setting the goal", err)
	}
	copy(e.p.Goal, v)
	e.p.HasGoal = true
	return nil
}

// snapshot is all that decides what a world does next.
type snapshot struct {
	stage       *stage
	state, seen []float64 // MuJoCo's, and Physics.seen
	kept        []float64 // the goal, then Physics.Kept, one behind the other
	hasGoal     bool
	last        envs.Outcome
}

func (e *Env) Snapshot() envs.Snapshot {
	p := &e.p
	n, err := p.stage.model.StateSize(mujoco.StateIntegration)
	state := make([]float64, n)
	if err = errors.Join(err, p.Data.State(state, mujoco.StateIntegration)); err != nil {
		panic(e.failed("snapshot", err)) // of a closed world
	}
	kept := slices.Concat(append([][]float64{p.Goal}, p.Kept...)...)
	return snapshot{p.stage, state, slices.Clone(p.seen), kept, p.HasGoal, e.last}
}

// Restore computes the places of things for the positions at which they were seen, and
// then puts the rest.
func (e *Env) Restore(s envs.Snapshot) error {
	v, ok := s.(snapshot)
	if !ok || v.stage.task != e.task {
		return fmt.Errorf("%s: restoring a snapshot of another task (%T)", e.task.Spec.Name, s)
	}
	if err := e.enter(v.stage); err != nil {
		return err
	}
	p := &e.p
	if err := p.Data.Reset(); err != nil {
		return e.failed("restoring", err)
	}
	copy(p.seen, v.seen)
	copy(p.QPos, v.seen)
	if err := p.Data.FwdPosition(); err != nil {
		return e.failed("restoring", err)
	}
	if err := p.Data.SetState(v.state, mujoco.StateIntegration); err != nil {
		return e.failed("restoring", err)
	}
	if slices.Equal(p.QPos, p.seen) { // Advance goes on from a whole first half of a step
		if err := p.Data.Forward(); err != nil {
			return e.failed("restoring", err)
		}
	}
	for _, array := range append([][]float64{p.Goal}, p.Kept...) {
		v.kept = v.kept[copy(array, v.kept):]
	}
	p.HasGoal, e.last = v.hasGoal, v.last
	return nil
}

// Close ends the world, and its World where that is an io.Closer.
func (e *Env) Close() error {
	e.p.Data.Close()
	if c, ok := e.world.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
