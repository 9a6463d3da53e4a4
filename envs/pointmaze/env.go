package pointmaze

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// state is everything that changes between steps.
type state struct {
	q, v    vec
	drawn   vec     // q at the start of the last sub-step: mujoco-py draws without a forward pass, so frames lag
	origin  float64 // of drawn_xy, see originOf
	goal    vec
	hasGoal bool // a reset removes the goal, SetState does not
	last    envs.Outcome
}

// env is one running world. It implements envs.Env and envs.Restarter.
type env struct {
	profile profile
	s       state
	scene   []byte // the frame without the ball, shared and read-only
}

// newEnv returns a world with a contact profile.
func newEnv(name string) *env { return &env{profile: profiles[name], scene: emptyScene()} }

// Spec returns the task's description.
func (e *env) Spec() *envs.Spec { return spec }

// Reset draws a start. Like the reference implementation's, it leaves the world without a
// goal.
func (e *env) Reset(r *rand.Rand) error {
	q, v := drawStart(r)
	e.s = state{}
	e.put(q, v)
	return nil
}

// put sets position and velocity. The next frame shows them without lag.
func (e *env) put(q, v vec) {
	e.s.q, e.s.v, e.s.drawn = q, v, q
	e.s.last = envs.Outcome{}
}

// Step clips the action and the velocity, then simulates 0.05 s.
func (e *env) Step(action []float64) (envs.Step, error) {
	if err := envs.CheckAction(spec, action); err != nil {
		return envs.Step{}, err
	}
	u := vec{action[0], action[1]}.clamp(-1, 1)
	e.s.v = e.s.v.clamp(-maxVelocity, maxVelocity)
	for range substeps {
		e.s.drawn = e.s.q
		e.s.q, e.s.v = e.profile.substep(e.s.q, e.s.v, u)
	}
	e.s.last = envs.Outcome{Step: envs.Step{Terminated: e.Solved(), Substeps: substeps}, Stepped: true}
	return e.s.last.Step, nil
}

// Solved compares the position in float32, as the state column has it, with the goal.
func (e *env) Solved() bool {
	d := vec{single(e.s.q.x), single(e.s.q.y)}.sub(e.s.goal)
	return e.s.hasGoal && math.Sqrt(d.dot(d)) < reachedAt
}

// single rounds to float32.
func single(v float64) float64 { return float64(float32(v)) }

// Observe writes the current value of a column to dst.
func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return fmt.Errorf("pointmaze: no column %q (hint: `scalewm tasks` lists them)", column)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("pointmaze: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	s := &e.s
	switch column {
	case "state":
		dst[0], dst[1], dst[2], dst[3] = single(s.q.x), single(s.q.y), single(s.v.x), single(s.v.y)
	case "pos":
		dst[0], dst[1] = single(s.q.x), single(s.q.y)
	case "qpos":
		dst[0], dst[1] = s.q.x, s.q.y
	case "qvel":
		dst[0], dst[1] = s.v.x, s.v.y
	case "drawn_xy":
		dst[0], dst[1] = s.drawn.x+s.origin, s.drawn.y+s.origin
	default:
		s.last.Observe(column, dst)
	}
	return nil
}

// Frame draws the world into dst.
func (e *env) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return fmt.Errorf("pointmaze: a frame has %d bytes, not %d", envs.FrameBytes, len(dst))
	}
	draw(dst, e.scene, e.s.drawn)
	return nil
}

// SetState sets the ball's position and velocity. The goal stays.
func (e *env) SetState(row envs.Row) error {
	v, err := read(row, spec.StateColumns, 4)
	if err == nil {
		e.put(vec{v[0], v[1]}, vec{v[2], v[3]})
		e.s.origin = originOf(row, e.s.q)
	}
	return err
}

// SetGoal sets the goal. Only the position counts. The goal is not drawn.
func (e *env) SetGoal(row envs.Row) error {
	v, err := read(row, spec.GoalColumns, 4)
	if err == nil {
		e.s.goal, e.s.hasGoal = vec{v[0], v[1]}, true
	}
	return err
}

// Restart continues from qpos and qvel, which are the simulation's complete state. The state
// column is not enough: it is rounded to float32.
func (e *env) Restart(row envs.Row, _ bool) error {
	if row["qpos"] == nil || row["qvel"] == nil {
		return envs.ErrNotExact
	}
	q, err := read(row, []string{"qpos"}, 2)
	if err != nil {
		return err
	}
	v, err := read(row, []string{"qvel"}, 2)
	if err != nil {
		return err
	}
	e.put(vec{q[0], q[1]}, vec{v[0], v[1]})
	e.s.origin = originOf(row, e.s.q)
	return nil
}

// originOf returns the origin in which a recording gives drawn_xy: that of qpos (0), as this
// package does, or that of the world (bodyAt). The drawn position lags by less than 0.1 m, so
// any row is enough to decide.
func originOf(row envs.Row, q vec) float64 {
	if d := row["drawn_xy"]; len(d) == 2 && math.Abs(d[0]-q.x-bodyAt) < 0.1 && math.Abs(d[1]-q.y-bodyAt) < 0.1 {
		return bodyAt
	}
	return 0
}

// read returns the values of the first of the columns that the row has.
func read(row envs.Row, columns []string, width int) ([]float64, error) {
	v, _, err := row.First(columns, width)
	if err != nil {
		return nil, fmt.Errorf("pointmaze: setting a state: %w", err)
	}
	return v, nil
}

// Snapshot copies the state.
func (e *env) Snapshot() envs.Snapshot { return e.s }

// Restore restores a snapshot of this task.
func (e *env) Restore(s envs.Snapshot) error {
	v, ok := s.(state)
	if !ok {
		return fmt.Errorf("pointmaze: restoring a snapshot of another task (%T)", s)
	}
	e.s = v
	return nil
}

// Close does nothing: a world holds memory only.
func (e *env) Close() error { return nil }
