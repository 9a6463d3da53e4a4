package render

import (
	"bytes"
	"slices"
	"testing"

	"scalewm/mujoco"
)

// Three models through a cache of two: each is drawn as a renderer of its own draws
// it, and the one not used for longest is closed.
func TestCacheDrawsManyModels(t *testing.T) {
	first, _ := scene(t)
	newRenderer(t, first, 64, 48) // skips where nothing can draw
	c := NewCache(2, 64, 48)
	var models []*mujoco.Model
	var data []*mujoco.Data
	var want [][]byte
	for i := range 3 {
		m, d := scene(t)
		red := m.GeomRGBA()
		for g := range m.NGeom() {
			red[4*g] = float32(i) / 2
		}
		models, data = append(models, m), append(data, d)
		want = append(want, draw(t, newRenderer(t, m, 64, 48), d, Fixed(0)))
	}
	if bytes.Equal(want[0], want[2]) {
		t.Fatal("the models look the same")
	}
	got := make([]byte, len(want[0]))
	for _, i := range []int{0, 1, 0, 2, 1, 0, 2} {
		must(t, c.Render(t.Context(), data[i], Fixed(0), got))
		if !bytes.Equal(got, want[i]) {
			t.Errorf("model %d is drawn differently", i)
		}
	}
	if kept := []*mujoco.Model{models[0], models[2]}; len(c.used) != 2 || c.used[0].model != kept[0] || c.used[1].model != kept[1] {
		t.Errorf("%d renderers are kept, not those of the last two models", len(c.used))
	}
	for _, r := range slices.Clone(c.used) {
		r.Close()
	}
	if err := c.Render(t.Context(), data[0], Fixed(9), got); err == nil {
		t.Error("a camera that the model has not")
	}
}
