package pendulum

import (
	"errors"
	"math"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/mjenv"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

// made returns a pendulum at rest at an angle. It skips the test if the library is missing
// or nothing can draw.
func made(t *testing.T, angle float64) *mjenv.Env {
	t.Helper()
	e, err := task.New(nil, &world{})
	if errors.Is(err, mujoco.ErrNoLibrary) {
		t.Skip("mujoco: library not fetched")
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	must(t, e.SetState(envs.Row{"qpos": {angle}, "qvel": {0}}))
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func angleOf(t *testing.T, e *mjenv.Env) float64 {
	t.Helper()
	var v [1]float64
	must(t, e.Observe("qpos", v[:]))
	return v[0]
}

func TestConformance(t *testing.T) {
	if err := made(t, 0).Frame(make([]byte, envs.FrameBytes)); errors.Is(err, render.ErrNoOpenGL) {
		t.Skipf("render: no OpenGL: %v", err)
	}
	envtest.Run(t, "pendulum")
}

// The motor alone does not lift the pendulum from below: it would come to rest where
// its torque of 1.5 N m is that of gravity, and overshoots to less than twice the angle.
func TestItHasToSwing(t *testing.T) {
	e := made(t, math.Pi)
	highest := 0.0
	for range 200 {
		_, err := e.Step([]float64{1})
		must(t, err)
		highest = max(highest, math.Abs(angleOf(t, e)-math.Pi))
	}
	if highest < 0.1 || highest > math.Pi/2 {
		t.Errorf("full torque lifts it by %g rad", highest)
	}
}

// The goal is an angle modulo full turns.
func TestSolved(t *testing.T) {
	e := made(t, 3)
	for goal, want := range map[float64]bool{3.09: true, 3.11: false, 3 - 2*math.Pi: true, -3.2: true, -3: false} {
		must(t, e.SetGoal(envs.Row{"qpos": {goal}}))
		if e.Solved() != want {
			t.Errorf("from 3 to the goal %g: solved %v", goal, !want)
		}
	}
}
