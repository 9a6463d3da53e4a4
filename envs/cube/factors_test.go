package cube

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/envs/mjenv"
	"scalewm/mujoco"
)

// varied returns a world with options; it skips the test if the library or model files are missing.
func varied(t *testing.T, o envs.Options) *env {
	t.Helper()
	e, err := newEnv(o)
	if errors.Is(err, mujoco.ErrNoLibrary) || errors.Is(err, ErrNoFiles) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// dataset/replay compares drawn worlds with recordings bit for bit. This test rebuilds a
// drawn world from its columns, and restores a world from a snapshot.
func TestDrawnWorlds(t *testing.T) {
	o := envs.Options{}
	for _, f := range factors {
		o[f.Name] = envs.Sample
	}
	e, again := varied(t, o), varied(t, nil)
	if n := len(spec.Recorded(o)) - len(spec.Columns); n != len(factors)-4 {
		t.Errorf("%d columns of factors", n)
	}
	r := rand.New(rand.NewPCG(9, 9))
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(e.Reset(r))
	first := e.Snapshot()
	must(e.Reset(r))
	row := envs.Row{}
	for _, c := range spec.Recorded(o) {
		row[c.Name] = make([]float64, c.Width)
		must(e.Observe(c.Name, row[c.Name]))
	}
	if s := row["variation.cube.size"][0]; s == factors[1].Init[0] || s < .01 || s > .03 {
		t.Errorf("a cube of half size %g", s)
	}
	must(again.Restart(row, true))
	action := []float64{.3, -.4, -1, .5, 1}
	for range 3 {
		_, err := e.Step(action)
		_, err2 := again.Step(action)
		must(err, err2)
	}
	if !slices.Equal(e.w.QPos, again.w.QPos) {
		t.Error("a world made from its row moves differently")
	}
	must(e.Restore(first))
	other := slices.Clone(e.w.QPos)
	size := e.w.Of("cube.size")[0]
	must(again.Restore(first), e.Reset(r), e.Restore(first))
	if !slices.Equal(e.w.QPos, other) || !slices.Equal(again.w.QPos, other) || again.w.Of("cube.size")[0] != size {
		t.Error("a snapshot is of another world")
	}
}

// Fixed positions hold in resets and new targets, and do not change the other draws.
func TestFixedFactors(t *testing.T) {
	e, usual := varied(t, envs.Options{"cube.goal_position": "0.4,-0.25", "cube.goal_yaw": "1", "cube.start_yaw": "0.5",
		"agent.ee_start_position": "0.3,0.2,0.25"}), varied(t, nil)
	for _, w := range []*env{e, usual} {
		if err := w.Reset(rand.New(rand.NewPCG(4, 2))); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := vec3(e.w.Goal); got != (vec3{.4, -.25, height}) || math.Abs(quat(e.w.targetQuat).yaw()-1) > 1e-15 {
			t.Errorf("the target is at %v", got)
		}
		e.Retarget(rand.New(rand.NewPCG(4, 2)))
	}
	if math.Abs(e.w.cubeYaw()-.5) > 1e-15 || !slices.Equal(e.w.QPos[cubeAt:cubeAt+2], usual.w.QPos[cubeAt:cubeAt+2]) {
		t.Errorf("the cube lies at %v, yaw %g", e.w.QPos[cubeAt:], e.w.cubeYaw())
	}
	for i, want := range [3]float64{.3, .2, .25} {
		if math.Abs(e.w.pinchAt[i]-want) > 1e-3 { // the controller's tolerance is 1e-4 at the flange
			t.Errorf("the effector starts at %v", e.w.pinchAt)
		}
	}
}

// stable-worldmodel's perturb_camera_angle for 3 and -7 degrees.
func TestCameraAxes(t *testing.T) {
	want := []float64{-0.052335956242943835, 0.99118590163601605, -0.12170232570552782, -0.62719168378211532, 0.063183540039079972, 0.77608468098699446}
	for i, x := range cameraAxes([]float64{3, -7}) {
		if math.Abs(x-want[i]) > 2e-16 {
			t.Errorf("number %d is %.17g, not %.17g", i, x, want[i])
		}
	}
	if got := cameraAxes([]float64{0, 0}); !slices.Equal(got, []float64{0, 1, 0, -.628, .001, .778}) {
		t.Errorf("unturned %v", got)
	}
}

func TestBadFactors(t *testing.T) {
	for _, c := range []struct {
		o    envs.Options
		says string
	}{
		{envs.Options{"cube.size": "0.04"}, "0.04 is not from 0.01 to 0.03"},
		{envs.Options{"cube.goal_position": "0.1,0"}, "0.1 is not from 0.3 to 0.55"},
		{envs.Options{"agent.ee_start_position": "0.4,0,0.1"}, "0.1 is not from 0.2 to 0.35"},
		{envs.Options{"camera.angle_delta": "up"}, "does not have 2 numbers"},
	} {
		if _, err := newEnv(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.o, err, c.says)
		}
	}
	e := varied(t, nil)
	before := bytes.Clone([]byte(mjenv.Numbers(e.w.QPos).String()))
	row := envs.Row{"qpos": make([]float64, nq), "qvel": make([]float64, nv), "variation.cube.size": {.5}}
	if err := e.SetState(row); err == nil || !strings.Contains(err.Error(), "variation.cube.size: 0.5") {
		t.Errorf("a cube of half a metre: %v", err)
	}
	if !bytes.Equal(before, []byte(mjenv.Numbers(e.w.QPos).String())) {
		t.Error("a refused row has changed the world")
	}
}
