// Package tworoom is Two-Room: a dot walks on a 224-pixel floor that a wall
// with one door divides, from a random place to a hidden target in the other
// room. States, distances and flags equal those of the original to the bit:
// everything is computed in float32 and in the original's order of operations,
// with explicit conversions so that no compiler may fuse a product into a sum.
//
// It knows nothing of data sets or policies' insides.
package tworoom

import (
	"scalewm/envs"
	"scalewm/envs/policy"
)

// The world in pixels; x runs right, y down (docs/sources.md#two-room-world). What may vary is
// in factors.go.
const (
	borderSize  = 14   // the walls round the floor are drawn in columns and rows 10..13 and 210..213
	wallCentre  = 112  // where the dividing wall is, across it
	maxDoors    = 3    // in the wall
	doorMargin  = 1.75 // the band in which one passes is wider than the door by this
	doorFit     = 1.1  // half a door that lets an agent through, in radii of the agent
	reachedAt   = 16   // the episode ends nearer than this
	pushBack    = 0.5  // a wall throws the agent this far back from its face
	actionNoise = 2.0  // of the expert's logged actions
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
	GoalAliases:  []string{"pos_target"},
	MaxSteps:     100,
	Qs: []envs.Q{{Name: "full", Columns: []string{"proprio"}, Parts: []string{"agent x", "agent y"},
		Of: func(row envs.Row, dst []float64) { copy(dst, row["proprio"][:2]) }}},
	Switches: []envs.Switch{{Name: "sampler", Values: []string{constrained, free},
		Doc: "constrained: target in the other room, at least 25 steps away, as the published set was drawn; free: target anywhere, as the code draws today"}},
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
