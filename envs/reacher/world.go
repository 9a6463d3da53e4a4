package reacher

import (
	_ "embed"
	"math"
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/envs/mjenv"
	"scalewm/mujoco"
)

//go:embed scene.xml
var scene string

var task = &mjenv.Task{
	Spec:    spec,
	Camera:  "above",
	Compile: mjenv.Template(scene),
	Hidden:  []string{mjenv.WarmstartColumn},
	// Either column is enough to restore the target.
	Extra: []string{"target_pos", "observation"},
}

// newEnv returns a world with the given options.
func newEnv(o envs.Options) (envs.Env, error) {
	o, err := spec.Resolve(o)
	if err != nil {
		return nil, err
	}
	return task.New(o, &world{all: o[substepsSwitch] == substepsAll})
}

// world is one running arm, with the target of dm_control's own reacher tasks.
type world struct {
	*mjenv.Physics
	all      bool       // every env step makes both physics steps
	target   [2]float64 // x, y
	finger   []float64  // x, y; MuJoCo's memory
	targetAt []float64  // position of the mocap body that draws the target; empty if it is not drawn
}

// Enter fetches the arrays and declares the columns.
func (w *world) Enter(p *mjenv.Physics) error {
	finger, err := p.Data.Model().ID(mujoco.ObjGeom, "finger")
	if err != nil {
		return err
	}
	w.Physics = p
	w.finger = mujoco.Row(p.Data.GeomXPos(), finger, 3)[:2]
	w.targetAt = p.Data.MocapPos() // the target is the only mocap body
	p.Saved = [][]float64{w.target[:]}
	p.Show("finger_pos", w.finger)
	p.Show("target_pos", w.target[:])
	p.Compute("observation", w.observation)
	return nil
}

// observation concatenates the reference implementation's observation, rounded to float32.
func (w *world) observation(dst []float64) {
	copy(dst[0:2], w.QPos)
	dst[2], dst[3] = w.target[0]-w.finger[0], w.target[1]-w.finger[1]
	copy(dst[4:6], w.QVel)
	for i, v := range dst {
		dst[i] = float64(float32(v))
	}
}

// Start draws the joints, then the target, in the order of the reference implementation.
func (w *world) Start(r *rand.Rand) error {
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	w.QPos[0], w.QPos[1] = uniform(-math.Pi, math.Pi), uniform(-wristLimit, wristLimit)
	direction, distance := uniform(0, 2*math.Pi), uniform(0.05, 0.20)
	w.target = [2]float64{distance * math.Sin(direction), distance * math.Cos(direction)}
	copy(w.targetAt, w.target[:])
	return nil
}

// Set sets the target. A recording without the column target_pos has it in its observation,
// relative to the finger.
func (w *world) Set(row envs.Row) error {
	if at := row["target_pos"]; at != nil {
		copy(w.target[:], at)
	} else if seen := row["observation"]; seen != nil {
		w.target = [2]float64{seen[2] + w.finger[0], seen[3] + w.finger[1]}
	}
	copy(w.targetAt, w.target[:])
	// The target's position must be current for the next frame.
	return w.Forward()
}

// Control maps the action to controls as the wrapper of stable-worldmodel does. The map is
// the identity in real numbers, but changes the last bits (docs/sources.md#reacher-step).
func (w *world) Control(action []float64) error {
	for i, a := range action {
		w.Ctrl[i] = -1 + (a + 1)
	}
	return nil
}

// Drive makes the physics steps of an env step. It stops at the one that meets the goal, unless
// all are to be made. Then the last one decides.
func (w *world) Drive() (s envs.Step, err error) {
	for s.Substeps < substeps && (w.all || !s.Terminated) {
		if err := w.Advance(1); err != nil {
			return s, err
		}
		s.Substeps++
		// The reward counts the physics steps that end with the finger in the target.
		if w.touches() {
			s.Reward++
		}
		s.Terminated = w.Solved()
	}
	return s, nil
}

// touches reports whether the finger is in the target. The conversions prevent a fused
// multiply-add.
func (w *world) touches() bool {
	x, y := w.target[0]-w.finger[0], w.target[1]-w.finger[1]
	return math.Sqrt(float64(x*x)+float64(y*y)) <= reachOf
}

// Solved compares both joints with the goal. The shoulder is not wrapped, as in the
// reference implementation, so a full turn away does not count.
func (w *world) Solved() bool {
	return w.HasGoal && math.Abs(w.QPos[0]-w.Goal[0]) < threshold && math.Abs(w.QPos[1]-w.Goal[1]) < threshold
}
