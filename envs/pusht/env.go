package pusht

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// stateWidth is the length of a state: agent x, y; block x, y, angle; agent velocity x, y.
const stateWidth = 7

// vector is a state in the layout of the column "state".
type vector [stateWidth]float64

// state is everything that changes between steps.
type state struct {
	world  world
	look   *look
	goal   vector
	origin origin // how the episode's row 0 was reached
	last   envs.Outcome
}

// env is one running world. It implements envs.Env and envs.Restarter.
type env struct {
	float32PD   bool // the controller computes in float32
	wideAction  bool // actions are float64
	goalSampled bool
	vary        *envs.Variation
	initial     *look // of the values before any draw
	s           state
	pen         *pen
}

// newEnv returns a world with the bodies at their initial positions.
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
	e.s.world.scratch = new(hulls)
	e.initial = newLook(v, v.Start())
	e.s.look = e.initial
	e.begin(origin{mode: unknownOrigin, setup: vector{256, 400, 400, 100}})
	return e, nil
}

// Spec returns the task's description.
func (e *env) Spec() *envs.Spec { return spec }

// Step moves the agent's target by 100 times the action, without clipping, and runs the
// controller for 10 sub-steps.
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

// Solved reports whether the current state meets the goal.
func (e *env) Solved() bool {
	now := e.vector()
	return met(&e.s.goal, &now)
}

// vector returns the current state.
func (e *env) vector() vector {
	a, b := &e.s.world.agent, &e.s.world.block
	return vector{a.p.x, a.p.y, b.origin.x, b.origin.y, wrap(b.a), a.v.x, a.v.y}
}

// wrap returns the angle in [0, 2 pi), with the result of Python's % operator, whose sign is
// that of the divisor.
func wrap(a float64) float64 {
	r := math.Mod(a, 2*math.Pi)
	if r < 0 {
		r += 2 * math.Pi
	}
	return r
}

// met is the success rule: the distance over agent and block positions together is less
// than 20 pixels, and the block's angle differs, modulo a full turn, by less than pi/9.
func met(goal, now *vector) bool {
	turn := math.Mod(math.Abs(goal[4]-now[4]), 2*math.Pi)
	turn = min(turn, 2*math.Pi-turn)
	return distance(goal[:4], now[:4]) < solvedWithin && turn < solvedTurn
}

// distance returns the L2 norm of a - b. NumPy's BLAS sums with fused multiply-adds in this
// order, which determines the last bit of the reward.
func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		d := a[i] - b[i]
		sum = math.FMA(d, d, sum)
	}
	return math.Sqrt(sum)
}

// Frame draws the world into dst.
func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("pusht: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	e.pen.draw(dst, &e.s.world, e.s.look)
	return nil
}

// SetState does what the reference implementation's set-state does, which ends with one
// physics step of 0.01 s. What is left of the block's velocities from before therefore moves
// the block a little in that step.
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

// set is SetState without recording it in origin.
func (e *env) set(v *vector) {
	e.s.world.set(v.pose(), vec{v[5], v[6]})
	e.s.last = envs.Outcome{}
}

// pose returns the positions of both bodies and the block's angle.
func (v *vector) pose() pose { return pose{vec{v[0], v[1]}, vec{v[2], v[3]}, v[4]} }

// SetGoal sets the goal. It does not move the T that is drawn as the goal, which is a factor.
func (e *env) SetGoal(row envs.Row) error {
	v, err := read(row, spec.GoalColumns)
	if err == nil {
		e.s.goal = v
	}
	return err
}

// read returns the state in the first of the columns that the row has.
func read(row envs.Row, columns []string) (v vector, err error) {
	x, _, err := row.First(columns, stateWidth)
	if err != nil {
		return v, fmt.Errorf("pusht: setting a state: %w", err)
	}
	copy(v[:], x)
	return v, nil
}

// Snapshot copies all state, the solver's cached contacts included. The scratch memory is
// not state, so the snapshot does not refer to it.
func (e *env) Snapshot() envs.Snapshot {
	s := e.s
	s.world.scratch = nil
	return s
}

// Restore restores a snapshot of this task.
func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(state)
	if !ok {
		return fmt.Errorf("pusht: restoring a snapshot of another task (%T)", s)
	}
	v.world.scratch = e.s.world.scratch
	e.s = v
	return nil
}

// Close does nothing: a world holds memory only.
func (e *env) Close() error { return nil }

// Reset draws a start and a goal. Like the reference implementation, it creates the space
// with the bodies at the start, sets the goal state (to render an image of it), and then
// sets the start. If block and agent overlap in the goal state, the block is still being
// pushed out when the episode begins.
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
		for goal.tooClose(l.radius) {
			goal[0], goal[1] = drawAgent(r)
		}
	}
	e.s.look = l
	e.begin(origin{mode: 1, setup: start, goal: goal, start: start})
	e.s.goal = goal
	return nil
}

// drawState draws a state for a reset: block first, then agent, the order of the reference
// implementation. The agent's velocity is a factor, 0 by default. Bodies may overlap.
func (l *look) drawState(r *rand.Rand) (s vector) {
	s[2], s[3] = uniform(r, 100, 400), uniform(r, 100, 400)
	s[4] = uniform(r, -2*math.Pi, 2*math.Pi)
	s[0], s[1] = drawAgent(r)
	s[5], s[6] = l.velocity.x, l.velocity.y
	return s
}

// drawAgent draws a position of the agent.
func drawAgent(r *rand.Rand) (x, y float64) { return uniform(r, 50, 450), uniform(r, 50, 450) }

// uniform draws from [low, high). The conversion prevents a fused multiply-add.
func uniform(r *rand.Rand, low, high float64) float64 { return low + float64((high-low)*r.Float64()) }

// goalClearance is the minimum distance, in pixels, between agent and block in the goal of a
// reset, if the block's goal is the pose that is drawn.
const goalClearance = 5

// tooClose reports whether the agent overlaps the block or is so close to it that it cannot
// get there without moving the block. It transforms the agent into the block's frame, where
// each part is an axis-aligned rectangle.
func (v *vector) tooClose(agentRadius float64) bool {
	var turned vec
	turned.y, turned.x = sincos(-v[4])
	p := vec{v[0], v[1]}.sub(vec{v[2], v[3]}).rotated(turned)
	for _, part := range parts {
		a, b := part.corner[0], part.corner[2]
		out := vec{larger(larger(a.x-p.x, p.x-b.x), 0), larger(larger(a.y-p.y, p.y-b.y), 0)}
		if length(out) < agentRadius+goalClearance {
			return true
		}
	}
	return false
}

// Observe writes the current value of a column or factor to dst.
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

// observe writes a column of Spec.Columns. Name and width have been checked.
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
