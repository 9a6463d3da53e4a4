// Package pusht is the task Push-T, a port of stable-worldmodel's environment: on a table
// seen from above, a disc (the agent) pushes a T-shaped block until both are at a goal
// state.
//
// States equal those of the reference implementation bit for bit. It simulates with pymunk
// 7, whose engine is Munk2D, the successor of Chipmunk. The solver here is a port of the
// parts that this scene needs: one kinematic disc, one body of two convex parts, four
// walls, no friction, no restitution, damping 0. It takes the same steps in the same order,
// because contacts, their order and their cached impulses all affect the last bits, and
// pushing amplifies such differences within an episode. Explicit float64 conversions keep
// compilers from fusing a product and a sum.
//
// The task registers itself as "pusht". Its files: env.go has the rules of the task,
// world.go the simulation step, body.go the shapes, tree.go the broad phase, collide.go and
// contact.go the narrow phase and the impulse solver, trig.go sine and cosine, restart.go
// exact restarts, factors.go what may vary, draw.go the frames.
package pusht

import (
	"math"

	"scalewm/envs"
	"scalewm/envs/policy"
)

// The table. Lengths are in pixels of a 512-pixel window; x increases to the right, y
// downwards (docs/sources.md#push-t).
const (
	window       = 512
	substeps     = 10  // physics steps per env step
	actionScale  = 100 // distance from the agent to its target at full action
	stiffness    = 100 // of the agent's PD controller
	damping      = 20
	solvedWithin = 20          // pixels: norm over agent and block positions together
	solvedTurn   = math.Pi / 9 // radians, of the block
)

// Names of the switches and their values.
const (
	numericMode   = "numeric_mode"
	modeFloat64   = "float64"
	modeFloat32PD = "float32_pd"

	actionDType = "action_dtype"
	typeFloat32 = "float32"
	typeFloat64 = "float64"

	goalSwitch  = "goal"
	goalDrawn   = "drawn"
	goalSampled = "sampled"
)

var spec = &envs.Spec{
	Name:      "pusht",
	ID:        "swm/PushT-v1",
	Title:     "Push-T",
	ActionDim: 2,
	Columns: []envs.Column{
		{Name: "state", DType: "float64", Width: stateWidth, Angle: []int{4}, Doc: "agent x, y; block x, y in pixels; block angle modulo 2 pi; agent velocity x, y in pixels/s"},
		{Name: "proprio", DType: "float64", Width: 4, Doc: "agent x, y; agent velocity x, y"},
		{Name: "pos_agent", DType: "float64", Width: 2, Doc: "agent x, y in pixels"},
		{Name: "vel_agent", DType: "float64", Width: 2, Doc: "agent velocity x, y in pixels/s"},
		{Name: "block_pose", DType: "float64", Width: 3, Angle: []int{2}, Doc: "block x, y in pixels and its angle, not wrapped"},
		{Name: "goal_pose", DType: "float64", Width: 3, Angle: []int{2}, Doc: "pose of the T that is drawn as the goal"},
		{Name: "goal_state", DType: "float64", Width: stateWidth, Angle: []int{4}, Goal: true, Doc: "the goal, as state; its angle as it was given"},
		{Name: "goal_proprio", DType: "float64", Width: 4, Goal: true, Doc: "the goal's agent x, y and velocity x, y"},
		{Name: "n_contacts", DType: "int64", Width: 1, Doc: "contact points of the step's 10 sub-steps / 10, rounded up; in row 0, of all sub-steps since the space was made"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Goal: true, Doc: "minus the L2 distance of state and goal_state over all 7 numbers; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row met the goal"},
		{Name: "restart_mode", DType: "int64", Width: 1, Doc: "how row 0 was reached: 0 start; 1 goal, start; 2 goal, start, evaluation state; -1 otherwise"},
		{Name: "restart_setup_pose", DType: "float64", Width: 5, Angle: []int{4}, Doc: "where the episode's space was made: agent x, y; block x, y, angle"},
		{Name: "restart_goal_state", DType: "float64", Width: stateWidth, Angle: []int{4}, Doc: "the state that the episode's reset set to draw its goal"},
		{Name: "restart_start_state", DType: "float64", Width: stateWidth, Angle: []int{4}, Doc: "the state that the episode's reset set then"},
	},
	StateColumns: []string{"state"},
	GoalColumns:  []string{"state"},
	Velocities:   map[string][2]int{"state": {5, 7}},
	GoalDistance: func(now, goal []float64) float64 { // of the block: position in window widths plus angle in half turns
		return envs.Euclidean(now[2:4], goal[2:4])/window + envs.Turn(now[4], goal[4])/math.Pi
	},
	MaxSteps: 246,
	Qs: []envs.Q{
		{Name: "full", Columns: []string{"state"}, Parts: []string{"agent x", "agent y", "block x", "block y", "cos block angle", "sin block angle"},
			Of: func(row envs.Row, dst []float64) {
				copy(dst, row["state"][:4])
				dst[5], dst[4] = math.Sincos(row["state"][4])
			}},
		{Name: "half", Columns: []string{"state"}, Parts: []string{"block x", "block y", "cos block angle", "sin block angle"},
			Of: func(row envs.Row, dst []float64) {
				copy(dst, row["state"][2:4])
				dst[3], dst[2] = math.Sincos(row["state"][4])
			}},
		{Name: "native", Columns: []string{"state"}, Parts: []string{"agent x", "agent y", "block x", "block y", "cos block angle", "sin block angle", "agent vx", "agent vy"},
			Of: func(row envs.Row, dst []float64) {
				copy(dst, row["state"][:4])
				dst[5], dst[4] = math.Sincos(row["state"][4])
				copy(dst[6:], row["state"][5:])
			}},
	},
	Switches: []envs.Switch{
		{Name: numericMode, Values: []string{modeFloat64, modeFloat32PD},
			Doc: "how the agent's controller computes: float64, as with NumPy 1; float32_pd, as with NumPy 2 and float32 actions"},
		{Name: actionDType, Values: []string{typeFloat32, typeFloat64},
			Doc: "type in which 100 x action is taken in mode float64; a recording's own action column says it"},
		{Name: goalSwitch, Values: []string{goalDrawn, goalSampled},
			Doc: "goal of a reset: drawn, the block at the pose that is drawn; sampled, any, as the code samples it"},
	},
	Factors:  factors,
	Policies: []string{policy.ExpertName, policy.WeakName, policy.UniformName},
	Success:  "distance over agent x, y and block x, y together < 20 px and block angle within pi/9",
	Source:   "stable-worldmodel 0.1.1, envs/pusht (MIT), on pymunk 7.3.1 (MIT) and pygame 2.6.1; recordings of it under dataset/replay/testdata",
}

func init() {
	envs.Register(envs.Task{
		Spec: spec,
		New: func(o envs.Options) (envs.Env, error) {
			return newEnv(o)
		},
		Policy: policy.From(spec, map[string]func() envs.Policy{policy.ExpertName: policy.NewPusher, policy.WeakName: policy.NewWeakPusher, policy.UniformName: policy.NewUniform}),
	})
}
