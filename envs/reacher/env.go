package reacher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/mujoco"
)

const (
	frameSize     = envs.FrameSize
	controlColumn = "sim_ctrl"
)

// hidden is the part of MuJoCo's state that decides what follows: forces from
// outside there are none, and nothing depends on the time.
const hidden = mujoco.StateQPos | mujoco.StateQVel | mujoco.StateWarmstart | mujoco.StateCtrl

// state is all that changes between steps: MuJoCo's part and ours.
type state struct {
	physics [4 * joints]float64 // filled in snapshots only
	target  [2]float64
	goal    [joints]float64
	hasGoal bool    // a reset forgets the goal, a set-state does not
	last    outcome // of the last step
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

// env is one running world. Its arrays are MuJoCo's own.
type env struct {
	*stage
	arrays
	d    *mujoco.Data
	vary *envs.Variation
	s    state
}

func newEnv(o envs.Options) (*env, error) {
	if _, err := spec.Resolve(o); err != nil {
		return nil, err
	}
	vary, err := spec.Variation(o)
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
	e := &env{vary: vary}
	return e, e.enter(st)
}

func (e *env) Spec() *envs.Spec { return spec }

// Reset draws the factors that vary, the joints, then the target, at rest and without a goal.
func (e *env) Reset(r *rand.Rand) error {
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
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
	e.qpos[0], e.qpos[1] = uniform(-math.Pi, math.Pi), uniform(-wristLimit, wristLimit)
	direction, distance := uniform(0, 2*math.Pi), uniform(0.05, 0.20)
	e.s = state{target: [2]float64{distance * math.Sin(direction), distance * math.Cos(direction)}}
	return e.forward()
}

// forward computes where things are, the drawn target among them.
func (e *env) forward() error {
	copy(e.targetAt, e.s.target[:])
	return e.d.Forward()
}

// Step applies the action as the original's wrapper scales it, which changes the
// last bits of it.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	return e.drive(-1+(action[0]+1), -1+(action[1]+1))
}

func (e *env) ControlColumn() string { return controlColumn }

func (e *env) StepControl(control []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, control); err != nil {
		return envs.Step{}, err
	}
	return e.drive(control[0], control[1])
}

// drive makes an env step, which ends with the physics step that meets the goal.
// Each is the second half of MuJoCo's step and the first half of the next, as
// dm_control does it: the finger is where the joints are.
func (e *env) drive(shoulder, wrist float64) (envs.Step, error) {
	e.ctrl[0], e.ctrl[1] = shoulder, wrist
	var s envs.Step
	for s.Substeps < substeps && !s.Terminated {
		if err := e.d.Step2(); err != nil {
			return s, failed(err)
		}
		if err := e.d.Step1(); err != nil {
			return s, failed(err)
		}
		s.Substeps++
		if e.touches() {
			s.Reward++
		}
		s.Terminated = e.Solved()
	}
	e.s.last = outcome{s, true}
	return s, nil
}

// failed is the error of a step.
func failed(err error) error {
	if errors.Is(err, mujoco.ErrDiverged) {
		return fmt.Errorf("reacher: %w: %w", envs.ErrDiverged, err)
	}
	return fmt.Errorf("reacher: %w", err)
}

// touches says whether the finger is in the target.
func (e *env) touches() bool {
	x, y := e.s.target[0]-e.fingerAt[0], e.s.target[1]-e.fingerAt[1]
	return math.Sqrt(float64(x*x)+float64(y*y)) <= reachOf
}

func (e *env) Solved() bool {
	return e.s.hasGoal && math.Abs(e.qpos[0]-e.s.goal[0]) < threshold && math.Abs(e.qpos[1]-e.s.goal[1]) < threshold
}

// Frame draws the arm where it is: nothing lags.
func (e *env) Frame(dst []byte) error {
	if err := pen.Render(context.Background(), e.d, e.camera, dst); err != nil {
		return fmt.Errorf("reacher: %w", err)
	}
	return nil
}

// OneCore is the environment of a process that draws on one core.
func (e *env) OneCore() []string { return pen.OneCore() }

func (e *env) Snapshot() envs.Snapshot {
	s := e.s
	if err := e.d.State(s.physics[:], hidden); err != nil {
		panic("reacher: snapshot: " + err.Error()) // of a closed world
	}
	return snapshot{s, e.stage}
}

func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(snapshot)
	if !ok {
		return fmt.Errorf("reacher: restoring a snapshot of another task (%T)", s)
	}
	if err := e.enter(v.stage); err != nil {
		return err
	}
	if err := e.d.SetState(v.physics[:], hidden); err != nil {
		return err
	}
	e.s = v.state
	return e.forward()
}

func (e *env) Close() error {
	e.d.Close()
	return nil
}
