package tworoom

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// point is a position on the floor in pixels. It is float32, like the reference
// implementation's tensors.
type point struct{ x, y float32 }

// state is everything that changes between steps.
type state struct {
	agent, target point
	look          *look
	last          envs.Outcome
}

// env is one running world. It implements envs.Env.
type env struct {
	sampler string
	swept   bool // the agent moves by package disc, not by look.collide
	vary    *envs.Variation
	initial *look // of the values before any draw
	s       state
	pen     *pen
}

// newEnv returns a world in the state in which stable-worldmodel's is before its first
// reset.
func newEnv(o envs.Options) (*env, error) {
	o, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	v, err := spec.Variation(o)
	if err != nil {
		return nil, err
	}
	e := &env{sampler: o["sampler"], swept: o[collision] == swept, vary: v, pen: newPen()}
	e.initial = newLook(v, v.Start())
	e.s = state{agent: e.start("agent.position"), target: e.start("target.position"), look: e.initial}
	return e, nil
}

// start returns the initial or fixed position that a factor has.
func (e *env) start(name string) point {
	p := e.vary.Of(e.vary.Start(), name)
	return point{float32(p[0]), float32(p[1])}
}

// look returns the look for a vector of values. It reuses an existing one for the same
// slice, which is cheaper to compare than its contents and the common case.
func (e *env) look(values []float64) *look {
	for _, l := range []*look{e.initial, e.s.look} {
		if &l.values[0] == &values[0] {
			return l
		}
	}
	return newLook(e.vary, values)
}

// Spec returns the task's description.
func (e *env) Spec() *envs.Spec { return spec }

// Reset draws a world. If no valid target is found in it, another world is drawn. That
// cannot happen with the initial factors.
func (e *env) Reset(r *rand.Rand) error {
	for range maxWorlds {
		values, err := e.vary.Draw(r, e.allowed)
		if err != nil {
			return err
		}
		s := state{agent: e.start("agent.position"), target: e.start("target.position"), look: e.look(values)}
		if !e.vary.Fixed("agent.position") {
			s.agent = s.look.drawAgent(r)
		}
		found := true
		if !e.vary.Fixed("target.position") {
			s.target, found = s.look.drawTarget(r, e.sampler, s.agent)
		}
		if found {
			e.s = s
			return nil
		}
	}
	return fmt.Errorf("tworoom: no target of %d worlds is task.min_steps away (hint: a smaller task.min_steps or agent.speed, or --switch sampler=%s)", maxWorlds, free)
}

// Step moves the agent by its speed times the action, which is clamped to [-1, 1] as in the
// reference implementation.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	l := e.s.look
	ax := min(max(float32(action[0]), -1), 1)
	ay := min(max(float32(action[1]), -1), 1)
	next := point{e.s.agent.x + float32(ax*l.speed), e.s.agent.y + float32(ay*l.speed)}
	if e.swept {
		e.s.agent = l.sweep(e.s.agent, next)
	} else {
		e.s.agent = l.collide(e.s.agent, next)
	}
	e.s.last = envs.Outcome{Step: envs.Step{Terminated: e.Solved()}, Stepped: true}
	return e.s.last.Step, nil
}

// Solved reports whether the agent is closer than 16 pixels to the target.
func (e *env) Solved() bool { return distance(e.s.agent, e.s.target) < reachedAt }

// collide returns the final position of an agent that moves from one position to another:
// first the outer walls clamp it, then the dividing wall stops it. The dividing wall is
// tested by the side on which the move starts, not along the path. An agent that leaves
// the band of the door while inside the passage is therefore put back in front of the face
// on its side.
func (l *look) collide(from, next point) point {
	next.x, next.y = l.clamp(next.x), l.clamp(next.y)
	from, next = l.place(from), l.place(next)
	switch {
	case from.x < wallCentre && float64(next.x) > l.faceLow && !l.inDoor(float64(next.y)):
		next.x = float32(l.faceLow - pushBack)
	case from.x >= wallCentre && float64(next.x) < l.faceHigh && !l.inDoor(float64(next.y)):
		next.x = float32(l.faceHigh + pushBack)
	}
	return l.place(next)
}

