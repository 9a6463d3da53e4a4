package policy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// Parameters of the pusher, tuned to the moments of the published set
// (docs/sources.md#push-t-data). Distances are in pixels, speeds in pixels a step.
const (
	orbit      = 110 // radius of the way round the block
	berth      = 18  // from the block on the way
	behind     = 22  // from the block's border to where a push begins
	goSpeed    = 9.5
	pushSpeed  = 9
	pushNoise  = 0.05 // standard deviation of the noise on actions
	goodWay    = 9    // pixels off the goal below which pushing stops
	goodTurn   = 0.18
	worseWay   = 15 // pixels off the goal above which pushing starts again
	worseTurn  = 0.3
	keepPush   = 0.2 // of the best gain: a push that is kept
	takePush   = 0.4 // of the best gain: a push that may be taken
	detour     = 1.6 // assumed length of the way round the block, in straight ways
	fixedSteps = 3   // steps that any push costs besides its way
)

// pusher is a scripted expert.
type pusher struct {
	r     *rand.Rand
	push  int // of pushes, or -1
	done  bool
	brisk float64 // this episode's speed
	state [7]float64
	goal  [7]float64
}

// NewPusher makes the expert of Push-T: it goes round the block to the border
// from which a push brings it furthest towards the goal, pushes, looks again,
// and in the end goes where the goal wants the agent. It reads the columns
// state and goal_state.
func NewPusher() envs.Policy { return &pusher{} }

func (p *pusher) Reset(_ envs.Env, r *rand.Rand) error {
	*p = pusher{r: r, push: -1, brisk: 0.75 + 0.5*r.Float64()}
	return nil
}

func (p *pusher) Act(e envs.Env, dst []float64) error {
	if err := errors.Join(e.Observe("state", p.state[:]), e.Observe("goal_state", p.goal[:])); err != nil {
		return fmt.Errorf("policy: the pusher looks round: %w", err)
	}
	now := p.look()
	way, speed := p.plan(&now)
	p.move(way, speed, dst)
	return nil
}

// scene is what the pusher sees.
type scene struct {
	agent       place
	block, goal tee
	miss        miss
}

func (p *pusher) look() scene {
	s := scene{agent: place{p.state[0], p.state[1]},
		block: tee{place{p.state[2], p.state[3]}, p.state[4]},
		goal:  tee{place{p.goal[2], p.goal[3]}, p.goal[4]}}
	s.miss = s.block.miss(&s.goal)
	return s
}

// plan is where to move now, and how fast.
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
	if depth > agentRadius-6 && depth < behind+6 && math.Abs(aside) < 7 {
		ahead := min(depth-agentRadius+far, pushSpeed)
		return place{ahead*in.x - 0.7*aside*in.y, ahead*in.y + 0.7*aside*in.x}, pushSpeed
	}
	return s.around(at.plus(in, -behind)), goSpeed
}

// choose keeps to a push while it is worth it, else takes the one that gains
// most for the steps it takes.
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

// around is the way to a place: straight if the block is not in between, else
// along a circle round it.
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

// Answer of the agent to a target, from its controller's law: in one step it
// moves this part of the way to its target, and this many seconds of its velocity.
const (
	answer = 0.264
	coast  = 0.0368
)

// move writes the action that makes a way, or as much of it as the speed allows.
func (p *pusher) move(way place, speed float64, dst []float64) {
	if n := way.size(); n > speed*p.brisk {
		way = place{}.plus(way, speed*p.brisk/n)
	}
	for i, v := range [2]float64{way.x, way.y} {
		v = (v - coast*p.state[5+i]) / answer
		dst[i] = clipped(v/reach + pushNoise*p.r.NormFloat64())
	}
}
