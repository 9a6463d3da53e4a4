package pusht

import (
	"math"
	"math/rand/v2"
)

// Reset draws a start and a goal. The space is made with the bodies at the
// start, set to the goal (whose picture the original takes), then to the start:
// if block and agent overlap in the goal, the block is still being pushed out
// when the episode begins.
func (e *env) Reset(r *rand.Rand) error {
	start, goal := drawState(r), drawState(r)
	if !e.goalSampled {
		copy(goal[2:5], drawnGoal[:])
		for goal.crowded() {
			goal[0], goal[1] = drawAgent(r)
		}
	}
	e.begin(origin{mode: 1, setup: start, goal: goal, start: start})
	e.s.goal = goal
	return nil
}

// drawState is a state of a reset: block first, as the original draws; the
// agent is at rest. Bodies may overlap.
func drawState(r *rand.Rand) (s vector) {
	s[2], s[3] = uniform(r, 100, 400), uniform(r, 100, 400)
	s[4] = uniform(r, -2*math.Pi, 2*math.Pi)
	s[0], s[1] = drawAgent(r)
	return s
}

func drawAgent(r *rand.Rand) (x, y float64) { return uniform(r, 50, 450), uniform(r, 50, 450) }

func uniform(r *rand.Rand, low, high float64) float64 { return low + float64((high-low)*r.Float64()) }

// elbowRoom is how far a drawn goal keeps the agent from the block.
const elbowRoom = 5

// crowded says whether the agent is in the block or close to it, where nobody
// can bring it without moving the block.
func (v *vector) crowded() bool {
	var turned vec
	turned.y, turned.x = sincos(-v[4])
	p := vec{v[0], v[1]}.sub(vec{v[2], v[3]}).rotated(turned)
	for _, part := range parts {
		a, b := part.corner[0], part.corner[2]
		out := vec{larger(larger(a.x-p.x, p.x-b.x), 0), larger(larger(a.y-p.y, p.y-b.y), 0)}
		if length(out) < agentRadius+elbowRoom {
			return true
		}
	}
	return false
}