// clamp limits a coordinate to the area inside the outer walls, in float64 as in the
// reference implementation.
func (l *look) clamp(v float32) float32 { return float32(min(max(float64(v), l.low), l.high)) }

// distance returns the reference implementation's float32 norm of a - b. Its vectorised
// code squares x, rounds, and adds the square of y with a fused multiply-add
// (docs/sources.md#two-room-world), so the last bit depends on this order.
func distance(a, b point) float32 {
	dx, dy := a.x-b.x, a.y-b.y
	return float32(math.Sqrt(float64(fma32(dy, dy, float32(dx*dx)))))
}

// fma32 returns x*y + z with a single rounding to float32. The product of two float32
// numbers is exact in float64, but the sum may not be. It is then rounded to odd: if the
// error is not zero, an even last bit is replaced by the odd neighbour in the direction of
// the error. The final rounding to float32 cannot then see a false tie.
func fma32(x, y, z float32) float32 {
	p, a := float64(x)*float64(y), float64(z)
	s := p + a
	if rest := residue(p, a, s); rest != 0 {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (rest > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}

// residue returns the exact rounding error of s = a + b (Knuth's two-sum).
func residue(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

// Observe writes the current value of a column or factor to dst.
func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return e.vary.Observe(e.s.look.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("tworoom: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	switch column {
	case "state", "proprio", "pos_agent":
		e.s.agent.put(dst)
	case "goal_state", "pos_target":
		e.s.target.put(dst)
	case "observation":
		clear(dst)
		e.s.agent.put(dst)
		e.s.target.put(dst[2:])
		for i, d := range e.s.look.doors {
			e.s.look.place(point{wallCentre, float32(d.at)}).put(dst[4+2*i:])
		}
	case "distance_to_target":
		dst[0] = float64(distance(e.s.agent, e.s.target))
	default:
		e.s.last.Observe(column, dst)
	}
	return nil
}

// put writes the coordinates to the first two elements of dst.
func (p point) put(dst []float64) { dst[0], dst[1] = float64(p.x), float64(p.y) }

// Frame draws the world into dst.
func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("tworoom: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	e.pen.draw(dst, &e.s)
	return nil
}

// SetState sets the agent's position and the factors of a row. The target stays.
func (e *env) SetState(row envs.Row) error {
	p, err := read(row, spec.StateColumns)
	if err != nil {
		return err
	}
	values, err := e.vary.Read(row, e.s.look.values)
	if err != nil {
		return fmt.Errorf("tworoom: setting a state: %w", err)
	}
	e.s = state{agent: p, target: e.s.target, look: e.look(values)}
	return nil
}

// SetGoal sets the target's position.
func (e *env) SetGoal(row envs.Row) error {
	p, err := read(row, spec.GoalColumns)
	if err == nil {
		e.s.target = p
	}
	return err
}

// read returns the position in the first of the columns that the row has.
func read(row envs.Row, columns []string) (point, error) {
	v, name, err := row.First(columns, 2)
	if err != nil {
		return point{}, fmt.Errorf("tworoom: setting a place: %w", err)
	}
	p := point{float32(v[0]), float32(v[1])}
	// A finite float64 may overflow to infinity in float32.
	if !finite(p.x) || !finite(p.y) {
		return point{}, fmt.Errorf("tworoom: setting a place: %s is (%g, %g)", name, v[0], v[1])
	}
	return p, nil
}

// finite reports whether v is neither NaN nor infinite.
func finite(v float32) bool { return v-v == 0 }

// Snapshot copies the state. Looks are immutable, so sharing the pointer is enough.
func (e *env) Snapshot() envs.Snapshot { return e.s }

// Restore restores a snapshot of this task.
func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(state)
	if !ok {
		return fmt.Errorf("tworoom: restoring a snapshot of another task (%T)", s)
	}
	e.s = v
	return nil
}

// Close does nothing: a world holds memory only.
func (e *env) Close() error { return nil }
