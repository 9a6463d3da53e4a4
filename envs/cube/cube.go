// Package cube is the task Cube, OGBench's single cube: a UR5e arm with a two-finger gripper
// moves a cube on a table. It is the environment swm/OGBCube-v0 of stable-worldmodel, which
// wraps OGBench.
//
// It is simulated and drawn by MuJoCo itself, through package mjenv, from the model files of
// OGBench's package. The task registers itself without MuJoCo and without those files;
// creating a world needs both, and drawing needs OpenGL. Its files: world.go has the rules,
// ik.go the controller's inverse kinematics, lie.go rotations, scene.go and mjcf.go the
// assembly of the scene, factors.go what may vary.
package cube

import (
	"math"

	"scalewm/envs"
	"scalewm/envs/cube/oracle"
	"scalewm/envs/mjenv"
	"scalewm/envs/policy"
)

// The world (docs/sources.md#cube-world). Lengths are in metres, angles in radians.
const (
	// Sizes of qpos, qvel and ctrl of the compiled scene.
	nq, nv, nu  = 21, 20, 7
	actionDim   = 5
	joints      = 6  // of the arm: the first entries of qpos, qvel and ctrl
	driver      = 6  // index of the right finger's driving joint in qpos and qvel
	driverRange = .8 // angle of that joint with the gripper closed
	cubeAt      = 14 // index of the cube's position in qpos
	cubeQuat    = 17 // index of its rotation
	substeps    = 25 // physics steps of 0.002 s per env step
	reach       = .04
	height      = .02 // z of the centre of a cube that lies on the table
)

// actionRange is the change at an action of 1: effector x, y, z, its yaw, and the gripper's
// opening.
var actionRange = [actionDim]float64{.05, .05, .05, .3, 1}

var (
	// workspace bounds the effector's target: x, y, z.
	workspace = [3][2]float64{{.25, .6}, {-.35, .35}, {.02, .35}}
	// table bounds the positions of cube and target at a reset: x, y.
	table = [2][2]float64{{.3, .55}, {-.3, .3}}
	// home is the arm's joint angles from which a reset solves for the effector's start pose.
	home = [joints]float64{-math.Pi / 2, -math.Pi / 2, math.Pi / 2, -math.Pi / 2, -math.Pi / 2, 0}
)

// quatColumn is the column of the cube's rotation. In a goal row it is the target's.
const quatColumn = "privileged_block_0_quat"

// actionTypeSwitch is the name of the switch for the type of actions.
const actionTypeSwitch = "action_dtype"

