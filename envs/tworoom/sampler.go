package tworoom

import (
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// The values of the switch "sampler".
const (
	constrained = "constrained"
	free        = "free"
)

// drawPlace is uniform over the floor; it may lie outside the band that the
// first step clamps to.
func drawPlace(r *rand.Rand) point {
	const span = envs.FrameSize - 1 - 2*borderSize
	x := float32(borderSize + span*r.Float64())
	y := float32(borderSize + span*r.Float64())
	return point{x, y}
}

// drawAgent is a place that does not touch the dividing wall.
func drawAgent(r *rand.Rand) point {
	for {
		if p := drawPlace(r); !atWall(p) {
			return p
		}
	}
}

func atWall(p point) bool { return faceLeft <= p.x && p.x <= faceRight }

// drawTarget ends for every agent: the far corner of the other room is always
// more than 25 steps away.
func drawTarget(r *rand.Rand, sampler string, agent point) point {
	for {
		p := drawPlace(r)
		if sampler == free || far(agent, p) {
			return p
		}
	}
}

// far is the published set's rule: the target is in the other room, clear of
// the wall, and the way through the door takes at least 25 steps.
func far(agent, target point) bool {
	if (agent.x < wallCentre) == (target.x < wallCentre) || atWall(target) {
		return false
	}
	return toDoor(agent)+toDoor(target) >= minSteps*speed
}

func toDoor(p point) float64 {
	return math.Hypot(float64(p.x)-wallCentre, float64(p.y)-doorCentre)
}
