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
	stepped       bool // a step has been made since the last reset or set-state
	terminated    bool // it reached the target
}

// env is one running world.
type env struct {
	sampler string
	s       state
	pen     *pen
}

// newEnv starts where the original starts before its first reset.
func newEnv(sampler string) *env {
	return &env{sampler: sampler, pen: newPen(), s: state{agent: point{60, 112}, target: point{164, 112}}}
}

func (e *env) Spec() *envs.Spec { return spec }

func (e *env) Reset(r *rand.Rand) error {
	agent := drawAgent(r)
	e.s = state{agent: agent, target: drawTarget(r, e.sampler, agent)}
	return nil
}

// Step moves the agent by 5 times the action, clamped to ±1 as the original's
// step clamps it.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	ax := clamp(float32(action[0]), -1, 1)
	ay := clamp(float32(action[1]), -1, 1)
	next := point{e.s.agent.x + float32(ax*speed), e.s.agent.y + float32(ay*speed)}
	e.s.agent = collide(e.s.agent, next)
	e.s.stepped = true
	e.s.terminated = e.Solved()
	return envs.Step{Terminated: e.s.terminated}, nil
}

func (e *env) Solved() bool { return distance(e.s.agent, e.s.target) < reachedAt }

// collide is where an agent that wants to go from one place to the next ends:
// first the outer walls, then the dividing one, which is felt by side, so that
// an agent that leaves the door's band inside the passage is thrown back to its side's face.
func collide(from, next point) point {
	next.x = clamp(next.x, low, high)
	next.y = clamp(next.y, low, high)
	inDoor := doorCentre-doorHalf-doorMargin <= next.y && next.y <= doorCentre+doorHalf+doorMargin
	switch {
	case inDoor:
	case from.x < wallCentre && next.x > faceLeft:
		next.x = faceLeft - pushBack
	case from.x >= wallCentre && next.x < faceRight:
		next.x = faceRight + pushBack
	}
	return next
}

func clamp(v, lo, hi float32) float32 { return min(max(v, lo), hi) }

// distance is the original's float32 norm of a - b: it squares x, rounds, and
// adds the square of y in one fused operation (envs-spec, correction 5).
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
		return fmt.Errorf("tworoom: no column %q (hint: `scalewm tasks` lists them)", column)
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
		dst[4], dst[5] = wallCentre, doorCentre
	case "distance_to_target":
		dst[0] = float64(distance(e.s.agent, e.s.target))
	case "terminated":
		dst[0] = 0
		if e.s.terminated {
			dst[0] = 1
		}
	case "reward":
		dst[0] = 0
		if !e.s.stepped {
			dst[0] = math.NaN()
		}
	}
	return nil
}

func (p point) put(dst []float64) { dst[0], dst[1] = float64(p.x), float64(p.y) }

func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("tworoom: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	e.pen.draw(dst, e.s.agent)
	return nil
}

// SetState puts the agent; the target stays.
func (e *env) SetState(row envs.Row) error {
	p, err := read(row, spec.StateColumns)
	if err == nil {
		e.s = state{agent: p, target: e.s.target}
	}
	return err
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