var spec = &envs.Spec{
	Name:      "cube",
	ID:        "swm/OGBCube-v0",
	Title:     "OGBench Cube",
	ActionDim: actionDim,
	Columns: []envs.Column{
		// MuJoCo's state, in the model's order of joints.
		{Name: "qpos", DType: "float64", Width: nq, Doc: "six joints of the arm, eight of the gripper in radians; cube x, y, z in metres and quaternion w, x, y, z"},
		{Name: "qvel", DType: "float64", Width: nv, Doc: "their velocities, the cube's turning as three numbers"},
		// The observation of OGBench's states, and its unscaled parts under the names that
		// stable-worldmodel records. The effector's pose and the contact lag by one physics step.
		{Name: "observation", DType: "float64", Width: 28, Doc: "what follows, scaled: joints, velocities, effector, cos and sin of its yaw, opening, contact; cube, quaternion, cos and sin of its yaw"},
		{Name: "proprio_joint_pos", DType: "float64", Width: joints, Doc: "the arm's joints in radians"},
		{Name: "proprio_joint_vel", DType: "float64", Width: joints, Doc: "in rad/s"},
		{Name: "proprio_effector_pos", DType: "float64", Width: 3, Doc: "between the finger tips, x, y, z in metres, one physics step before qpos"},
		{Name: "proprio_effector_yaw", DType: "float64", Width: 1, Angle: []int{0}, Doc: "the gripper's angle about z, of the same time"},
		{Name: "proprio_gripper_opening", DType: "float64", Width: 1, Doc: "0 open, 1 closed"},
		{Name: "proprio_gripper_vel", DType: "float64", Width: 1, Doc: "of the right finger's driving joint in rad/s"},
		{Name: "proprio_gripper_contact", DType: "float64", Width: 1, Doc: "force on the right pad in units of 50 N, at most 1"},
		{Name: "privileged_block_0_pos", DType: "float64", Width: 3, Doc: "cube x, y, z in metres"},
		{Name: quatColumn, DType: "float64", Width: 4, Doc: "its rotation, w, x, y, z"},
		{Name: "privileged_block_0_yaw", DType: "float64", Width: 1, Angle: []int{0}, Doc: "its angle about z"},
		// The goal, also of a collected episode.
		{Name: "privileged_target_block_pos", DType: "float64", Width: 3, Goal: true, Doc: "where the cube ought to be: the goal, or what the collecting policy aims at"},
		{Name: "privileged_target_block_yaw", DType: "float64", Width: 1, Angle: []int{0}, Goal: true, Doc: "and its angle there, which no rule asks for"},
		{Name: "time", DType: "float64", Width: 1, Doc: "seconds since the reset"},
		// Hidden state, needed to restart inside an episode exactly.
		{Name: mjenv.WarmstartColumn, DType: "float64", Width: nv, Doc: "where the contact solver starts in the next step"},
		{Name: "sim_pinch_xpos", DType: "float64", Width: 3, Doc: "the effector's place that the next step's controller starts from"},
		{Name: "sim_pinch_xmat", DType: "float64", Width: 9, Doc: "and its rotation matrix, rows first"},
		{Name: mjenv.ControlColumn, DType: "float64", Width: nu, Into: true, Doc: "joint angles asked of the arm's motors, and the gripper's 0 to 255"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Goal: true, Doc: "1 where the goal is met, else 0; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row met the goal"},
	},
	StateColumns: []string{"qpos", "qvel"},
	Velocities:   map[string][2]int{"qvel": {0, nv}},
	GoalColumns:  []string{"privileged_block_0_pos"},
	MaxSteps:     200, // with the row of the reset these are the 201 rows of a published episode
	Qs: []envs.Q{
		{Name: "full", Columns: fullColumns, Parts: fullParts, Of: fullQ},
		{Name: "half", Printed: true, Columns: fullColumns[:2], Parts: fullParts[:5], Of: halfQ},
		// The three-index slices have no spare capacity, so append copies them.
		{Name: "native", Columns: append(fullColumns[:4:4], "proprio_gripper_contact", "proprio_joint_pos", "privileged_block_0_yaw"),
			Parts: append(fullParts[:9:9], "contact", "cos pan", "sin pan", "cos lift", "sin lift", "cos elbow", "sin elbow",
				"cos wrist 1", "sin wrist 1", "cos wrist 3", "sin wrist 3", "cos 4 block yaw", "sin 4 block yaw"),
			Of: nativeQ},
	},
	Switches: []envs.Switch{{Name: actionTypeSwitch, Values: []string{"float32", "float64"},
		Doc: "the type in which actions are scaled, that of the recorded actions"}},
	Factors:  factors,
	Policies: []string{oracle.PlanName, oracle.MarkovName, policy.UniformName},
	Success:  "after a step the middle of the cube is within 0.04 m of the goal's",
	Source:   "stable-worldmodel 0.1.1 on OGBench 1.2.1, dm_control 1.0.44 and MuJoCo 3.11.0; recordings of them",
}

func init() {
	envs.Register(envs.Task{
		Spec: spec,
		New:  func(o envs.Options) (envs.Env, error) { return newEnv(o) },
		Policy: policy.From(spec, map[string]func() envs.Policy{
			oracle.PlanName:    oracle.NewPlan,
			oracle.MarkovName:  oracle.NewMarkov,
			policy.UniformName: policy.NewUniform,
		}),
	})
}

// Columns and entries of the paper's task state. The effector's yaw is doubled, since the
// gripper looks the same after half a turn, and the cube's is multiplied by four.
var (
	fullColumns = []string{"proprio_effector_pos", "proprio_effector_yaw", "proprio_gripper_opening", "privileged_block_0_pos"}
	fullParts   = []string{"effector x", "effector y", "effector z", "cos 2 yaw", "sin 2 yaw", "opening", "block x", "block y", "block z"}
)

// halfQ writes the effector's state.
func halfQ(row envs.Row, dst []float64) {
	copy(dst[:3], row["proprio_effector_pos"])
	circle(dst[3:5], 2*row["proprio_effector_yaw"][0])
}

// fullQ writes the states of effector, gripper and cube.
func fullQ(row envs.Row, dst []float64) {
	halfQ(row, dst)
	dst[5] = row["proprio_gripper_opening"][0]
	copy(dst[6:9], row["privileged_block_0_pos"])
}

// nativeQ omits the fifth joint, which does not move.
func nativeQ(row envs.Row, dst []float64) {
	fullQ(row, dst)
	dst[9] = row["proprio_gripper_contact"][0]
	q := row["proprio_joint_pos"]
	for i, a := range []float64{q[0], q[1], q[2], q[3], q[5], 4 * row["privileged_block_0_yaw"][0]} {
		circle(dst[10+2*i:], a)
	}
}

// circle writes cosine and sine of an angle.
func circle(dst []float64, angle float64) { dst[0], dst[1] = math.Cos(angle), math.Sin(angle) }
