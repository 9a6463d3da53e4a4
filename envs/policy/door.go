package policy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// doorReached is how near, in pixels, the expert comes to a door's centre
// before it turns to the target.
const doorReached = 10.5

// doorExpert is the published expert of Two-Room (envs-spec 2.5).
type doorExpert struct {
	noise float64
	r     *rand.Rand
	obs   [10]float64
}

// NewDoorExpert makes the expert of Two-Room: to the nearest door while the
// target is in the other room, then to the target, at full speed; to each component of the
// action it adds normal noise of the given standard deviation and clips to ±1.
// It reads the column observation (agent, target, three door centres).
func NewDoorExpert(noise float64) envs.Policy { return &doorExpert{noise: noise} }

func (d *doorExpert) Reset(_ envs.Env, r *rand.Rand) error {
	d.r = r
	return nil
}

func (d *doorExpert) Act(e envs.Env, dst []float64) error {
	if err := e.Observe("observation", d.obs[:]); err != nil {
		return fmt.Errorf("policy: the door expert looks round: %w", err)
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

// waypoint is where to go now.
func (d *doorExpert) waypoint() (x, y float64) {
	wall := d.obs[4] // every door is in the dividing wall
	if (d.obs[0] > wall) == (d.obs[2] > wall) {
		return d.obs[2], d.obs[3]
	}
	best := math.Inf(1)
	for i := 4; i < len(d.obs); i += 2 {
		if d.obs[i] == 0 { // absent
			continue
		}
		if far := math.Hypot(d.obs[i]-d.obs[0], d.obs[i+1]-d.obs[1]); far < best {
			best, x, y = far, d.obs[i], d.obs[i+1]
		}
	}
	if best <= doorReached {
		return d.obs[2], d.obs[3]
	}
	return x, y
}
