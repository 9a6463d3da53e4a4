package tworoom

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// point is a place on the floor in pixels.
type point struct{ x, y float32 }

// state is all that changes between steps.
type state struct {
	agent, target point
	look          *look
	last          envs.Outcome
}

// env is one running world.
type env struct {
	sampler string
	vary    *envs.Variation
	home    *look // before anything is drawn
	s       state
	pen     *pen
}

// newEnv starts where the original starts before its first reset.
func newEnv(o envs.Options) (*env, error) {
	o, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	v, err := spec.Variation(o)
	if err != nil {
		return nil, err
	}
	e := &env{sampler: o["sampler"], vary: v, pen: newPen()}
	e.home = newLook(v, v.Start())
	e.s = state{agent: e.start("agent.position"), target: e.start("target.position"), look: e.home}
	return e, nil
}

// start is a place that a factor's initial or fixed value names.
func (e *env) start(name string) point {
	p := e.vary.Of(e.vary.Start(), name)
	return point{float32(p[0]), float32(p[1])}
}

// look is the look of values, one that is there already if it has the same vector.
func (e *env) look(values []float64) *look {
	for _, l := range []*look{e.home, e.s.look} {
		if &l.values[0] == &values[0] {
			return l
		}
	}
	return newLook(e.vary, values)
}

func (e *env) Spec() *envs.Spec { return spec }

// Reset draws a world. One in which no target is far enough is drawn again,
// which the initial factors never ask for.
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

// Step moves the agent by its speed times the action, clamped to ±1 as the
// original's step clamps it.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	l := e.s.look
	ax := min(max(float32(action[0]), -1), 1)
	ay := min(max(float32(action[1]), -1), 1)
	next := point{e.s.agent.x + float32(ax*l.speed), e.s.agent.y + float32(ay*l.speed)}
	e.s.agent = l.collide(e.s.agent, next)
	e.s.last = envs.Outcome{Step: envs.Step{Terminated: e.Solved()}, Stepped: true}
	return e.s.last.Step, nil
}

func (e *env) Solved() bool { return distance(e.s.agent, e.s.target) < reachedAt }

// collide is where an agent that wants to go from one place to the next ends:
// first the outer walls, then the dividing one, which is felt by side, so that
// an agent that leaves the door's band inside the passage is thrown back to its side's face.
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

// clamp keeps a coordinate inside the outer walls; the original does so in float64.
func (l *look) clamp(v float32) float32 { return float32(min(max(float64(v), l.low), l.high)) }

// distance is the original's float32 norm of a - b: it squares x, rounds, and
// adds the square of y in one fused operation (docs/sources.md#two-room-world).
func distance(a, b point) float32 {
	dx, dy := a.x-b.x, a.y-b.y
	return float32(math.Sqrt(float64(fma32(dy, dy, float32(dx*dx)))))
}

// fma32 is x*y + z rounded once to float32. The product is exact in float64;
// where the sum is not, it is rounded to odd there, so that the second rounding
// never sees a false tie.
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

// residue is the exact error of s = a + b (Knuth's two-sum).
func residue(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

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

func (p point) put(dst []float64) { dst[0], dst[1] = float64(p.x), float64(p.y) }

func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("tworoom: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	e.pen.draw(dst, &e.s)
	return nil
}

// SetState puts the agent and takes over factors; the target stays.
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

func (e *env) SetGoal(row envs.Row) error {
	p, err := read(row, spec.GoalColumns)
	if err == nil {
		e.s.target = p
	}
	return err
}

// read takes a place from the first of the columns that the row has.
func read(row envs.Row, columns []string) (point, error) {
	v, name, err := row.First(columns, 2)
	if err != nil {
		return point{}, fmt.Errorf("tworoom: setting a place: %w", err)
	}
	p := point{float32(v[0]), float32(v[1])}
	if !finite(p.x) || !finite(p.y) {
		return point{}, fmt.Errorf("tworoom: setting a place: %s is (%g, %g)", name, v[0], v[1])
	}
	return p, nil
}

func finite(v float32) bool { return v-v == 0 }

func (e *env) Snapshot() envs.Snapshot { return e.s }

func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(state)
	if !ok {
		return fmt.Errorf("tworoom: restoring a snapshot of another task (%T)", s)
	}
	e.s = v
	return nil
}

func (e *env) Close() error { return nil }
