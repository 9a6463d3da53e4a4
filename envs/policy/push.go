package policy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// WeakName is the policy for Push-T in the stable-worldmodel repository.
const WeakName = "weak"

// reach is the distance, in pixels, between agent and target at full action in Push-T.
const reach = 100

// weakPusher draws targets near the block (docs/sources.md#push-t-data).
type weakPusher struct {
	r     *rand.Rand
	state [7]float64 // the column state
}

// NewWeakPusher returns the weak policy of Push-T. Per axis, it draws a target uniformly
// within 100 pixels of the agent and clamps it to within 100 pixels of the block. It reads
// the column state.
func NewWeakPusher() envs.Policy { return &weakPusher{} }

// Reset stores the stream.
func (p *weakPusher) Reset(_ envs.Env, r *rand.Rand) error {
	p.r = r
	return nil
}

// Act draws a target and writes the action towards it.
func (p *weakPusher) Act(e envs.Env, dst []float64) error {
	if err := e.Observe("state", p.state[:]); err != nil {
		return fmt.Errorf("policy: the weak pusher reads the state: %w", err)
	}
	for i := range dst {
		agent, block := p.state[i], p.state[i+2]
		target := agent + reach*(2*p.r.Float64()-1)
		target = min(max(target, block-reach), block+reach)
		dst[i] = clipped((target - agent) / reach)
	}
	return nil
}

// clipped clips a component of an action to [-1, 1] and rounds it to float32.
func clipped(v float64) float64 { return float64(float32(min(max(v, -1), 1))) }

// place is a position or direction in pixels.
type place struct{ x, y float64 }

func (a place) plus(b place, s float64) place { return place{a.x + s*b.x, a.y + s*b.y} }
func (a place) to(b place) place              { return place{b.x - a.x, b.y - a.y} }
func (a place) dot(b place) float64           { return a.x*b.x + a.y*b.y }
func (a place) size() float64                 { return math.Hypot(a.x, a.y) }

// turned returns a rotated by an angle in radians.
func (a place) turned(angle float64) place {
	s, c := math.Sincos(angle)
	return place{c*a.x - s*a.y, s*a.x + c*a.y}
}
