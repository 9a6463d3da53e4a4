package replay

import (
	"errors"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// fakeSpec is a task with what Two-Room does not have: an angle, hidden state, a
// controller, a value that is not a number.
var fakeSpec = &envs.Spec{
	Name: "fake", ActionDim: 1,
	Columns: []envs.Column{
		{Name: "pose", DType: "float64", Width: 2, Angle: []int{1}}, // place, angle
		{Name: "broken", DType: "float64", Width: 1},
		{Name: "substeps", DType: "int32", Width: 1, Into: true},
		{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true},
	},
	StateColumns: []string{"pose"}, GoalColumns: []string{"pose"},
}

func init() {
	envs.Register(envs.Task{Spec: fakeSpec, New: func(o envs.Options) (envs.Env, error) {
		_, err := fakeSpec.Resolve(o)
		return &fake{}, err
	}})
}

// fake moves by its action plus a hidden momentum, which can be restored only from
// rows with the column restart_momentum.
type fake struct {
	place, angle, momentum, goal float64
}

func (f *fake) Spec() *envs.Spec        { return fakeSpec }
func (f *fake) Reset(*rand.Rand) error  { return nil }
func (f *fake) Close() error            { return nil }
func (f *fake) Snapshot() envs.Snapshot { return *f }
func (f *fake) Solved() bool            { return f.place == f.goal }
func (f *fake) ControlColumn() string   { return "sim_ctrl" }
func (f *fake) Frame([]byte) error      { return nil }

func (f *fake) Restore(s envs.Snapshot) error {
	*f = s.(fake)
	return nil
}

func (f *fake) Step(a []float64) (envs.Step, error) {
	if err := envs.CheckAction(fakeSpec, a); err != nil {
		return envs.Step{}, err
	}
	return f.StepControl([]float64{10 * a[0]})
}

func (f *fake) StepControl(c []float64) (envs.Step, error) {
	f.momentum++
	f.place += c[0] + f.momentum
	return envs.Step{Terminated: f.Solved(), Substeps: 2}, nil
}

func (f *fake) Observe(column string, dst []float64) error {
	switch column {
	case "pose":
		dst[0], dst[1] = f.place, f.angle
	case "broken":
		dst[0] = math.NaN()
	case "substeps":
		dst[0] = 2
	case "terminated":
		dst[0] = 0
		if f.Solved() {
			dst[0] = 1
		}
	}
	return nil
}

func (f *fake) SetState(row envs.Row) error {
	v, _, err := row.First(fakeSpec.StateColumns, 2)
	if err == nil {
		f.place, f.angle, f.momentum = v[0], v[1], 0
	}
	return err
}

func (f *fake) SetGoal(row envs.Row) error {
	v, _, err := row.First(fakeSpec.GoalColumns, 2)
	if err == nil {
		f.goal = v[0]
	}
	return err
}

func (f *fake) Restart(row envs.Row, first bool) error {
	m, ok := row["restart_momentum"]
	if !ok && !first {
		return envs.ErrNotExact
	}
	if ok && m[0] < 0 {
		return errors.New("momentum below zero")
	}
	if err := f.SetState(row); err != nil {
		return err
	}
	if ok {
		f.momentum = m[0]
	}
	return nil
}
