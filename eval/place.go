package eval

import (
	"fmt"
	"slices"

	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/results"
)

// newWorld returns a simulator of a task with the physics of the rules.
func newWorld(task envs.Task, r results.Rules) (envs.Env, error) {
	o := envs.Options{}
	for name, value := range map[string]string{"collision": r.Collision, "substeps": r.Substeps} {
		if value != "" {
			o[name] = value
		}
	}
	e, err := task.New(o)
	if err != nil {
		return nil, fmt.Errorf("making a world: %w", err)
	}
	return e, nil
}

// world returns a simulator of the data set's task.
func (d *Data) world() (envs.Env, error) { return newWorld(d.task, d.rules) }

// row reads the task's columns of row i of the file.
func (d *Data) row(i int) (envs.Row, error) {
	row := envs.Row{}
	for _, c := range d.columns {
		v, err := d.Read(c, i, i+1)
		if err != nil {
			return nil, fmt.Errorf("reading column %s of row %d: %w", c, i, err)
		}
		row[c] = v
	}
	return row, nil
}

// fileRow returns the row of the file at which s begins.
func (d *Data) fileRow(s Start) int { return d.Episodes()[s.Trajectory].Offset + s.Row }

// setTo resets the world and sets it to the state of a start and to its goal, in the order
// of the reference implementation: reset, state, goal. ids select the random stream of
// the reset; it matters only for what the file's columns do not set.
func (d *Data) setTo(e envs.Env, s Start, ids ...any) error {
	_, _, err := d.prepare(e, s, ids...)
	return err
}

// prepare is setTo. It returns the rows of start and goal.
func (d *Data) prepare(e envs.Env, s Start, ids ...any) (start, goal envs.Row, err error) {
	from := d.fileRow(s)
	if start, err = d.row(from); err != nil {
		return nil, nil, err
	}
	if goal, err = d.row(from + d.rules.GoalOffset); err != nil {
		return nil, nil, err
	}
	if d.rules.State == results.RestStart {
		if err := rest(d.task.Spec, start); err != nil {
			return nil, nil, err
		}
	}
	if err := d.place(e, start, goal, ids...); err != nil {
		return nil, nil, fmt.Errorf("row %d and the goal %d rows later: %w", from, d.rules.GoalOffset, err)
	}
	if d.rules.GoalSource != results.Replayed {
		return start, goal, nil
	}
	if goal, err = d.replay(e, from); err == nil {
		err = d.place(e, start, goal, ids...)
	}
	return start, goal, err
}

// place resets the world and sets it to a state and a goal.
func (d *Data) place(e envs.Env, state, goal envs.Row, ids ...any) error {
	if err := e.Reset(rng.Stream("eval reset", ids...)); err != nil {
		return fmt.Errorf("resetting the task: %w", err)
	}
	if err := e.SetState(state); err != nil {
		return fmt.Errorf("setting the state: %w", err)
	}
	if err := e.SetGoal(goal); err != nil {
		return fmt.Errorf("setting the goal: %w", err)
	}
	return nil
}

// replay executes the recorded actions from a start, to which e is set, to its goal, and
// returns the row of the state that they reach.
func (d *Data) replay(e envs.Env, from int) (envs.Row, error) {
	dim := d.task.Spec.ActionDim
	actions, err := d.Read("action", from, from+d.rules.GoalOffset)
	if err != nil {
		return nil, fmt.Errorf("reading the actions from row %d: %w", from, err)
	}
	for i := range d.rules.GoalOffset {
		if _, err := e.Step(actions[i*dim : (i+1)*dim]); err != nil {
			return nil, fmt.Errorf("replaying the action of row %d to find the goal: %w", from+i, err)
		}
	}
	return observe(e, d.columns)
}

// observe returns the current values of columns and factors of a world.
func observe(e envs.Env, columns []string) (envs.Row, error) {
	spec, row := e.Spec(), envs.Row{}
	for _, name := range columns {
		c, ok := spec.Column(name)
		if i := slices.IndexFunc(spec.Factors, func(f envs.Factor) bool { return f.Column().Name == name }); !ok && i >= 0 {
			c = spec.Factors[i].Column()
		}
		row[name] = make([]float64, c.Width)
		if err := e.Observe(name, row[name]); err != nil {
			return nil, fmt.Errorf("observing the column %s: %w", name, err)
		}
	}
	return row, nil
}

// rest sets the velocities in a row to 0.
func rest(spec *envs.Spec, row envs.Row) error {
	if spec.Velocities == nil {
		return fmt.Errorf("starts at rest need to know which numbers of %s are velocities (hint: starts.state = \"recorded\")", spec.Name)
	}
	for name, at := range spec.Velocities {
		if v := row[name]; at[1] <= len(v) {
			clear(v[at[0]:at[1]])
		}
	}
	return nil
}

// frames draws or reads the frames of an episode's start and goal, and passes each to use.
// The slice is valid until use returns.
func (d *Data) frames(w *worker, s Start, use func(i int, px []byte), ids ...any) error {
	if d.rules.Frames != results.Drawn {
		for i, row := range []int{d.fileRow(s), d.fileRow(s) + d.rules.GoalOffset} {
			if err := d.Frame(row, w.px); err != nil {
				return fmt.Errorf("reading the frame of row %d: %w", row, err)
			}
			use(i, w.px)
		}
		return nil
	}
	start, goal, err := d.prepare(w, s, ids...)
	if err != nil {
		return err
	}
	for i, row := range []envs.Row{start, goal} {
		if err := d.place(w, row, goal, ids...); err != nil {
			return err
		}
		if err := w.Frame(w.px); err != nil {
			return fmt.Errorf("drawing row %d: %w", d.fileRow(s)+i*d.rules.GoalOffset, err)
		}
		use(i, w.px)
	}
	return nil
}
