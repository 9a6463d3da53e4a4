package cube

import (
	"fmt"
	"math"

	"scalewm/envs"
	"scalewm/mujoco"
)

// arrays are views of MuJoCo's memory of one world. The pinch site between the finger
// tips, the forces and what is drawn are one physics step older than qpos.
type arrays struct {
	qpos, qvel, ctrl, acc []float64
	pinchAt, pinchMat     []float64
	mocapAt, mocapQuat    []float64 // of the target
	padForce              []float64 // torque and force on the right pad
}

func (s *stage) arraysOf(d *mujoco.Data) arrays {
	return arrays{qpos: d.QPos(), qvel: d.QVel(), ctrl: d.Ctrl(), acc: d.QAccWarmstart(),
		pinchAt: mujoco.Row(d.SiteXPos(), s.pinch, 3), pinchMat: mujoco.Row(d.SiteXMat(), s.pinch, 9),
		mocapAt: mujoco.Row(d.MocapPos(), 0, 3), mocapQuat: mujoco.Row(d.MocapQuat(), 0, 4),
		padForce: mujoco.Row(d.CFrcExt(), s.pad, 6)}
}

func (a *arrays) effector() vec3       { return vec3(a.pinchAt) }
func (a *arrays) effectorYaw() float64 { return quatOf(a.pinchMat).yaw() }
func (a *arrays) opening() float64     { return min(max(a.qpos[driver]/driverRange, 0), 1) }
func (a *arrays) contact() float64     { return min(norm(a.padForce)/50, 1) }
func (a *arrays) cubeYaw() float64     { return quat(a.qpos[cubeQuat : cubeQuat+4]).yaw() }

// aim moves the target.
func (a *arrays) aim(at vec3, yaw float64) {
	rot := aboutZ(yaw)
	copy(a.mocapAt, at[:])
	copy(a.mocapQuat, rot[:])
}

func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return e.vary.Observe(e.stage.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("cube: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	if v := e.array(column); v != nil {
		copy(dst, v)
		return nil
	}
	switch column {
	case "observation":
		e.observation(dst)
	case "proprio_effector_yaw":
		dst[0] = e.effectorYaw()
	case "proprio_gripper_opening":
		dst[0] = e.opening()
	case "proprio_gripper_contact":
		dst[0] = e.contact()
	case "privileged_block_0_yaw":
		dst[0] = e.cubeYaw()
	case "privileged_target_block_yaw":
		dst[0] = quat(e.mocapQuat).yaw()
	case "time":
		dst[0] = e.d.Time()
	default:
		dst[0] = e.s.last.column(column)
	}
	return nil
}

// array is the memory behind a column that is a copy of it, else nil.
func (e *env) array(column string) []float64 {
	switch column {
	case "qpos":
		return e.qpos
	case "qvel":
		return e.qvel
	case "proprio_joint_pos":
		return e.qpos[:joints]
	case "proprio_joint_vel":
		return e.qvel[:joints]
	case "proprio_effector_pos", "sim_pinch_xpos":
		return e.pinchAt
	case "sim_pinch_xmat":
		return e.pinchMat
	case "proprio_gripper_vel":
		return e.qvel[driver : driver+1]
	case "privileged_block_0_pos":
		return e.qpos[cubeAt:cubeQuat]
	case "privileged_block_0_quat":
		return e.qpos[cubeQuat:]
	case "privileged_target_block_pos":
		return e.mocapAt
	case "sim_qacc_warmstart":
		return e.acc
	case controlColumn:
		return e.ctrl
	}
	return nil
}

// observation is the original's, of states.
func (e *env) observation(dst []float64) {
	copy(dst[0:6], e.qpos)
	copy(dst[6:12], e.qvel[:joints])
	scaled(dst[12:15], e.pinchAt)
	circle(dst[15:17], e.effectorYaw())
	dst[17], dst[18] = 3*e.opening(), e.contact()
	scaled(dst[19:22], e.qpos[cubeAt:])
	copy(dst[22:26], e.qpos[cubeQuat:])
	circle(dst[26:28], e.cubeYaw())
}

// scaled writes a place as the observation has it.
func scaled(dst, at []float64) {
	for i, centre := range (vec3{.425, 0, 0}) {
		dst[i] = 10 * (at[i] - centre)
	}
}

// column is a value that belongs to the step.
func (o outcome) column(name string) float64 {
	switch {
	case name == "reward" && !o.stepped:
		return math.NaN()
	case name == "reward":
		return o.Reward
	case o.Terminated:
		return 1
	}
	return 0
}

// SetState puts joints and cube, at the row's time and with its factors where it
// says them; the goal stays. The solver starts from nothing, as after a reset.
func (e *env) SetState(row envs.Row) error { return e.set(row, make([]float64, nv)) }

// set writes a state; nothing is changed where the row is wrong.
func (e *env) set(row envs.Row, warm []float64) error {
	q, err := read(row, "qpos", nq)
	if err != nil {
		return err
	}
	v, err := read(row, "qvel", nv)
	if err != nil {
		return err
	}
	now := []float64{0}
	if row["time"] != nil {
		if now, err = read(row, "time", 1); err != nil {
			return err
		}
	}
	values, err := e.vary.Read(row, e.stage.values)
	if err != nil {
		return err
	}
	at, rot := vec3(e.mocapAt), quat(e.mocapQuat)
	if err := e.change(values); err != nil {
		return err
	}
	if err := e.d.Reset(); err != nil {
		return err
	}
	copy(e.mocapAt, at[:])
	copy(e.mocapQuat, rot[:])
	copy(e.qpos, q)
	copy(e.qvel, v)
	copy(e.acc, warm)
	e.d.SetTime(now[0])
	e.s.last = outcome{}
	return e.show()
}

// Restart continues from a row with the solver's start and the effector's pose as
// the controller saw it. The first row of an episode needs neither: the original
// has just computed them.
func (e *env) Restart(row envs.Row, first bool) error {
	pinched := row["sim_pinch_xpos"] != nil && row["sim_pinch_xmat"] != nil
	switch {
	case row["sim_qacc_warmstart"] == nil && first:
		return e.SetState(row)
	case row["sim_qacc_warmstart"] == nil || !pinched && !first:
		return envs.ErrNotExact
	}
	warm, err := read(row, "sim_qacc_warmstart", nv)
	if err != nil {
		return err
	}
	var at, mat []float64 // without them those that set computes stay
	if pinched {
		if at, err = read(row, "sim_pinch_xpos", 3); err != nil {
			return err
		}
		if mat, err = read(row, "sim_pinch_xmat", 9); err != nil {
			return err
		}
	}
	if err := e.set(row, warm); err != nil {
		return err
	}
	copy(e.pinchAt, at)
	copy(e.pinchMat, mat)
	return nil
}

// SetGoal sets where the cube ought to be; its rotation is free.
func (e *env) SetGoal(row envs.Row) error {
	v, err := read(row, "privileged_block_0_pos", 3)
	if err == nil {
		copy(e.mocapAt, v)
		e.s.hasGoal = true
	}
	return err
}

// read takes the finite numbers of a column.
func read(row envs.Row, column string, width int) ([]float64, error) {
	v, _, err := row.First([]string{column}, width)
	if err == nil {
		err = finite(column, v)
	}
	if err != nil {
		return nil, fmt.Errorf("cube: setting a state: %w", err)
	}
	return v, nil
}

func finite(column string, v []float64) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%s[%d] is %g", column, i, x)
		}
	}
	return nil
}
