package train

import (
	"testing"

	"scalewm/dataset"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/lewm"
)

// geometry is a model whose step is timed.
type geometry struct {
	name  string
	batch int
	model lewm.Config
	m     int // SIGReg's directions
}

// The 10.77 M geometry is that of reference-cases C, for which PyTorch's time is known.
var geometries = []geometry{
	{"10.77M", 32, lewm.Config{ImageSize: 64, Patch: 8, Width: 192, Layers: 4, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 4,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}, 1024},
	{"nano", 64, lewm.Config{ImageSize: 64, Patch: 16, Width: 96, Layers: 3, Heads: 3, MLP: 384, Dim: 48, Projector: 512, PredictorDepth: 2,
		PredictorHeads: 4, PredictorHeadDim: 32, PredictorMLP: 256, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}, 256},
}

// products counts the multiply-adds of a training step's matrix products, as
// floating point operations: forward, and twice as much backward.
func (g geometry) products() float64 {
	c := g.model
	n, tokens := float64(g.batch*4), float64(c.Tokens())
	w, d, inner := float64(c.Width), float64(c.Dim), float64(c.PredictorHeads*c.PredictorHeadDim)
	patch := n * (tokens - 1) * float64(3*c.Patch*c.Patch) * w
	layer := n * tokens * (3*w*w + 2*tokens*w)
	after := w*w + 2*w*float64(c.MLP) // for every token, but in the last layer for one
	encoder := patch + float64(c.Layers)*layer + n*(float64(c.Layers-1)*tokens+1)*after
	block := 6*d*d + 4*d*inner + 2*d*float64(c.PredictorMLP) + 2*3*inner
	p := n * 3 / 4
	heads := n*float64(c.Projector)*(w+d) + p*float64(c.Projector)*2*d
	sigreg := n * d * float64(g.m)
	return 3 * 2 * (encoder + p*float64(c.PredictorDepth)*block + heads + sigreg)
}

// BenchmarkStep reports how much of the machine's measured peak a training
// step's products reach, and in fp32 at the 10.77 M geometry the ratio to
// PyTorch's 610 ms (torch 2.15, 2 threads; reference-cases C).
func BenchmarkStep(b *testing.B) {
	for _, g := range geometries {
		for _, precision := range []device.Precision{device.FP32, device.BF16} {
			b.Run(g.name+"/"+string(precision), func(b *testing.B) { benchmarkStep(b, g, precision) })
		}
	}
}

func benchmarkStep(b *testing.B, g geometry, precision device.Precision) {
	dev, err := cpu.New(cpu.Options{Precision: precision})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	peak, err := cpu.Peak(precision, 0)
	if err != nil {
		b.Fatal(err)
	}
	t, err := newTrainer(Options{Dev: dev, Method: "lewm", Model: g.model, Seed: 1,
		Config: Config{Batch: g.batch, LR: 1e-4, WarmUp: 0.01, Clip: 1, SIGReg: 0.09, Directions: g.m}}, 1000)
	if err != nil {
		b.Fatal(err)
	}
	defer t.free()
	batch := &dataset.Batch{Clips: make([]dataset.Clip, g.batch), Actions: make([]float32, g.batch*4*g.model.ActionWidth()),
		Pixels: make([]byte, g.batch*4*g.model.ImageSize*g.model.ImageSize*3)}
	for i := range batch.Pixels {
		batch.Pixels[i] = byte(i * 7919 >> 3)
	}
	t.step(batch, t.draws("train", 0), nil) // memory
	for b.Loop() {
		batch.Step++
		t.step(batch, t.draws("train", batch.Step), nil)
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(seconds*1000, "ms/step")
	b.ReportMetric(g.products()/seconds/1e9/peak, "of-peak")
	if g.name == "10.77M" && precision == device.FP32 {
		b.ReportMetric(0.610/seconds, "x-pytorch")
	}
}
