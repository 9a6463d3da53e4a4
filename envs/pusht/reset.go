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
	values, err := e.vary.Draw(r, func(string, []float64) bool { return true })
	if err != nil {
		return err
	}
	l := e.look(values)
	start, goal := l.drawState(r), l.drawState(r)
	for i, name := range [...]string{0: "agent.start_position", 2: "block.start_position", 4: "block.angle"} {
		if e.vary.Fixed(name) {
			copy(start[i:], e.vary.Of(values, name))
		}
	}
	if !e.goalSampled {
		copy(goal[2:5], l.back.pose[:])
		for goal.crowded(l.radius) {
			goal[0], goal[1] = drawAgent(r)
		}
	}
	e.s.look = l
	e.begin(origin{mode: 1, setup: start, goal: goal, start: start})
	e.s.goal = goal
	return nil
}

// drawState is a state of a reset: block first, as the original draws; the
// agent's velocity is a factor, 0 by default. Bodies may overlap.
func (l *look) drawState(r *rand.Rand) (s vector) {
	s[2], s[3] = uniform(r, 100, 400), uniform(r, 100, 400)
	s[4] = uniform(r, -2*math.Pi, 2*math.Pi)
	s[0], s[1] = drawAgent(r)
	s[5], s[6] = l.velocity.x, l.velocity.y
	return s
}

func drawAgent(r *rand.Rand) (x, y float64) { return uniform(r, 50, 450), uniform(r, 50, 450) }

func uniform(r *rand.Rand, low, high float64) float64 { return low + float64((high-low)*r.Float64()) }

// elbowRoom is how far, in pixels, the agent of a drawn goal is kept from the block.
const elbowRoom = 5

// crowded says whether the agent is in the block or so close to it that it cannot
// get there without moving the block.
func (v *vector) crowded(agentRadius float64) bool {
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
