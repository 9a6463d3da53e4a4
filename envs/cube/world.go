package cube

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/envs/mjenv"
	"scalewm/mujoco"
)

// task is shared by all worlds.
var task = &mjenv.Task{
	Spec:    spec,
	Camera:  "front_pixels",
	Compile: compile,
	// What a restart inside an episode needs: the solver's warm start, and the pose of the pinch
	// site, from which the next action starts and which lags behind qpos (see world).
	Hidden: []string{mjenv.WarmstartColumn, "sim_pinch_xpos", "sim_pinch_xmat"},
	Extra:  []string{"time"},
}

// env is a running world whose target can be drawn again.
type env struct {
	*mjenv.Env
	w *world
}

// newEnv returns a world with the given options.
func newEnv(o envs.Options) (*env, error) {
	o, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	w := &world{float64: o[actionTypeSwitch] == "float64"}
	e, err := task.New(o, w)
	if err != nil {
		return nil, err
	}
	return &env{e, w}, nil
}

// Retarget draws a new target. The collecting policies call it when they have reached one.
func (e *env) Retarget(r *rand.Rand) { e.w.aim(e.w.place(r, "goal")) }

// world is one running arm over a table with a cube. Its goal is the position of the target,
// a mocap body. The pose of the pinch site between the finger tips, the contact forces and
// the frame are one physics step older than the joints, as in OGBench.
type world struct {
	*mjenv.Physics
	float64           bool      // actions are scaled in float64 instead of float32
	hand              *hand     // inverse kinematics
	flangeFromPinch   transform // pose of the flange relative to the pinch site
	pinchAt, pinchMat []float64 // pose of the pinch site; MuJoCo's memory
	padForce          []float64 // torque and force on the right pad
	targetQuat        []float64 // rotation of the target
}

// Enter fetches the arrays and computes the fixed transform between pinch site and flange.
func (w *world) Enter(p *mjenv.Physics) error {
	w.Physics = p
	var pinch, flange, pad int
	for _, c := range []struct {
		to   *int
		kind mujoco.ObjType
		name string
	}{
		{&pinch, mujoco.ObjSite, "ur5e/robotiq/pinch"},
		{&flange, mujoco.ObjSite, "ur5e/attachment_site"},
		{&pad, mujoco.ObjBody, "ur5e/robotiq/right_pad"},
	} {
		var err error
		if *c.to, err = p.Data.Model().ID(c.kind, c.name); err != nil {
			return err
		}
	}
	sites, turns := p.Data.SiteXPos(), p.Data.SiteXMat()
	w.pinchAt, w.pinchMat = mujoco.Row(sites, pinch, 3), mujoco.Row(turns, pinch, 9)
	w.padForce = mujoco.Row(mujoco.Array[float64](p.Data, "cfrc_ext"), pad, 6)
	w.targetQuat = mujoco.Row(p.Data.MocapQuat(), 0, 4)
	// The goal is stored in the target's mocap body, which Env.SetGoal then moves.
	p.Goal = mujoco.Row(p.Data.MocapPos(), 0, 3)
	// Restore copies these, because recomputing them may give other bits.
	p.Saved = [][]float64{w.pinchAt, w.pinchMat, w.padForce}
	w.show()
	// Poses of the sites at the initial qpos, from which the fixed transform follows.
	if err := p.Forward(); err != nil {
		return err
	}
	at := transform{quatOf(mujoco.Row(turns, flange, 9)), vec3(mujoco.Row(sites, flange, 3))}
	w.flangeFromPinch = transform{quatOf(w.pinchMat), w.effector()}.inverse().of(at)
	// Enter runs again after a change of factors. The arm's model does not depend on them.
	if w.hand != nil {
		return nil
	}
	var err error
	w.hand, err = newHand()
	return err
}

// show declares what the columns report.
func (w *world) show() {
	for column, array := range map[string][]float64{
		"proprio_joint_pos":           w.QPos[:joints],
		"proprio_joint_vel":           w.QVel[:joints],
		"proprio_effector_pos":        w.pinchAt,
		"sim_pinch_xpos":              w.pinchAt,
		"sim_pinch_xmat":              w.pinchMat,
		"proprio_gripper_vel":         w.QVel[driver : driver+1],
		"privileged_block_0_pos":      w.QPos[cubeAt:cubeQuat],
		quatColumn:                    w.QPos[cubeQuat:],
		"privileged_target_block_pos": w.Goal,
	} {
		w.Show(column, array)
	}
	for column, f := range map[string]func() float64{
		"proprio_effector_yaw":        w.effectorYaw,
		"proprio_gripper_opening":     w.opening,
		"proprio_gripper_contact":     w.contact,
		"privileged_block_0_yaw":      w.cubeYaw,
		"privileged_target_block_yaw": func() float64 { return quat(w.targetQuat).yaw() },
	} {
		w.Compute(column, func(dst []float64) { dst[0] = f() })
	}
	w.Compute("observation", w.observation)
}

// The effector's position and yaw, the gripper's opening in [0, 1], its contact force in
// units of 50 N, and the cube's yaw.
func (w *world) effector() vec3       { return vec3(w.pinchAt) }
func (w *world) effectorYaw() float64 { return quatOf(w.pinchMat).yaw() }
func (w *world) opening() float64     { return min(max(w.QPos[driver]/driverRange, 0), 1) }
func (w *world) contact() float64     { return min(norm(w.padForce)/50, 1) }
func (w *world) cubeYaw() float64     { return quat(w.QPos[cubeQuat : cubeQuat+4]).yaw() }

