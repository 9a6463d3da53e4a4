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

// The area from which positions are drawn, the maximum number of attempts to draw a target
// in a world, and the maximum number of worlds drawn per reset.
const (
	placeLow  = borderSize
	placeHigh = envs.FrameSize - borderSize - 1
	maxTries  = 1000
	maxWorlds = 100
)

// drawPlace draws a position uniformly from the floor. It may be outside the area to which
// the first step clamps the agent, as in the reference implementation.
func drawPlace(r *rand.Rand) point {
	x := float32(placeLow + (placeHigh-placeLow)*r.Float64())
	y := float32(placeLow + (placeHigh-placeLow)*r.Float64())
	return point{x, y}
}

// drawAgent draws a position that does not touch the dividing wall.
func (l *look) drawAgent(r *rand.Rand) point {
	for {
		if p := drawPlace(r); !l.atWall(p) {
			return p
		}
	}
}

// atWall reports whether an agent at p touches the dividing wall, doors included.
func (l *look) atWall(p point) bool {
	x := float64(l.place(p).x)
	return l.faceLow <= x && x <= l.faceHigh
}

// drawTarget draws a target position. With the initial factors one exists for every agent,
// since the far corner of the other room is more than 25 steps away. With other factors
// there may be none, so the number of attempts is limited.
func (l *look) drawTarget(r *rand.Rand, sampler string, agent point) (p point, found bool) {
	for range maxTries {
		p := drawPlace(r)
		if sampler == free || l.farEnough(agent, p) {
			return p, true
		}
	}
	return point{}, false
}

// farEnough is the constraint of the published data set: the target is in the other room,
// clear of the wall, and the shortest path through a passable door takes at least minSteps
// steps at full speed. The path is measured to the centre of the door.
func (l *look) farEnough(agent, target point) bool {
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

// toDoor returns the distance from p to the centre of a door.
func (l *look) toDoor(p point, d door) float64 {
	p = l.place(p)
	return math.Hypot(float64(p.x)-wallCentre, float64(p.y)-float64(d.at))
}
