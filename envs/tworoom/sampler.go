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

// The floor from which places are drawn, the tries to draw a target, and the
// worlds in which that is tried.
const (
	placeLow  = borderSize
	placeHigh = envs.FrameSize - borderSize - 1
	maxTries  = 1000
	maxWorlds = 100
)

// drawPlace is uniform over the floor; it may lie outside the band that the
// first step clamps to.
func drawPlace(r *rand.Rand) point {
	x := float32(placeLow + (placeHigh-placeLow)*r.Float64())
	y := float32(placeLow + (placeHigh-placeLow)*r.Float64())
	return point{x, y}
}

// drawAgent is a place that does not touch the dividing wall.
func (l *look) drawAgent(r *rand.Rand) point {
	for {
		if p := drawPlace(r); !l.atWall(p) {
			return p
		}
	}
}

func (l *look) atWall(p point) bool {
	x := float64(l.place(p).x)
	return l.faceLow <= x && x <= l.faceHigh
}

// drawTarget finds a place for every agent of the initial factors: the far
// corner of the other room is always more than 25 steps away. Others may ask
// for more than the floor has.
func (l *look) drawTarget(r *rand.Rand, sampler string, agent point) (p point, found bool) {
	for range maxTries {
		p := drawPlace(r)
		if sampler == free || l.far(agent, p) {
			return p, true
		}
	}
	return point{}, false
}

// far is the published set's rule: the target is in the other room, clear of
// the wall, and the shortest way through a door that lets the agent through
// takes at least 25 steps.
func (l *look) far(agent, target point) bool {
	if (l.place(agent).x < wallCentre) == (l.place(target).x < wallCentre) || l.atWall(target) {
		return false
	}
	way := math.Inf(1)
	for _, d := range l.doors {
		if l.passes(d) {
			way = min(way, l.toDoor(agent, d)+l.toDoor(target, d))
		}
	}
	return way >= l.minSteps*float64(l.speed)
}

func (l *look) toDoor(p point, d door) float64 {
	p = l.place(p)
	return math.Hypot(float64(p.x)-wallCentre, float64(p.y)-float64(d.at))
}