// observation writes OGBench's observation of type "states": offsets and scales included.
func (w *world) observation(dst []float64) {
	copy(dst[0:6], w.QPos)
	copy(dst[6:12], w.QVel[:joints])
	scaled(dst[12:15], w.pinchAt)
	circle(dst[15:17], w.effectorYaw())
	dst[17], dst[18] = 3*w.opening(), w.contact()
	scaled(dst[19:22], w.QPos[cubeAt:])
	copy(dst[22:26], w.QPos[cubeQuat:])
	circle(dst[26:28], w.cubeYaw())
}

// scaled writes a position with the offset and scale of the observation.
func scaled(dst, at []float64) {
	for i, centre := range (vec3{.425, 0, 0}) {
		dst[i] = 10 * (at[i] - centre)
	}
}

// Start draws the cube, a target and the effector's yaw, and moves the effector to its start
// pose over the table, as OGBench's data collection does.
func (w *world) Start(r *rand.Rand) error {
	at, yaw := w.place(r, "start")
	rot := aboutZ(yaw)
	copy(w.QPos[cubeAt:], at[:])
	copy(w.QPos[cubeQuat:], rot[:])
	w.aim(w.place(r, "goal"))
	copy(w.QPos, home[:])
	// The third draw, after cube and target.
	yaw = -math.Pi + 2*math.Pi*r.Float64()
	start := transform{aboutZ(yaw).mul(downward), vec3(w.Of("agent.ee_start_position"))}
	return w.hand.reach(start.of(w.flangeFromPinch), w.QPos[:joints])
}

// place draws a position and yaw of a cube on the table, unless options fix them.
func (w *world) place(r *rand.Rand, which string) (at vec3, yaw float64) {
	var angle [1]float64
	w.Draw(r, "cube."+which+"_position", at[:2])
	w.Draw(r, "cube."+which+"_yaw", angle[:])
	at[2] = height
	return at, angle[0]
}

// aim sets the target's pose.
func (w *world) aim(at vec3, yaw float64) {
	rot := aboutZ(yaw)
	copy(w.Goal, at[:])
	copy(w.targetQuat, rot[:])
}

// Set sets the simulated time, which the oracles read.
func (w *world) Set(row envs.Row) error {
	if now := row["time"]; now != nil {
		w.Data.SetTime(now[0])
	}
	return nil
}

// SetGoal sets the target's rotation if the row has one. No rule of the task reads it and the
// target is not drawn, but the column of its yaw and the oracles do.
func (w *world) SetGoal(row envs.Row) error {
	if row[quatColumn] == nil {
		return nil
	}
	q, _, err := row.First([]string{quatColumn}, len(w.targetQuat))
	if err == nil && norm(q) == 0 {
		err = fmt.Errorf("%s is 0 (hint: a quaternion w, x, y, z)", quatColumn)
	}
	if err == nil {
		copy(w.targetQuat, q)
	}
	return err
}

// Control is OGBench's controller: the target pose of the effector is its observed pose,
// changed by the action and clamped to the workspace. Inverse kinematics converts it to
// joint angles. The gripper always points down.
func (w *world) Control(action []float64) error {
	var by [actionDim]float64
	for i, a := range action {
		by[i] = w.half(a)*(2*actionRange[i]) - actionRange[i]
	}
	// Actions are relative to the observed pose, not to the last target.
	to := transform{at: w.effector()}
	for i, b := range workspace {
		to.at[i] = min(max(to.at[i]+by[i], b[0]), b[1])
	}
	// Compose the yaw rotations as OGBench does, then keep only the yaw.
	turned := aboutZ(by[3]).mul(aboutZ(w.effectorYaw())).mul(downward.inverse())
	to.rot = aboutZ(turned.yaw()).mul(downward)
	// The solver starts from the current joints, so that the solution is close to them.
	copy(w.Ctrl, w.QPos[:joints])
	if err := w.hand.reach(to.of(w.flangeFromPinch), w.Ctrl[:joints]); err != nil {
		return err
	}
	// The gripper's actuator has the range 0 to 255.
	w.Ctrl[joints] = 255 * min(max(w.opening()+by[4], 0), 1)
	return nil
}

// half returns (a + 1) / 2 in the type of the actions, with the rounding of that type.
func (w *world) half(a float64) float64 {
	if w.float64 {
		return 0.5 * (a + 1)
	}
	return float64(0.5 * (float32(a) + 1))
}

// Drive makes the physics steps of an env step. MuJoCo's steps do not compute the contact
// forces on bodies, so they are computed afterwards.
func (w *world) Drive() (s envs.Step, err error) {
	s.Substeps = substeps
	if err := w.AdvanceLagged(substeps); err != nil {
		return s, err
	}
	if err := w.Data.RNEPostConstraint(); err != nil {
		return s, err
	}
	if s.Terminated = w.Solved(); s.Terminated {
		s.Reward = 1
	}
	return s, nil
}

// Solved reports whether there is a goal and the cube's centre is within reach of it.
func (w *world) Solved() bool {
	var d vec3
	for i := range d {
		d[i] = w.QPos[cubeAt+i] - w.Goal[i]
	}
	return w.HasGoal && norm(d[:]) <= reach
}

// Close frees the data of the inverse kinematics.
func (w *world) Close() error {
	w.hand.d.Close()
	return nil
}
