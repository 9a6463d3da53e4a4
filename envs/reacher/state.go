package reacher

import (
	"fmt"
	"math"

	"scalewm/envs"
)

func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return e.vary.Observe(e.stage.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("reacher: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	switch column {
	case "qpos":
		copy(dst, e.qpos)
	case "qvel":
		copy(dst, e.qvel)
	case "observation":
		e.observation(dst)
	case "finger_pos":
		copy(dst, e.fingerAt)
	case "target_pos":
		copy(dst, e.s.target[:])
	case "sim_qacc_warmstart":
		copy(dst, e.acc)
	case controlColumn:
		copy(dst, e.ctrl)
	default:
		dst[0] = e.s.last.column(column)
	}
	return nil
}

// observation rounds to float32 what the original concatenates.
func (e *env) observation(dst []float64) {
	copy(dst[0:2], e.qpos)
	dst[2], dst[3] = e.s.target[0]-e.fingerAt[0], e.s.target[1]-e.fingerAt[1]
	copy(dst[4:6], e.qvel)
	for i, v := range dst {
		dst[i] = float64(float32(v))
	}
}

// column is a value that belongs to the step.
func (o outcome) column(name string) float64 {
	switch {
	case name == "substeps":
		return float64(o.Substeps)
	case name == "reward" && !o.stepped:
		return math.NaN()
	case name == "reward":
		return o.Reward
	case o.Terminated:
		return 1
	}
	return 0
}

// SetState puts the joints and, where the row says it, factors and the target; the goal stays.
// The solver starts from nothing, as after a reset.
func (e *env) SetState(row envs.Row) error { return e.set(row, make([]float64, joints)) }

// Restart continues from a row with the solver's start, which rows inside an
// episode need; the first row of one has nothing in it.
func (e *env) Restart(row envs.Row, first bool) error {
	if row["sim_qacc_warmstart"] == nil {
		if first {
			return e.SetState(row)
		}
		return envs.ErrNotExact
	}
	warm, err := read(row, "sim_qacc_warmstart", joints)
	if err != nil {
		return err
	}
	return e.set(row, warm)
}

// set writes a state; nothing is changed where the row is wrong.
func (e *env) set(row envs.Row, warm []float64) error {
	q, err := read(row, "qpos", joints)
	if err != nil {
		return err
	}
	v, err := read(row, "qvel", joints)
	if err != nil {
		return err
	}
	target, seen, err := e.targetOf(row)
	if err != nil {
		return err
	}
	values, err := e.vary.Read(row, e.stage.values)
	if err != nil {
		return err
	}
	if err := e.change(values); err != nil {
		return err
	}
	if err := e.d.Reset(); err != nil {
		return err
	}
	copy(e.qpos, q)
	copy(e.qvel, v)
	copy(e.acc, warm)
	e.s.last = outcome{}
	if err := e.d.Forward(); err != nil {
		return fmt.Errorf("reacher: setting a state: %w", err)
	}
	e.s.target = target
	if seen { // a recording without target_pos shows it from the finger
		e.s.target[0] += e.fingerAt[0]
		e.s.target[1] += e.fingerAt[1]
	}
	if e.shown {
		return e.forward()
	}
	return nil
}

// targetOf finds the target of a row; seen says that it is relative to the
// finger. A row without one leaves it where it is.
func (e *env) targetOf(row envs.Row) (target [2]float64, seen bool, err error) {
	v := e.s.target[:]
	switch {
	case row["target_pos"] != nil:
		v, err = read(row, "target_pos", 2)
	case row["observation"] != nil:
		if v, err = read(row, "observation", 6); err == nil {
			v, seen = v[2:4], true
		}
	}
	copy(target[:], v)
	return target, seen, err
}

// SetGoal sets the angles to reach; they are not drawn.
func (e *env) SetGoal(row envs.Row) error {
	v, err := read(row, "qpos", joints)
	if err == nil {
		e.s.goal, e.s.hasGoal = [joints]float64(v), true
	}
	return err
}

// read takes the finite numbers of a column.
func read(row envs.Row, column string, width int) ([]float64, error) {
	v, _, err := row.First([]string{column}, width)
	if err != nil {
		return nil, fmt.Errorf("reacher: setting a state: %w", err)
	}
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("reacher: setting a state: %s[%d] is %g", column, i, x)
		}
	}
	return v, nil
}
