package cube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/mujoco"
)

const controlColumn = "sim_ctrl"

// hidden is the part of MuJoCo's state that decides what follows; forces from
// outside there are none.
const hidden = mujoco.StateTime | mujoco.StateQPos | mujoco.StateQVel | mujoco.StateWarmstart | mujoco.StateCtrl |
	mujoco.StateMocapPos | mujoco.StateMocapQuat

// state is all that changes between steps: MuJoCo's part and ours.
type state struct {
	physics [1 + nq + nv + nv + nu + 3 + 4]float64 // filled in snapshots only, as are the next three
	pinch   [3 + 9]float64
	pad     [6]float64
	seen    [nq]float64 // where bodies are drawn and measured: qpos before the last physics step
	hasGoal bool        // a reset forgets the goal, a set-state does not
	last    outcome     // of the last step
}

// outcome is what a step leaves in the columns that belong to it.
type outcome struct {
	envs.Step
	stepped bool // false since the last reset or set-state
}

// snapshot is a state and the stage that it is on.
type snapshot struct {
	state
	stage *stage
}

// env is one running world.
type env struct {
	*stage
	arrays
	d       *mujoco.Data
	hand    *hand
	vary    *envs.Variation
	float64 bool // actions are scaled in this type, not in float32
	s       state
}

func newEnv(o envs.Options) (*env, error) {
	opt, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	vary, err := spec.Variation(opt)
	if err != nil {
		return nil, err
	}
	if _, err := usual(); err != nil {
		return nil, err
	}
	st, err := look{vary, vary.Start()}.stage()
	if err != nil {
		return nil, err
	}
	h, err := newHand(st.arm, st.flange)
	if err != nil {
		return nil, err
	}
	e := &env{hand: h, vary: vary, float64: opt[actionTypeSwitch] == "float64"}
	return e, e.enter(st)
}

func (e *env) Spec() *envs.Spec { return spec }

// Reset draws the factors that vary, the cube, a target and the effector's yaw, and
// puts the effector over the table's middle, as the original's data collection does:
// at rest, without a goal.
func (e *env) Reset(r *rand.Rand) error {
	values, err := e.vary.Draw(r, func(string, []float64) bool { return true })
	if err != nil {
		return err
	}
	if err := e.change(values); err != nil {
		return err
	}
	if err := e.d.Reset(); err != nil {
		return err
	}
	at, yaw := e.place(r, "start")
	rot := aboutZ(yaw)
	copy(e.qpos[cubeAt:], at[:])
	copy(e.qpos[cubeQuat:], rot[:])
	e.Retarget(r)
	copy(e.qpos, home[:])
	yaw = -math.Pi + 2*math.Pi*r.Float64()
	start := transform{aboutZ(yaw).mul(downward), vec3(e.vary.Of(values, "agent.ee_start_position"))}
	if err := e.hand.reach(start.of(e.flangeFromPinch), e.qpos[:joints]); err != nil {
		return err
	}
	e.s = state{}
	return e.show()
}

// show computes what is seen of the present state.
func (e *env) show() error {
	if err := e.d.Forward(); err != nil {
		return fmt.Errorf("cube: setting a state: %w", err)
	}
	copy(e.s.seen[:], e.qpos)
	return nil
}

// Step moves the effector's target by the action and lets the controller follow.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	var control [nu]float64
	if err := e.control(action, &control); err != nil {
		return envs.Step{}, err
	}
	return e.drive(control[:])
}

func (e *env) ControlColumn() string { return controlColumn }

func (e *env) StepControl(control []float64) (envs.Step, error) {
	if len(control) != nu {
		return envs.Step{}, fmt.Errorf("cube: a control has %d numbers, not %d", nu, len(control))
	}
	if err := finite(controlColumn, control); err != nil {
		return envs.Step{}, err
	}
	return e.drive(control)
}

// drive makes an env step. The effector, the forces and what is drawn stay those of
// the last physics step's start, as in the original.
func (e *env) drive(control []float64) (envs.Step, error) {
	copy(e.ctrl, control)
	s := envs.Step{Substeps: substeps}
	if err := e.d.Step(substeps - 1); err != nil {
		return s, failed(err)
	}
	copy(e.s.seen[:], e.qpos)
	if err := e.d.Step(1); err != nil {
		return s, failed(err)
	}
	if err := e.d.RNEPostConstraint(); err != nil {
		return s, failed(err)
	}
	if s.Terminated = e.Solved(); s.Terminated {
		s.Reward = 1
	}
	e.s.last = outcome{s, true}
	return s, nil
}

// failed is the error of a step.
func failed(err error) error {
	if errors.Is(err, mujoco.ErrDiverged) {
		return fmt.Errorf("cube: %w: %w", envs.ErrDiverged, err)
	}
	return fmt.Errorf("cube: %w", err)
}

func (e *env) Solved() bool { return e.s.hasGoal && e.distance() <= reach }

// distance is how far the cube is from its target, in metres.
func (e *env) distance() float64 {
	var d vec3
	for i := range d {
		d[i] = e.qpos[cubeAt+i] - e.mocapAt[i]
	}
	return norm(d[:])
}

// Frame draws what was seen last, one physics step before qpos.
func (e *env) Frame(dst []byte) error {
	if err := pen.Render(context.Background(), e.d, e.camera, dst); err != nil {
		return fmt.Errorf("cube: %w", err)
	}
	return nil
}

// OneCore is the environment of a process that draws on one core.
func (e *env) OneCore() []string { return pen.OneCore() }

func (e *env) Snapshot() envs.Snapshot {
	s := e.s
	if err := e.d.State(s.physics[:], hidden); err != nil {
		panic("cube: snapshot: " + err.Error()) // of a closed world
	}
	copy(s.pinch[:3], e.pinchAt)
	copy(s.pinch[3:], e.pinchMat)
	copy(s.pad[:], e.padForce)
	return snapshot{s, e.stage}
}

// Restore computes what was seen from where it was seen, and then puts the rest.
func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(snapshot)
	if !ok {
		return fmt.Errorf("cube: restoring a snapshot of another task (%T)", s)
	}
	if err := e.enter(v.stage); err != nil {
		return err
	}
	if err := e.d.Reset(); err != nil {
		return err
	}
	copy(e.qpos, v.seen[:])
	if err := e.d.FwdPosition(); err != nil {
		return fmt.Errorf("cube: restoring a snapshot: %w", err)
	}
	if err := e.d.SetState(v.physics[:], hidden); err != nil {
		return err
	}
	copy(e.pinchAt, v.pinch[:3])
	copy(e.pinchMat, v.pinch[3:])
	copy(e.padForce, v.pad[:])
	e.s = v.state
	return nil
}

func (e *env) Close() error {
	e.d.Close()
	e.hand.d.Close()
	return nil
}
