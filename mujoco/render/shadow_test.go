package render

import (
	"bytes"
	"testing"

	"scalewm/mujoco"
)

// TestKeptShadowsEqualPlainOnes compares frames byte by byte while things fall, rest and jump, worlds take
// turns in one renderer, and light, sizes and colours change.
func TestKeptShadowsEqualPlainOnes(t *testing.T) {
	t.Run("mirror", func(t *testing.T) { keptEqualPlain(t, true) })
	t.Run("no mirror", func(t *testing.T) { keptEqualPlain(t, false) }) // the floor's picture is kept too
}

func keptEqualPlain(t *testing.T, mirror bool) {
	m, d := scene(t)
	if !mirror {
		clear(m.MatReflectance())
	}
	other, err := m.NewData()
	must(t, err)
	t.Cleanup(other.Close)
	r, plain := twins(t, m, width, height)
	box, err := m.ID(mujoco.ObjGeom, "box")
	must(t, err)
	for i := range 54 {
		world := d
		switch {
		case i == 8:
			m.LightPos()[0] += 0.1
		case i == 14:
			mujoco.Row(m.GeomSize(), box, 3)[0] *= 1.5
		case i == 20:
			copy(mujoco.Row(m.GeomRGBA(), box, 4), []float32{1, 1, 0, 1})
		case i == 33:
			m.CamPos()[0] += 0.05
		case i == 37:
			copy(m.MatRGBA(), []float32{1, 0.5, 0.5, 1})
		case i == 41:
			m.GeomPos()[2] -= 0.1 // the floor
		case i == 45:
			m.CamPos()[2] = -1 // under it
		case i == 49:
			m.CamPos()[2] = 1
		case i > 22 && i < 32 && i%2 == 0:
			world = other
		}
		if i%3 > 0 {
			must(t, world.Step(7))
		}
		must(t, world.Forward())
		if !bytes.Equal(draw(t, r, world, 0), draw(t, plain, world, 0)) {
			t.Fatalf("frame %d differs", i)
		}
	}
}
