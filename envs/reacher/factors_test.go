package reacher

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/mujoco"
)

// varied returns a world with options; it skips the test if the library is missing.
func varied(t *testing.T, o envs.Options) *testWorld {
	t.Helper()
	e, err := open(o)
	if errors.Is(err, mujoco.ErrNoLibrary) {
		t.Skip("mujoco: library not fetched")
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
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
	if n := len(spec.Recorded(o)) - len(spec.Columns); n != len(factors) {
		t.Errorf("%d columns of factors", n)
	}
	r := rand.New(rand.NewPCG(9, 9))
	for range 10 {
		must(t, e.Reset(r))
		row := envs.Row{}
		for _, c := range spec.Recorded(o) {
			row[c.Name] = make([]float64, c.Width)
			must(t, e.Observe(c.Name, row[c.Name]))
		}
		must(t, again.Restart(row, true))
		before := e.Snapshot()
		for range 5 {
			a := [2]float64{2*r.Float64() - 1, 2*r.Float64() - 1}
			step(t, e, a[0], a[1])
			step(t, again, a[0], a[1])
		}
		if !slices.Equal(e.w.QPos, again.w.QPos) || e.w.Data.Model() != again.w.Data.Model() {
			t.Error("a world made from its row moves differently, or shares nothing with it")
		}
		must(t, errors.Join(e.Reset(r), e.Restore(before)))
		if !slices.Equal(see(t, e, "qpos"), row["qpos"]) || see(t, e, "target_pos")[0] != row["target_pos"][0] || e.w.Data.Model() != again.w.Data.Model() {
			t.Error("a snapshot is of another world")
		}
	}
}

// Half the density of a link makes the arm turn faster under the same motor.
func TestDensities(t *testing.T) {
	turned := func(o envs.Options) float64 {
		e := varied(t, o)
		must(t, e.SetState(envs.Row{"qpos": {0, 0}, "qvel": {0, 0}}))
		step(t, e, 1, 0)
		return e.w.QPos[0]
	}
	usual := turned(nil)
	for _, name := range []string{"agent.arm_density", "agent.finger_density"} {
		light, heavy := turned(envs.Options{name: "500"}), turned(envs.Options{name: "1500"})
		if !(heavy < usual && usual < light) {
			t.Errorf("%s: 500, 1000, 1500 kg/m³ turn the shoulder by %g, %g, %g", name, light, usual, heavy)
		}
	}
}

// A visible target is drawn at its position, above the floor and below the arm.
func TestVisibleTarget(t *testing.T) {
	e := varied(t, envs.Options{"rendering.render_target": "1", "target.color": "0,1,0", "target.shape": "0"})
	needOpenGL(t, e)
	perMetre := envs.FrameSize / 2 / math.Tan(math.Pi/8) / (0.75 - 0.025)
	for _, at := range [][]float64{{0.1, 0.12}, {-0.15, 0.02}} {
		must(t, e.SetState(envs.Row{"qpos": {-1.5, 0}, "qvel": {0, 0}, "target_pos": at}))
		f := frameOf(t, e)
		x, y := int(envs.FrameSize/2+perMetre*at[0]), int(envs.FrameSize/2-perMetre*at[1])
		if p := f[3*(y*envs.FrameSize+x):][:3]; !(p[1] > 2*p[0]+50 && p[1] > 2*p[2]+50) {
			t.Errorf("target at %v: the pixel (%d, %d) is %v", at, x, y, p)
		}
	}
	usual := varied(t, nil)
	row := envs.Row{"qpos": {-1.5, 0}, "qvel": {0, 0}, "target_pos": {0.1, 0.12}}
	must(t, errors.Join(usual.SetState(row), e.SetState(row)))
	if bytes.Equal(frameOf(t, usual), frameOf(t, e)) {
		t.Error("the target is seen nowhere, or everywhere")
	}
}

func TestBadFactors(t *testing.T) {
	for _, c := range []struct {
		o    envs.Options
		says string
	}{
		{envs.Options{"agent.finger_locked": "1"}, "hint: one of substeps, agent.color, "}, // not supported
		{envs.Options{"agent.arm_density": "2000"}, "2000 is not from 500 to 1500"},
		{envs.Options{"floor.color": "0,0,0"}, "does not have 6 numbers"},
		{envs.Options{"target.shape": "0.5"}, "0.5 is not a whole number"},
	} {
		if _, err := open(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.o, err, c.says)
		}
	}
	e := varied(t, nil)
	if err := e.SetState(envs.Row{"qpos": {1, 1}, "qvel": {0, 0}, "variation.light.intensity": {math.NaN()}}); err == nil || e.w.QPos[0] == 1 {
		t.Errorf("a light of NaN: %v, joints %v", err, e.w.QPos)
	}
}
