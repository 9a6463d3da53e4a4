package render

import (
	"bytes"
	"testing"

	"scalewm/mujoco"
)

// TestKeptShadowsEqualPlainOnes compares frames with and without caches, byte by byte, while
// objects fall, rest and jump, two simulations alternate in one renderer, and light, sizes
// and colours change.
func TestKeptShadowsEqualPlainOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Run("mirror", func(t *testing.T) { keptEqualPlain(t, true) })
	t.Run("no mirror", func(t *testing.T) { keptEqualPlain(t, false) }) // the first draw is cached too
}

func keptEqualPlain(t *testing.T, mirror bool) {
	m, d := scene(t)
	if !mirror {
		clear(mujoco.Array[float32](m, "mat_reflectance"))
	}
	other, err := m.NewData()
	must(t, err)
	t.Cleanup(other.Close)
	r, plain := pair(t, m, width, height)
	box, err := m.ID(mujoco.ObjGeom, "box")
	must(t, err)
	for i := range 54 {
		world := d
		switch {
		case i == 8:
			mujoco.Array[float64](m, "light_pos")[0] += 0.1
		case i == 14:
			mujoco.Row(mujoco.Array[float64](m, "geom_size"), box, 3)[0] *= 1.5
		case i == 20:
			copy(mujoco.Row(mujoco.Array[float32](m, "geom_rgba"), box, 4), []float32{1, 1, 0, 1})
		case i == 33:
			mujoco.Array[float64](m, "cam_pos")[0] += 0.05
		case i == 37:
			copy(mujoco.Array[float32](m, "mat_rgba"), []float32{1, 0.5, 0.5, 1})
		case i == 41:
			mujoco.Array[float64](m, "geom_pos")[2] -= 0.1 // the floor
		case i == 45:
			mujoco.Array[float64](m, "cam_pos")[2] = -1 // below it
		case i == 49:
			mujoco.Array[float64](m, "cam_pos")[2] = 1
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
