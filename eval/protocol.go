// Package eval judges world models by planning with them: it draws the
// evaluation sets, runs all episodes of an arm side by side and writes one cell
// for each set and tier. Every arm of a comparison meets the same starts, goals
// and planner noise.
//
// It knows tasks only through envs.Env, models only through model.World and
// solvers only through eval/plan; it neither trains nor reports.
package eval

import (
	"scalewm/dataset"
	"scalewm/dataset/rng"
)

// The published evaluation (docs/sources.md#evaluation-loop): a plan of Horizon
// blocks of Block env steps is executed whole, at most twice in an episode.
const (
	Horizon    = 5  // blocks of a plan, all executed before the next plan
	Block      = 5  // env steps of a block, the frame skip of training
	Budget     = 50 // env steps of an episode
	GoalOffset = 25 // rows from start to goal
)

// schema is the version of record.Spec that this package writes.
const schema = 1

// noiseKey is the stream of an episode's planner noise, the same for every arm.
func noiseKey(p dataset.Protocol, set string, seed uint32) uint64 {
	if p == dataset.Strict {
		return rng.Key("planner", set, int(seed))
	}
	return rng.Key("planner", int(seed))
}
