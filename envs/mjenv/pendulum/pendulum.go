// Package pendulum is the worked example of a new task that MuJoCo simulates (see "A new
// MuJoCo task" in docs/architecture.md): a pendulum that must be swung to an angle.
//
// Importing the package registers the task. Only tests import it, so that the program
// offers only the tasks of the paper. To begin your own task, copy the folder and read it
// in this order:
//
//   - scene.xml is the scene in MJCF, with a camera for the frames.
//   - spec describes the task to data sets, models and reports.
//   - task connects the two.
//   - world has the rules: start of an episode, effect of an action, success.
package pendulum

import (
	_ "embed"
	"math"
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/envs/mjenv"
	"scalewm/envs/policy"
)

const (
	substeps  = 5   // physics steps of 0.01 s per env step
	threshold = 0.1 // the goal is met if the angle differs from it by less than this, in radians
)

// spec's columns are recorded for each row of a data set. Env reports those that it knows,
// which are all of them here; a task declares others in World.Enter. Omitted fields have the
// defaults documented at envs.Spec.
var spec = &envs.Spec{
	Name:      "pendulum",
	Title:     "Pendulum",
	ActionDim: 1, // from -1 to 1
	Columns: []envs.Column{
		{Name: "qpos", DType: "float64", Width: 1, Doc: "angle in radians, not wrapped; 0 is upright"},
		{Name: "qvel", DType: "float64", Width: 1, Doc: "angular velocity in rad/s"},
		{Name: mjenv.ControlColumn, DType: "float64", Width: 1, Into: true, Doc: "control of the motor"},
		{Name: "reward", DType: "float64", Width: 1, Into: true, Doc: "from 0, hanging, to 1, upright; NaN in the row of the reset"},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "the step into the row met the goal"},
	},
	StateColumns: []string{"qpos", "qvel"},
	GoalColumns:  []string{"qpos"},
	Velocities:   map[string][2]int{"qvel": {0, 1}},
	MaxSteps:     100,
	Qs: []envs.Q{{Name: "full", Columns: []string{"qpos"}, Parts: []string{"cos angle", "sin angle"},
		Of: func(row envs.Row, dst []float64) { dst[1], dst[0] = math.Sincos(row["qpos"][0]) }}},
	Factors: []envs.Factor{
		{Name: "ball.color", DType: "float64", High: 1, Init: []float64{0.9, 0.3, 0.2}, Doc: "red, green, blue"},
	},
	Policies: []string{policy.UniformName},
	Success:  "after a step the angle is within 0.1 rad of the goal's, whole turns apart",
	Source:   "our own; no original",
}

//go:embed scene.xml
var scene string

var task = &mjenv.Task{Spec: spec, Camera: "front", Compile: mjenv.Template(scene)}

func init() {
	envs.Register(envs.Task{
		Spec:   spec,
		New:    func(o envs.Options) (envs.Env, error) { return task.New(o, &world{}) },
		Policy: policy.From(spec, map[string]func() envs.Policy{policy.UniformName: policy.NewUniform}),
	})
}

// world is one running pendulum. The embedded Physics is its simulation.
type world struct{ *mjenv.Physics }

// Enter has nothing to fetch in addition to Physics's own arrays.
func (w *world) Enter(p *mjenv.Physics) error {
	w.Physics = p
	return nil
}

// Start draws the angle uniformly from the circle and a velocity from [-1, 1) rad/s.
func (w *world) Start(r *rand.Rand) error {
	w.QPos[0] = math.Pi * (2*r.Float64() - 1)
	w.QVel[0] = 2*r.Float64() - 1
	return nil
}

// Control uses the action as the motor's control.
func (w *world) Control(action []float64) error {
	copy(w.Ctrl, action)
	return nil
}

// Drive makes the physics steps. The reward is 1 if the pendulum is upright, 0 if it hangs.
func (w *world) Drive() (envs.Step, error) {
	if err := w.Advance(substeps); err != nil {
		return envs.Step{}, err
	}
	return envs.Step{Reward: (1 + math.Cos(w.QPos[0])) / 2, Terminated: w.Solved(), Substeps: substeps}, nil
}

// Solved compares angles modulo full turns, since qpos is not wrapped.
func (w *world) Solved() bool {
	return w.HasGoal && math.Abs(math.Remainder(w.QPos[0]-w.Goal[0], 2*math.Pi)) < threshold
}
