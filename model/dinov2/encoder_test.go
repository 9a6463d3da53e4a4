package dinov2

import (
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

func stream(name string) *rand.Rand { return rng.Stream("test", name) }

// TestChunks checks that a frame's features do not depend on the number of frames, on
// its position among them, or on whether a list selects it.
func TestChunks(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	c := Config{Width: 8, Layers: 2, Heads: 2, MLP: 8, Patch: 4, Positions: 5, FrameSize: 16}
	e, p := ready(t, dev, c, nil)
	chunk, rows := tokensAtOnce/(c.Patches()+1), c.Patches()
	n := chunk + 9
	px := make([]float64, n*3*c.FrameSize*c.FrameSize)
	r := stream("pixels")
	for i := range px {
		px[i] = float64(r.IntN(256))
	}
	list := []int32{int32(n - 1), 0, int32(chunk), 7, int32(chunk - 1), 7}
	frames, all, some := upload(dev, px), device.NewMat(dev, n*rows, c.Width), device.NewMat(dev, len(list)*rows, c.Width)
	e.Into(p, all, frames, nil, n)
	e.Into(p, some, frames, device.NewInts(dev, list), len(list))
	for i, frame := range list {
		if !slices.Equal(download(dev, some.RowRange(i*rows, rows)), download(dev, all.RowRange(int(frame)*rows, rows))) {
			t.Errorf("number %d of the list is not frame %d", i, frame)
		}
	}
}

// Only the geometry and the published hashes decide, and neither the size of the frames
// nor the position grid, which do not change the weights.
func TestName(t *testing.T) {
	other, resized := Small(), Small()
	other.Heads = 12
	resized.FrameSize, resized.Positions, resized.Resample = 196, 16, Hub
	for _, c := range []struct {
		c            Config
		sha256, want string
	}{{Small(), smallFiles[0], "dinov2-small"}, {resized, smallFiles[1], "dinov2-small"}, {resized, "", "dinov2-small by its geometry"},
		{other, smallFiles[0], "DINOv2 (layers 12, width 384, heads 12, MLP 1536, patch 14)"}} {
		if got := c.c.Name(c.sha256); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
