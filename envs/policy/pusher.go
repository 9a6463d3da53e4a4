package policy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// Parameters of the pusher, tuned so that its data has the moments of the published data
// set (docs/sources.md#push-t-data). Distances are in pixels, speeds in pixels per step.
const (
	orbit      = 110 // radius of the path around the block
	berth      = 18  // distance from the block on that path
	behind     = 22  // distance from the block's border at which a push starts
	goSpeed    = 9.5
	pushSpeed  = 9
	pushNoise  = 0.05 // standard deviation of the noise on actions
	goodWay    = 9    // position error in pixels below which pushing stops
	goodTurn   = 0.18 // angle error in radians below which pushing stops
	worseWay   = 15   // position error above which pushing starts again
	worseTurn  = 0.3  // angle error above which pushing starts again
	keepPush   = 0.2  // a push continues while its gain is above this fraction of the best
	takePush   = 0.4  // a new push must have at least this fraction of the best gain
	detour     = 1.6  // assumed length of the path around the block, relative to the straight path
	fixedSteps = 3    // steps that any push costs in addition to its path
)

// pusher is a scripted expert for Push-T.
type pusher struct {
	r     *rand.Rand
	push  int     // index in pushes, or -1
	done  bool    // the block is at the goal
	brisk float64 // factor on the speeds of this episode, which varies the data
	state [7]float64
	goal  [7]float64
}

// NewPusher returns the expert of Push-T. It moves around the block to the border from which
// a push reduces the error most, pushes, chooses again, and when the block is at the goal,
// moves to the agent's goal position. It reads the columns state and goal_state.
func NewPusher() envs.Policy { return &pusher{} }

// Reset draws the speed of the episode.
func (p *pusher) Reset(_ envs.Env, r *rand.Rand) error {
	*p = pusher{r: r, push: -1, brisk: 0.75 + 0.5*r.Float64()}
	return nil
}

// Act chooses a movement and writes the action for it.
func (p *pusher) Act(e envs.Env, dst []float64) error {
	if err := errors.Join(e.Observe("state", p.state[:]), e.Observe("goal_state", p.goal[:])); err != nil {
		return fmt.Errorf("policy: the pusher reads the state: %w", err)
	}
	now := p.look()
	way, speed := p.plan(&now)
	p.move(way, speed, dst)
	return nil
}

// scene is the pusher's view of the world.
type scene struct {
	agent       place
	block, goal tee
	miss        miss
}

// look converts the observed states to a scene.
func (p *pusher) look() scene {
	s := scene{agent: place{p.state[0], p.state[1]},
		block: tee{place{p.state[2], p.state[3]}, p.state[4]},
		goal:  tee{place{p.goal[2], p.goal[3]}, p.goal[4]}}
	s.miss = s.block.miss(&s.goal)
	return s
}

// plan returns the movement to make and its speed. The hysteresis between good and worse
// keeps the pusher from switching back and forth at the threshold.
func (p *pusher) plan(s *scene) (way place, speed float64) {
	off, turn := s.block.origin.to(s.goal.origin).size(), math.Abs(s.miss.turn)
	if p.done {
		p.done = off < worseWay && turn < worseTurn
	} else {
		p.done = off < goodWay && turn < goodTurn
	}
	if p.done {
		p.push = -1
		return s.around(place{p.goal[0], p.goal[1]}), goSpeed
	}
	p.choose(s)
	c := pushes[p.push]
	_, far := c.gain(s.miss)
	at, in := s.block.at(c.at), c.in.turned(s.block.angle)
	rel := at.to(s.agent)
	depth, aside := -rel.dot(in), rel.x*in.y-rel.y*in.x
	// If the agent is at the start of the push, inside a small rectangle behind the border,
	// push straight ahead and correct the lateral error. Otherwise go there first.
	if depth > agentRadius-6 && depth < behind+6 && math.Abs(aside) < 7 {
		ahead := min(depth-agentRadius+far, pushSpeed)
		return place{ahead*in.x - 0.7*aside*in.y, ahead*in.y + 0.7*aside*in.x}, pushSpeed
	}
	return s.around(at.plus(in, -behind)), goSpeed
}

// choose keeps the current push while it is worthwhile. Otherwise it selects the push with
// the highest gain per step, counting the path to its start.
func (p *pusher) choose(s *scene) {
	top := 0.0
	for _, c := range pushes {
		gain, _ := c.gain(s.miss)
		top = max(top, gain)
	}
	if p.push >= 0 {
		if now, far := pushes[p.push].gain(s.miss); far > 2 && now > keepPush*top {
			return
		}
	}
	best := 0.0
	p.push = 0
	for i, c := range pushes {
		gain, far := c.gain(s.miss)
		if gain < takePush*top {
			continue
		}
		begin := s.block.at(c.at).plus(c.in.turned(s.block.angle), -behind)
		way := s.agent.to(begin).size()
		if !s.block.clear(s.agent, begin, berth) {
			way *= detour
		}
		if v := gain / (way/goSpeed + far/pushSpeed + fixedSteps); v > best {
			p.push, best = i, v
		}
	}
}

// around returns the movement to a position: straight if the block is not in the way,
// otherwise along a circle around it.
func (s *scene) around(to place) place {
	if s.block.clear(s.agent, to, berth) {
		return s.agent.to(to)
	}
	centre := s.block.at(teeCentre)
	out, want := centre.to(s.agent), centre.to(to)
	from := math.Atan2(out.y, out.x)
	turn := math.Remainder(math.Atan2(want.y, want.x)-from, 2*math.Pi)
	step := min(max(turn, -0.6), 0.6)
	next := centre.plus(place{orbit, 0}.turned(from+step), 1)
	if !s.block.clear(s.agent, next, berth) {
		next = centre.plus(place{orbit, 0}.turned(from), 1)
	}
	return s.agent.to(next)
}

// Response of the agent to a target, from its PD controller: in one env step it moves by
// answer times the distance to the target plus coast (seconds) times its velocity.
const (
	answer = 0.264
	coast  = 0.0368
)

// move writes the action for a movement, shortened to the given speed. It inverts the
// controller's response.
func (p *pusher) move(way place, speed float64, dst []float64) {
	if n := way.size(); n > speed*p.brisk {
		way = place{}.plus(way, speed*p.brisk/n)
	}
	for i, v := range [2]float64{way.x, way.y} {
		v = (v - coast*p.state[5+i]) / answer
		dst[i] = clipped(v/reach + pushNoise*p.r.NormFloat64())
	}
}
