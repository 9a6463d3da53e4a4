package envtest

import (
	"bytes"
	"testing"

	"scalewm/envs"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

// PlainFrame fails the test if a world's frame differs from that of a plain renderer, which
// caches nothing between frames. d is the world's data, camera the name of its camera.
func PlainFrame(t *testing.T, e interface{ Frame([]byte) error }, d *mujoco.Data, camera string) {
	t.Helper()
	plain, err := render.NewPlain(d.Model(), envs.FrameSize, envs.FrameSize)
	must(t, err)
	defer plain.Close()
	id, err := d.Model().ID(mujoco.ObjCamera, camera)
	must(t, err)
	// The env draws with its cached renderer, plain without any cache.
	got, want := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	must(t, e.Frame(got))
	must(t, plain.Render(t.Context(), d, id, want))
	if !bytes.Equal(got, want) {
		t.Error("the frame differs from a plain renderer's")
	}
}
