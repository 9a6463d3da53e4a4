package reacher

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
)

func frameOf(t *testing.T, e *testWorld) []byte {
	t.Helper()
	f := make([]byte, envs.FrameBytes)
	must(t, e.Frame(f))
	return f
}

// The finger is drawn at its position. The camera is 0.75 m above the middle with a field of
// view of 45 degrees, the finger's top is 0.02 m high; x increases to the right, y upwards.
func TestFingerIsSeenWhereItIs(t *testing.T) {
	needOpenGL(t, made(t))
	perMetre := envs.FrameSize / 2 / math.Tan(math.Pi/8) / (0.75 - 0.02)
	for _, q := range [][2]float64{{0, 0}, {2, 1}, {-1, -2}, {4, 0.5}} {
		e := at(t, q, [2]float64{})
		must(t, e.Frame(make([]byte, envs.FrameBytes)))
		f := frameOf(t, e)
		finger := see(t, e, "finger_pos")
		x, y := int(envs.FrameSize/2+perMetre*finger[0]), int(envs.FrameSize/2-perMetre*finger[1])
		if p := f[3*(y*envs.FrameSize+x):][:3]; !(p[0] > p[1]+20 && p[1] > p[2]) { // orange; the floor is blue
			t.Errorf("joints at %v: the pixel of the finger (%d, %d) is %v", q, x, y, p)
		}
	}
}

// Neither the target nor the goal is drawn, and no frame lags.
func TestFrameShowsTheArmAlone(t *testing.T) {
	needOpenGL(t, made(t))
	e := at(t, [2]float64{1, 1}, [2]float64{3, 2})
	step(t, e, 1, 1)
	q := see(t, e, "qpos")
	stepped := frameOf(t, e)
	w := made(t)
	must(t, w.SetState(envs.Row{"qpos": q, "qvel": {0, 0}, "target_pos": {0.1, 0.1}}))
	must(t, w.SetGoal(envs.Row{"qpos": {0, 0}}))
	if string(stepped) != string(frameOf(t, w)) {
		t.Error("the frame after a step is not that of its joints")
	}
	if err := e.Frame(make([]byte, 10)); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("a frame of ten bytes: %v", err)
	}
}

// TestFramesEqualPlainOnes compares frames of two worlds, alternately, with a plain renderer's.
// One of the worlds draws its factors.
func TestFramesEqualPlainOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needOpenGL(t, made(t))
	o := envs.Options{}
	for _, f := range factors {
		o[f.Name] = envs.Sample
	}
	r := rand.New(rand.NewPCG(3, 4))
	worlds := []*testWorld{made(t), varied(t, o)}
	for i := range 6 {
		for _, e := range worlds {
			if i%3 == 0 {
				must(t, e.Reset(r))
			}
			step(t, e, 2*r.Float64()-1, 2*r.Float64()-1)
			envtest.PlainFrame(t, e, e.w.Data, task.Camera)
		}
	}
}
