// Package tworoom is the task Two-Room, a port of stable-worldmodel's environment: a dot
// moves on a 224-pixel floor that a wall with a door divides, from a random position to a
// target in the other room.
//
// States, distances and flags equal those of the reference implementation bit for bit.
// Everything is computed in float32 and in its order of operations, with explicit
// conversions so that no compiler may fuse a product and a sum. Frames are equal too.
//
// The task registers itself as "tworoom". Its files: env.go has the dynamics, factors.go
// what may vary, sampler.go the start of an episode, sweep.go the walls of CLEAR-LeWM, draw.go
// the frames.
package tworoom

import (
	"scalewm/envs"
	"scalewm/envs/policy"
)

// Dimensions in pixels; x increases to the right, y downwards
// (docs/sources.md#two-room-world). What may vary is in factors.go.
const (
	borderSize  = 14   // the outer walls are drawn in columns and rows 10..13 and 210..213
	wallCentre  = 112  // coordinate of the dividing wall's centre line
	maxDoors    = 3    // maximum number of doors in the wall
	doorMargin  = 1.75 // the passable band extends beyond the door by this on both sides
	doorFit     = 1.1  // minimum half width of a passable door, in radii of the agent
	reachedAt   = 16   // the episode ends at a smaller distance from the target
	pushBack    = 0.5  // distance from the wall's face at which a collision stops the agent
	actionNoise = 2.0  // standard deviation of the noise in the expert's recorded actions
)

var spec = &envs.Spec{
	Name:      "tworoom",
	ID:        "swm/TwoRoom-v1",
	Title:     "Two-Room",
	ActionDim: 2,
	Columns: []envs.Column{
		{Name: "state", DType: "float32", Width: 2, Doc: "agent x, y in pixels"},
		{Name: "proprio", DType: "float32", Width: 2, Doc: "the same as state"},
		{Name: "pos_agent", DType: "float32", Width: 2, Doc: "the same as state, under its older name"},
		{Name: "observation", DType: "float32", Width: 10, Goal: true, Doc: "agent x, y; target x, y; x, y of three door centres, (0, 0) for an absent door"},
		{Name: "goal_state", DType: "float32", Width: 2, Goal: true, Doc: "target x, y in pixels"},
		{Name: "pos_target", DType: "float32", Width: 2, Goal: true, Doc: "the same as goal_state, under its older name"},
		{Name: "distance_to_target", DType: "float64", Width: 1, Goal: true, Doc: "pixels, a float32 number"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Doc: "always 0; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row came nearer than 16 pixels to the target"},
	},
	StateColumns: []string{"state", "proprio", "pos_agent"},
	GoalColumns:  []string{"state", "proprio", "pos_agent"},
	Velocities:   map[string][2]int{},
	GoalAliases:  []string{"pos_target"},
	MaxSteps:     100,
	Qs: []envs.Q{{Name: "full", Columns: []string{"proprio"}, Parts: []string{"agent x", "agent y"},
		Of: func(row envs.Row, dst []float64) { copy(dst, row["proprio"][:2]) }}},
	Switches: []envs.Switch{
		{Name: "sampler", Values: []string{constrained, free},
			Doc: "constrained: target in the other room, at least 25 steps away, as the published set was drawn; free: target anywhere, as the code draws today"},
		{Name: collision, Values: []string{official, swept}, Implied: true,
			Doc: "official: walls are tested at the end of a step, as in stable-worldmodel; swept: along the way, as in CLEAR-LeWM, so that a disc needs a door as wide as itself"},
	},
	Factors:  factors,
	Policies: []string{policy.ExpertName, policy.UniformName},
	Success:  "distance of agent and target < 16 px",
	Source:   "stable-worldmodel 0.1.1, envs/two_room (MIT); recordings of it under testdata",
}

func init() {
	envs.Register(envs.Task{
		Spec: spec,
		New: func(o envs.Options) (envs.Env, error) {
			return newEnv(o)
		},
		Policy: policy.From(spec, map[string]func() envs.Policy{
			policy.ExpertName:  func() envs.Policy { return policy.NewDoorExpert(actionNoise) },
			policy.UniformName: policy.NewUniform,
		}),
	})
}
