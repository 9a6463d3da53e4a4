package cuda

import (
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/lewm"
	"scalewm/model/nn"
)

// trainingMemory returns the device memory of a training step in bytes. The step runs
// on a machine without kernels.
func trainingMemory(t *testing.T, c lewm.Config, clips int, p device.Precision) int {
	t.Helper()
	r := &recorder{room: 1 << 50}
	d, err := New(r, p)
	if err != nil {
		t.Fatal(err)
	}
	declared, err := c.Declare()
	if err != nil {
		t.Fatal(err)
	}
	m := declared.(*lewm.Model)
	m.Alloc(d, true)
	n, frames, arena := m.Params().Len(), clips*(c.History+1), device.NewArena(d)
	device.NewMat(d, 2, n) // Adam's moments
	pass := &nn.Pass{Dev: d, Arena: arena, Train: true}
	out := m.Forward(pass, model.Batch{B: clips, Pixels: d.AllocBytes(frames * c.ImageSize * c.ImageSize * 3), Actions: pass.Mat(frames, c.ActionWidth())})
	demb := pass.Zero(out.Emb.Rows, out.Emb.Cols)
	m.PredictorGrad(pass, demb, pass.Zero(out.Pred.Rows, out.Pred.Cols), pass.Zero(out.Pred.Rows, out.Pred.Cols))
	m.EncoderGrad(pass, demb)
	d.Sync()
	return 1<<50 - r.room
}

// TestSizes checks the sizes that docs/gpu.md and package gpu's error message name:
// those of the presets with some margin, but at most twice what is needed.
func TestSizes(t *testing.T) {
	paper := published()
	small := paper
	small.ImageSize, small.Patch, small.Layers, small.PredictorDepth = 64, 8, 4, 4
	for _, c := range []struct {
		preset string
		model  lewm.Config
		clips  int
		p      device.Precision
		gib    int
	}{
		{"paper", paper, 128, device.FP32, 22}, {"paper", paper, 128, device.BF16, 12},
		{"small", small, 64, device.FP32, 2}, {"small", small, 64, device.BF16, 1},
	} {
		got := float64(trainingMemory(t, c.model, c.clips, c.p)) / (1 << 30)
		if got > float64(c.gib) || got < float64(c.gib)/2 {
			t.Errorf("preset %s in %s takes %.2f GiB, documented as %d", c.preset, c.p, got, c.gib)
		}
	}
}
