package render

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/mujoco"
)

// Three models share a cache of two renderers. Each frame must equal that of a separate
// renderer, and the least recently used renderer must be closed.
func TestCacheDrawsManyModels(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	first, _ := scene(t)
	newRenderer(t, first, 64, 48) // skips if nothing can draw
	c := NewCache(2, 64, 48)
	var models []*mujoco.Model
	var data []*mujoco.Data
	var want [][]byte
	for i := range 3 {
		m, d := scene(t)
		red := mujoco.Array[float32](m, "geom_rgba")
		for g := range m.Size("ngeom") {
			red[4*g] = float32(i) / 2
		}
		models, data = append(models, m), append(data, d)
		want = append(want, draw(t, newRenderer(t, m, 64, 48), d, 0))
	}
	if bytes.Equal(want[0], want[2]) {
		t.Fatal("the models look the same")
	}
	got := make([]byte, len(want[0]))
	for _, i := range []int{0, 1, 0, 2, 0} {
		must(t, c.Render(t.Context(), data[i], 0, got))
		if !bytes.Equal(got, want[i]) {
			t.Errorf("model %d is drawn differently", i)
		}
	}
	if kept := []*mujoco.Model{models[2], models[0]}; len(c.used) != 2 || c.used[0].model != kept[0] || c.used[1].model != kept[1] {
		t.Errorf("%d renderers are kept, not those of the last two models drawn", len(c.used))
	}
	for _, r := range slices.Clone(c.used) {
		r.Close()
	}
	if err := c.Render(t.Context(), data[0], 9, got); err == nil {
		t.Error("a camera that the model has not")
	}
}

// A blocked renderer thread simulates a graphics card that hangs: the frame is abandoned,
// and later frames return the same error.
func TestCacheGivesUpOnACard(t *testing.T) {
	m, d := scene(t)
	newRenderer(t, m, 16, 16) // skips if nothing can draw
	c := NewCache(1, 16, 16)
	if c.OneCore() != nil {
		t.Error("before the first frame it is known what draws")
	}
	frame := make([]byte, 16*16*3)
	must(t, c.Render(t.Context(), d, 0, frame))
	r := c.used[0]
	if (c.OneCore() != nil) != r.Info().Software() {
		t.Errorf("%v for %+v", c.OneCore(), r.Info())
	}
	hold := make(chan struct{})
	defer close(hold)
	usual := r.draw
	r.draw = func() {
		<-hold
		usual()
	}
	r.info.Renderer, c.timeout = "a card", time.Microsecond
	err := c.Render(t.Context(), d, 0, frame)
	for ; strings.Contains(err.Error(), "not drawn"); c.timeout *= 2 { // the timeout ended before the frame began
		err = c.Render(t.Context(), d, 0, frame)
	}
	if !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("a hanging frame: %v", err)
	}
	if again := c.Render(t.Context(), d, 0, frame); again != err {
		t.Errorf("the next frame: %v", again)
	}
	if c.OneCore() != nil {
		t.Error("a card is taken for software")
	}
}
