// Package reacher is the task Reacher: an arm of two links turns in a horizontal plane,
// driven by a motor at each joint. It is the Reacher of dm_control (the DeepMind Control
// Suite) with stable-worldmodel's wrapper (task qpos_match).
//
// It is simulated and drawn by MuJoCo itself, through package mjenv. The task registers
// itself without MuJoCo; creating a world needs the library, and drawing needs OpenGL.
// world.go has the rules, scene.xml the scene.
package reacher

import (
	"math"

	"scalewm/envs"
	"scalewm/envs/mjenv"
	"scalewm/envs/policy"
)

// The world (docs/sources.md#reacher-world). Lengths are in metres, angles in radians.
const (
	joints    = 2
	substeps  = 2    // physics steps of 0.02 s per env step, unless the first one meets the goal
	threshold = 0.05 // the goal is met if every joint differs from it by less than this
	// reachOf is the distance at which the finger touches the target: the sum of their radii
	// in the model that the reference implementation writes.
	reachOf = 0.015 + 0.01
)

// The switch for the physics steps of an env step, and its values.
const (
	substepsSwitch = "substeps"
	substepsFirst  = "first"
	substepsAll    = "all"
)

// wristLimit is the limit of the second joint's angle on both sides.
const wristLimit = 160 * math.Pi / 180

var spec = &envs.Spec{
	Name:        "reacher",
	ID:          "swm/ReacherDMControl-v0",
	Title:       "Reacher",
	ActionDim:   joints,
	ActionDType: "float64",
	Columns: []envs.Column{
		{Name: "qpos", DType: "float64", Width: joints, Doc: "angles of shoulder (not wrapped) and wrist in radians"},
		{Name: "qvel", DType: "float64", Width: joints, Doc: "angular velocities in rad/s"},
		{Name: "observation", DType: "float32", Width: 6, Doc: "qpos, finger to target x, y, qvel"},
		{Name: "finger_pos", DType: "float64", Width: 2, Doc: "finger x, y in metres"},
		{Name: "target_pos", DType: "float64", Width: 2, Doc: "target x, y in metres: of the suite's own tasks, here it decides only the reward"},
		{Name: mjenv.WarmstartColumn, DType: "float64", Width: joints, Doc: "where the solver of the wrist's limit starts in the next step"},
		{Name: mjenv.ControlColumn, DType: "float64", Width: joints, Into: true, Doc: "control of the motors"},
		{Name: "substeps", DType: "int32", Width: 1, Into: true, Doc: "physics steps made: 1 where the first met the goal"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Doc: "physics steps after which the finger touched the target; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row met the goal"},
	},
	StateColumns: []string{"qpos", "qvel"},
	GoalColumns:  []string{"qpos"},
	Velocities:   map[string][2]int{"qvel": {0, 2}},
	GoalDistance: func(now, goal []float64) float64 { return envs.Turn(now[0], goal[0]) + envs.Turn(now[1], goal[1]) },
	MaxSteps:     200, // with the row of the reset these are the 201 rows of a published episode
	Qs: []envs.Q{
		{Name: "full", Columns: []string{"qpos"}, Parts: []string{"cos shoulder", "sin shoulder", "cos wrist", "sin wrist"},
			Of: func(row envs.Row, dst []float64) { angles(dst, row["qpos"]) }},
		{Name: "half", Printed: true, Columns: []string{"qpos"}, Parts: []string{"cos shoulder", "sin shoulder"},
			Of: func(row envs.Row, dst []float64) { angles(dst, row["qpos"][:1]) }},
		{Name: "native", Columns: []string{"qpos", "qvel", "finger_pos"},
			Parts: []string{"cos shoulder", "sin shoulder", "cos wrist", "sin wrist", "shoulder velocity", "wrist velocity", "finger x", "finger y"},
			Of: func(row envs.Row, dst []float64) {
				angles(dst, row["qpos"])
				copy(dst[4:6], row["qvel"])
				copy(dst[6:8], row["finger_pos"])
			}},
	},
	Switches: []envs.Switch{{Name: substepsSwitch, Values: []string{substepsFirst, substepsAll}, Implied: true,
		Doc: "first: an env step ends at the physics step that meets the goal; all: it makes both, and the second one decides, as in CLEAR-LeWM since 0.8"}},
	Factors:  factors,
	Policies: []string{policy.UniformName},
	Success:  "after any physics step both joints are within 0.05 rad of the goal, the shoulder not wrapped",
	Source:   "stable-worldmodel 0.1.1 on dm_control 1.0.44 and MuJoCo 3.11.0; recordings of them",
}

// factors are the factors of the reference implementation in the order in which it draws
// them, without agent.finger_locked, which has no effect there. Each of them requires a
// newly compiled model.
var factors = []envs.Factor{
	{Name: "agent.color", DType: "float64", High: 1, Init: []float64{0.7, 0.5, 0.3}, Doc: "red, green, blue of both links"},
	{Name: "agent.arm_density", DType: "float32", Low: 500, High: 1500, Init: []float64{1000}, Doc: "of the first link in kg/m³"},
	{Name: "agent.finger_density", DType: "float32", Low: 500, High: 1500, Init: []float64{1000}, Doc: "of the finger in kg/m³"},
	{Name: "floor.color", DType: "float64", High: 1, Init: []float64{0.1, 0.2, 0.3, 0.2, 0.3, 0.4}, Doc: "red, green, blue of the checker's one colour and of its other"},
	{Name: "target.color", DType: "float64", High: 1, Init: []float64{0.6, 0.3, 0.3}, Doc: "red, green, blue"},
	{Name: "target.shape", DType: "int64", High: 1, Init: []float64{1}, Doc: "0: a box, 1: a sphere"},
	{Name: "rendering.render_target", DType: "int64", High: 1, Init: []float64{0}, Doc: "1: the target is drawn"},
	{Name: "light.intensity", DType: "float64", High: 1, Init: []float64{0.7}, Doc: "of the light above, per channel"},
}

// angles writes cosine and sine of each angle, which makes angles comparable without
// wrapping.
func angles(dst, q []float64) {
	for i, a := range q {
		dst[2*i], dst[2*i+1] = math.Cos(a), math.Sin(a)
	}
}

func init() {
	envs.Register(envs.Task{
		Spec:   spec,
		New:    newEnv,
		Policy: policy.From(spec, map[string]func() envs.Policy{policy.UniformName: policy.NewUniform}),
	})
}
