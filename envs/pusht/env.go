package pusht

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// stateWidth is the length of a state: agent x, y; block x, y, angle; agent velocity x, y.
const stateWidth = 7

type vector [stateWidth]float64

// state is all that changes between steps.
type state struct {
	world  world
	look   *look
	goal   vector
	origin origin
	last   envs.Outcome
}

// env is one running world.
type env struct {
	float32PD   bool // the controller computes in float32
	wideAction  bool // actions are float64 numbers
	goalSampled bool
	vary        *envs.Variation
	home        *look // before anything is drawn
	s           state
	pen         *pen
}

func newEnv(o envs.Options) (*env, error) {
	o, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	v, err := spec.Variation(o)
	if err != nil {
		return nil, err
	}
	e := &env{
		vary:        v,
		float32PD:   o[numericMode] == modeFloat32PD,
		wideAction:  o[actionDType] == typeFloat64,
		goalSampled: o[goalSwitch] == goalSampled,
		pen:         newPen(),
	}
	e.s.world.room = new(hulls)
	e.home = newLook(v, v.Start())
	e.s.look = e.home
	e.begin(origin{mode: unknownOrigin, setup: vector{256, 400, 400, 100}})
	return e, nil
}

func (e *env) Spec() *envs.Spec { return spec }

// Step moves the agent's target by 100 times the action, unclipped, and lets the
// controller follow it for 10 sub-steps.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	w := &e.s.world
	w.points = 0
	if e.float32PD {
		w.follow32(action)
	} else {
		w.follow(w.target(action, e.wideAction))
	}
	now := e.vector()
	s := envs.Step{Reward: -distance(e.s.goal[:], now[:]), Terminated: met(&e.s.goal, &now), Substeps: substeps}
	e.s.last = envs.Outcome{Step: s, Stepped: true}
	return s, nil
}

func (e *env) Solved() bool {
	now := e.vector()
	return met(&e.s.goal, &now)
}

// vector is the present state.
func (e *env) vector() vector {
	a, b := &e.s.world.agent, &e.s.world.block
	return vector{a.p.x, a.p.y, b.origin.x, b.origin.y, wrap(b.a), a.v.x, a.v.y}
}

// wrap brings an angle to [0, 2 pi) as Python's remainder does.
func wrap(a float64) float64 {
	r := math.Mod(a, 2*math.Pi)
	if r < 0 {
		r += 2 * math.Pi
	}
	return r
}

// met is the success rule: agent and block together within 20 px, and the
// block's angle, modulo a full turn, within pi/9.
func met(goal, now *vector) bool {
	turn := math.Mod(math.Abs(goal[4]-now[4]), 2*math.Pi)
	turn = min(turn, 2*math.Pi-turn)
	return distance(goal[:4], now[:4]) < solvedWithin && turn < solvedTurn
}

// distance is the L2 norm of a - b, summed as the original's linear algebra
// library sums it, in fused steps.
func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		d := a[i] - b[i]
		sum = math.FMA(d, d, sum)
	}
	return math.Sqrt(sum)
}

func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("pusht: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	e.pen.draw(dst, &e.s.world, e.s.look)
	return nil
}

// SetState is the original's set-state: what is left of the block's velocities
// moves it in the sub-step of 0.01 s that belongs to it.
func (e *env) SetState(row envs.Row) error {
	v, err := read(row, spec.StateColumns)
	if err != nil {
		return err
	}
	if err := e.adopt(row); err != nil {
		return fmt.Errorf("pusht: setting a state: %w", err)
	}
	e.set(&v)
	e.s.origin.mode = unknownOrigin
	return nil
}

// set is SetState, but origin does not record it.
func (e *env) set(v *vector) {
	e.s.world.set(v.pose(), vec{v[5], v[6]})
	e.s.last = envs.Outcome{}
}

func (v *vector) pose() pose { return pose{vec{v[0], v[1]}, vec{v[2], v[3]}, v[4]} }

// SetGoal stores the goal; it does not move the goal that is drawn.
func (e *env) SetGoal(row envs.Row) error {
	v, err := read(row, spec.GoalColumns)
	if err == nil {
		e.s.goal = v
	}
	return err
}

// read takes a state from the first of the columns that the row has.
func read(row envs.Row, columns []string) (v vector, err error) {
	x, _, err := row.First(columns, stateWidth)
	if err != nil {
		return v, fmt.Errorf("pusht: setting a state: %w", err)
	}
	copy(v[:], x)
	return v, nil
}

// Snapshot copies all state, the solver's cached contacts included.
func (e *env) Snapshot() envs.Snapshot {
	s := e.s
	s.world.room = nil
	return s
}

func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(state)
	if !ok {
		return fmt.Errorf("pusht: restoring a snapshot of another task (%T)", s)
	}
	v.world.room = e.s.world.room
	e.s = v
	return nil
}

func (e *env) Close() error { return nil }

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

func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return e.vary.Observe(e.s.look.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("pusht: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	e.observe(column, dst)
	return nil
}

// observe writes a column whose name and width are right.
func (e *env) observe(column string, dst []float64) {
	s := &e.s
	a, b := &s.world.agent, &s.world.block
	switch column {
	case "state":
		v := e.vector()
		copy(dst, v[:])
	case "proprio":
		dst[0], dst[1], dst[2], dst[3] = a.p.x, a.p.y, a.v.x, a.v.y
	case "pos_agent":
		dst[0], dst[1] = a.p.x, a.p.y
	case "vel_agent":
		dst[0], dst[1] = a.v.x, a.v.y
	case "block_pose":
		dst[0], dst[1], dst[2] = b.origin.x, b.origin.y, b.a
	case "goal_pose":
		copy(dst, s.look.back.pose[:])
	case "goal_state":
		copy(dst, s.goal[:])
	case "goal_proprio":
		dst[0], dst[1], dst[2], dst[3] = s.goal[0], s.goal[1], s.goal[5], s.goal[6]
	case "n_contacts":
		dst[0] = math.Ceil(float64(s.world.points) / substeps)
	case "reward", "terminated":
		s.last.Observe(column, dst)
	default:
		s.origin.observe(column, dst)
	}
}
