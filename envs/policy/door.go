package policy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// doorReached is the distance, in pixels, from a door's centre at which the expert turns to
// the target.
const doorReached = 10.5

// doorFit is the minimum half width of a door that the expert uses, in radii of the agent.
const doorFit = 1.1

// doorExpert reproduces the published expert of Two-Room (docs/sources.md#two-room-data).
type doorExpert struct {
	noise  float64 // standard deviation of the noise on actions
	r      *rand.Rand
	obs    [10]float64 // the column observation
	across int         // coordinate that the wall divides: 0 for x, 1 for y
	radius float64     // of the agent
	half   [3]float64  // half widths of the doors
}

// NewDoorExpert returns the expert of Two-Room. While the target is in the other room, it
// moves to the nearest door that it fits through, then to the target, at full speed. It adds
// normal noise of the given standard deviation to each component of the action and clips the
// sum to ±1. It reads the column observation (agent, target, three door centres) and the
// task's factors.
func NewDoorExpert(noise float64) envs.Policy { return &doorExpert{noise: noise} }

// Reset reads the factors, which stay the same during an episode.
func (d *doorExpert) Reset(e envs.Env, r *rand.Rand) error {
	d.r = r
	var axis, radius [1]float64
	if err := errors.Join(e.Observe("variation.wall.axis", axis[:]), e.Observe("variation.agent.radius", radius[:]),
		e.Observe("variation.door.size", d.half[:])); err != nil {
		return fmt.Errorf("policy: the door expert reads the room: %w", err)
	}
	d.across, d.radius = int(1-axis[0]), radius[0]
	return nil
}

// Act writes the action towards the current waypoint.
func (d *doorExpert) Act(e envs.Env, dst []float64) error {
	if err := e.Observe("observation", d.obs[:]); err != nil {
		return fmt.Errorf("policy: the door expert reads its observation: %w", err)
	}
	dx, dy := d.waypoint()
	dx, dy = dx-d.obs[0], dy-d.obs[1]
	if n := math.Hypot(dx, dy); n > 1e-8 {
		dx, dy = dx/n, dy/n
	} else {
		dx, dy = 0, 0
	}
	for i, v := range [2]float64{dx, dy} {
		v += d.noise * d.r.NormFloat64()
		dst[i] = float64(float32(min(max(v, -1), 1)))
	}
	return nil
}

// waypoint returns the position to move to.
func (d *doorExpert) waypoint() (x, y float64) {
	wall := d.obs[4+d.across] // every door is in the dividing wall
	if (d.obs[d.across] > wall) == (d.obs[2+d.across] > wall) {
		return d.obs[2], d.obs[3]
	}
	best := math.Inf(1)
	for i, half := range d.half {
		door := [2]float64(d.obs[4+2*i:])
		if door == [2]float64{} || half < doorFit*d.radius { // absent or too small
			continue
		}
		if far := math.Hypot(door[0]-d.obs[0], door[1]-d.obs[1]); far < best {
			best, x, y = far, door[0], door[1]
		}
	}
	switch {
	case math.IsInf(best, 1): // no passable door: go to the wall, next to the target
		at := [2]float64(d.obs[2:])
		at[d.across] = wall
		return at[0], at[1]
	case best <= doorReached:
		return d.obs[2], d.obs[3]
	}
	return x, y
}
