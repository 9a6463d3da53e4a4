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

// Env is one running world of a Task. It implements envs.Env, envs.Restarter,
// envs.Controlled and envs.Drawer.
type Env struct {
	task  *Task
	world World
	p     Physics
	last  envs.Outcome
}

// Spec returns the task's description.
func (e *Env) Spec() *envs.Spec { return e.task.Spec }

// setFactors switches to the stage with the given factor values, unless it is current.
func (e *Env) setFactors(values []float64) error {
	if e.p.stage != nil && slices.Equal(values, e.p.stage.values) {
		return nil
	}
	s, err := e.task.stage(e.p.vary, values)
	if err != nil {
		return err
	}
	return e.enter(s)
}

// enter switches to a stage: it creates new MuJoCo data, closes the old one, and lets the
// World fetch its arrays again, since their addresses changed.
func (e *Env) enter(s *stage) error {
	p := &e.p
	if s == p.stage {
		return nil
	}
	d, err := s.model.NewData()
	if err != nil {
		return e.failed("creating the world", err)
	}
	if p.Data != nil {
		p.Data.Close()
	}
	p.stage, p.Data, p.QPos, p.QVel, p.Ctrl = s, d, d.QPos(), d.QVel(), d.Ctrl()
	p.kinQPos, p.Saved = slices.Clone(p.QPos), nil
	p.arrays = map[string][]float64{"qpos": p.QPos, "qvel": p.QVel, ControlColumn: p.Ctrl, WarmstartColumn: mujoco.Array[float64](d, "qacc_warmstart")}
	p.computed = map[string]func([]float64){
		"time":       func(dst []float64) { dst[0] = p.Data.Time() },
		"substeps":   func(dst []float64) { dst[0] = float64(e.last.Substeps) },
		"reward":     func(dst []float64) { e.last.Observe("reward", dst) },
		"terminated": func(dst []float64) { e.last.Observe("terminated", dst) },
	}
	if err := e.world.Enter(p); err != nil {
		return e.failed("creating the world", err)
	}
	return e.complete()
}

// complete returns an error unless every column of the Spec is reported with its width.
func (e *Env) complete() error {
	for _, c := range e.task.Spec.Columns {
		array, shown := e.p.arrays[c.Name]
		if shown && len(array) != c.Width {
			return fmt.Errorf("%s: column %s reports an array of %d numbers, not %d (hint: World.Enter)", e.task.Spec.Name, c.Name, len(array), c.Width)
		}
		if !shown && e.p.computed[c.Name] == nil {
			return fmt.Errorf("%s: nothing reports column %s (hint: Physics.Show or Physics.Compute in World.Enter)", e.task.Spec.Name, c.Name)
		}
	}
	return nil
}

// failed adds the task and the operation to an error, and translates divergence from
// package mujoco to package envs.
func (e *Env) failed(doing string, err error) error {
	if errors.Is(err, mujoco.ErrDiverged) {
		return fmt.Errorf("%s: %s: %w: %w", e.task.Spec.Name, doing, envs.ErrDiverged, err)
	}
	return fmt.Errorf("%s: %s: %w", e.task.Spec.Name, doing, err)
}

