// Package pointmaze is the task PointMaze, a port of DINO-WM's point maze (from D4RL, with
// mujoco-py): a ball, pushed by two motors, rolls through a U-shaped maze.
//
// The reference implementation simulates with MuJoCo. For this scene MuJoCo's equations have
// a closed form, which this package computes in float64, sub-step by sub-step. It equals
// MuJoCo to within rounding and is much faster. Frames equal those of MuJoCo's renderer,
// whose camera looks straight down. The task therefore needs no library.
//
// The task registers itself as "pointmaze". Its files: env.go has the rules, maze.go the map,
// physics.go the contacts, scene.go and draw.go the frames.
package pointmaze

import (
	"scalewm/envs"
	"scalewm/envs/policy"
)

// The world (docs/sources.md#pointmaze-world). Lengths are in metres, masses in kg; a world
// coordinate is qpos + bodyAt.
const (
	bodyAt      = 1.2                // position of the ball's body in both axes
	radius      = 0.1                // of the ball
	mass        = 4.1887902047863914 // of a ball of this radius and density 1000
	damping     = 1.0
	gear        = 100.0 // force in N at full action
	timestep    = 0.01  // seconds
	substeps    = 5     // physics steps per env step
	maxVelocity = 5.0   // m/s, at the start of an env step; within it there is no limit
	reachedAt   = 0.5   // the goal is met at a smaller distance
)

// The switch contactProfile and its values: the MuJoCo versions since which contacts are
// computed in a certain way.
const (
	contactProfile = "contact_profile"
	profile21      = "2.1"
	profile30      = "3.0"
	profile35      = "3.5"
)

var spec = &envs.Spec{
	Name:      "pointmaze",
	ID:        "swm/DWMPointMaze-v0",
	Title:     "PointMaze",
	ActionDim: 2,
	Columns: []envs.Column{
		{Name: "state", DType: "float32", Width: 4, Doc: "ball x, y in metres from the maze's corner and velocity x, y in m/s"},
		{Name: "pos", DType: "float32", Width: 2, Doc: "ball x, y, the first half of state"},
		{Name: "qpos", DType: "float64", Width: 2, Doc: "ball x, y before they are rounded to float32"},
		{Name: "qvel", DType: "float64", Width: 2, Doc: "velocity x, y before it is rounded to float32"},
		{Name: "drawn_xy", DType: "float64", Width: 2, Doc: "where the disc is in the frame, in the coordinates of qpos: one sub-step behind after a step"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Doc: "always 0; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row came nearer than 0.5 m to the goal"},
	},
	StateColumns: []string{"state"},
	GoalColumns:  []string{"state"},
	Velocities:   map[string][2]int{"state": {2, 4}},
	GoalDistance: func(now, goal []float64) float64 { return envs.Euclidean(now[:2], goal[:2]) },
	MaxSteps:     99, // with the row of the reset these are the 100 rows of a published episode
	Qs: []envs.Q{
		{Name: "full", Columns: []string{"state"}, Parts: []string{"x", "y"}, // not pos, which some files lack
			Of: func(row envs.Row, dst []float64) { copy(dst, row["state"][:2]) }},
		{Name: "native", Columns: []string{"state"}, Parts: []string{"x", "y", "velocity x", "velocity y"},
			Of: func(row envs.Row, dst []float64) { copy(dst, row["state"][:4]) }},
	},
	Switches: []envs.Switch{{Name: contactProfile, Values: []string{profile21, profile30, profile35},
		Doc: "contacts as MuJoCo computes them: 2.1 up to 2.3.7 (the paper's), 3.0 up to 3.4, 3.5 since"}},
	Policies: []string{policy.UniformName},
	Success:  "distance of ball and goal position < 0.5 m, velocities ignored",
	Source:   "MuJoCo 2.3.7 and 4.0.0 with the scene and the step of DINO-WM's point maze; recordings of them",
}

func init() {
	envs.Register(envs.Task{
		Spec: spec,
		New: func(o envs.Options) (envs.Env, error) {
			o, err := spec.Resolve(o)
			if err != nil {
				return nil, err
			}
			return newEnv(o[contactProfile]), nil
		},
		Policy: policy.From(spec, map[string]func() envs.Policy{policy.UniformName: policy.NewUniform}),
	})
}
