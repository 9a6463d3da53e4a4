package train

import (
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/lewm"
	"scalewm/model/objective"
)

// geometry is a model whose training step is timed.
type geometry struct {
	name  string
	batch int
	model lewm.Config
	m     int // SIGReg's directions
}

// The 10.77 M geometry is that of docs/sources.md#pytorch-times, for which PyTorch's
// time is known.
var geometries = []geometry{
	{"10.77M", 32, lewm.Config{ImageSize: 64, Patch: 8, Width: 192, Layers: 4, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 4,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}, 1024},
	{"nano", 64, lewm.Config{ImageSize: 64, Patch: 16, Width: 96, Layers: 3, Heads: 3, MLP: 384, Dim: 48, Projector: 512, PredictorDepth: 2,
		PredictorHeads: 4, PredictorHeadDim: 32, PredictorMLP: 256, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}, 256},
}

// BenchmarkStep reports which share of the machine's measured peak the GEMMs of a
// training step reach and, in fp32 at the 10.77 M geometry, the ratio to PyTorch's
// 610 ms (torch 2.15, 2 threads; docs/sources.md#pytorch-times).
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
	machine, err := cpu.Measure(precision, 0)
	if err != nil {
		b.Fatal(err)
	}
	t, err := NewTrial(Options{Dev: dev, Method: model.MethodOf(model.Baseline), Model: g.model, Seed: 1, Config: Config{Optimiser: Optimiser{Schedule: model.Schedule{Batch: g.batch, LR: 1e-4}, WarmUp: 0.01, Clip: 1}, Weights: lossWeights, Loss: Loss{Numbers: objective.Numbers{Directions: g.m}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Free()
	step := func() {
		if err := t.Step(); err != nil {
			b.Fatal(err)
		}
	}
	step() // allocates memory
	for b.Loop() {
		step()
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(seconds*1000, "ms/step")
	b.ReportMetric(g.model.StepFLOP(g.batch, g.m)/seconds/1e9/machine.Products, "of-peak")
	if g.name == "10.77M" && precision == device.FP32 {
		b.ReportMetric(0.610/seconds, "x-pytorch")
	}
}