// Reset draws the factors that vary, resets MuJoCo, and lets the World set the start of an
// episode.
func (e *Env) Reset(r *rand.Rand) error {
	values, err := e.p.vary.Draw(r, func(string, []float64) bool { return true })
	if err != nil {
		return err
	}
	if err := e.setFactors(values); err != nil {
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

// Step converts the action to a control and makes one env step.
func (e *Env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(e.task.Spec, action); err != nil {
		return envs.Step{}, err
	}
	if err := e.world.Control(action); err != nil {
		return envs.Step{}, e.failed("computing the control for an action", err)
	}
	return e.drive()
}

// ControlColumn implements envs.Controlled.
func (e *Env) ControlColumn() string { return ControlColumn }

// StepControl makes one env step with the given control.
func (e *Env) StepControl(control []float64) (envs.Step, error) {
	if _, _, err := (envs.Row{ControlColumn: control}).First([]string{ControlColumn}, len(e.p.Ctrl)); err != nil {
		return envs.Step{}, e.failed("stepping", err)
	}
	copy(e.p.Ctrl, control)
	return e.drive()
}

// drive makes one env step with the current control and records its outcome.
func (e *Env) drive() (envs.Step, error) {
	s, err := e.world.Drive()
	if err != nil {
		return s, e.failed("stepping", err)
	}
	e.last = envs.Outcome{Step: s, Stepped: true}
	return s, nil
}

// Solved reports whether there is a goal and the current state meets it.
func (e *Env) Solved() bool { return e.world.Solved() }

// Frame draws the global positions that MuJoCo computed last (see AdvanceLagged).
func (e *Env) Frame(dst []byte) error {
	if err := renderers.Render(context.Background(), e.p.Data, e.p.stage.camera, dst); err != nil {
		return e.failed("drawing", err)
	}
	return nil
}

// OneCore implements envs.Drawer.
func (e *Env) OneCore() []string { return renderers.OneCore() }

// Observe writes the current value of a column or factor to dst.
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

// checkRow returns an error if the row has an invalid value in one of the columns, or if it
// lacks one of them and needed is true.
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

// SetState sets the state of a row and the factors that it has. The goal and the poses of
// all mocap bodies stay. The warm start of MuJoCo's solver is zero, as after a reset.
func (e *Env) SetState(row envs.Row) error { return e.set(row, nil) }

// Restart continues from a row with its hidden columns. For the first row of an episode
// they are optional, since SetState computes the same values.
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

// set sets a state. It checks the row first, so that a bad row changes nothing.
func (e *Env) set(row envs.Row, hidden []string) error {
	state := slices.Concat(e.task.Spec.StateColumns, hidden)
	if err := errors.Join(e.checkRow(row, state, true), e.checkRow(row, e.task.Extra, false)); err != nil {
		return err
	}
	values, err := e.p.vary.Read(row, e.p.stage.values)
	if err != nil {
		return err
	}
	// The data's Reset, and a change of stage, would move the mocap bodies.
	at, turn := slices.Clone(e.p.Data.MocapPos()), slices.Clone(e.p.Data.MocapQuat())
	if err := e.setFactors(values); err != nil {
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
	write(hidden) // again: Forward has overwritten those that it computes
	if s, ok := e.world.(Setter); ok {
		return s.Set(row)
	}
	return nil
}

// SetGoal sets the goal from the first of Spec.GoalColumns that row has.
func (e *Env) SetGoal(row envs.Row) error {
	v, _, err := row.First(e.task.Spec.GoalColumns, len(e.p.Goal))
	if s, ok := e.world.(GoalSetter); ok && err == nil {
		err = s.SetGoal(row)
	}
	if err != nil {
		return e.failed("setting the goal", err)
	}
	copy(e.p.Goal, v)
	e.p.HasGoal = true
	return nil
}

// snapshot is everything that determines the further course of a world.
type snapshot struct {
	stage   *stage
	state   []float64 // MuJoCo's integration state
	kinQPos []float64 // Physics.kinQPos
	saved   []float64 // the goal and Physics.Saved, concatenated
	hasGoal bool
	last    envs.Outcome
}

// Snapshot returns a copy of the state. It panics for a closed world.
func (e *Env) Snapshot() envs.Snapshot {
	p := &e.p
	n, err := p.stage.model.StateSize(mujoco.StateIntegration)
	state := make([]float64, n)
	if err = errors.Join(err, p.Data.State(state, mujoco.StateIntegration)); err != nil {
		panic(e.failed("snapshot", err))
	}
	saved := slices.Concat(append([][]float64{p.Goal}, p.Saved...)...)
	return snapshot{p.stage, state, slices.Clone(p.kinQPos), saved, p.HasGoal, e.last}
}

// Restore restores a snapshot. It first recomputes global positions for the qpos that
// they corresponded to, which frames show, and then sets the state, which may be ahead.
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
	copy(p.kinQPos, v.kinQPos)
	copy(p.QPos, v.kinQPos)
	if err := p.Data.FwdPosition(); err != nil {
		return e.failed("restoring", err)
	}
	if err := p.Data.SetState(v.state, mujoco.StateIntegration); err != nil {
		return e.failed("restoring", err)
	}
	// After Advance, positions are current, and the next Step2 needs a complete first half
	// of a step, that is Forward. After AdvanceLagged it would update positions too early.
	if slices.Equal(p.QPos, p.kinQPos) {
		if err := p.Data.Forward(); err != nil {
			return e.failed("restoring", err)
		}
	}
	for _, array := range append([][]float64{p.Goal}, p.Saved...) {
		v.saved = v.saved[copy(array, v.saved):]
	}
	p.HasGoal, e.last = v.hasGoal, v.last
	return nil
}

// Close frees the simulation, and closes the World if it is an io.Closer.
func (e *Env) Close() error {
	e.p.Data.Close()
	if c, ok := e.world.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
