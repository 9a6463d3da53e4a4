package amortised

import (
	"fmt"
	"slices"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/lewm"
)

// BenchmarkAct measures decisions of one episode, and of as many as an evaluation batches:
// frames are encoded, and the policy answers actions. Goals are encoded before. The sizes
// are the published ones and those of the preset laptop.
func BenchmarkAct(b *testing.B) {
	published := lewm.Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 6,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
	laptop := lewm.Config{ImageSize: 64, Patch: 16, Width: 96, Layers: 3, Heads: 3, MLP: 384, Dim: 48, Projector: 512, PredictorDepth: 2,
		PredictorHeads: 4, PredictorHeadDim: 32, PredictorMLP: 256, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
	idm := func(width int) Network { return GCIDM{Width: width, Layers: 3, Dropout: 0.1, MaxHorizon: 50} }
	for _, c := range []struct {
		name    string
		encoder model.Geometry
		network Network
	}{
		{"laptop/gcidm", laptop, idm(256)}, {"laptop/gcbc", laptop, GCBC{Depth: 4, Heads: 4, HeadDim: 32, MLP: 256, History: 3}},
		{"published/gcidm", published, idm(512)}, {"published/gcbc", published, GCBC{Depth: 6, Heads: 16, HeadDim: 64, MLP: 2048, History: 3}},
	} {
		act := func(b *testing.B, n int) {
			dev, err := cpu.New(cpu.Options{Precision: device.FP32})
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			w, err := policy(b, dev, c.network, c.encoder, false).World()
			if err != nil {
				b.Fatal(err)
			}
			dim := w.Info().Dim
			frames, z, goal := pixels(w, n), device.NewMat(dev, n, dim), device.NewMat(dev, n, dim)
			left, action := upload(dev, slices.Repeat([]float64{25}, n), 1), device.NewMat(dev, n, 2)
			for b.Loop() {
				w.Encode(z, frames, n)
				w.(model.Actor).Act(action, z, goal, left)
				dev.Sync()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "decisions/s")
			if dev.Err() != nil {
				b.Fatal(dev.Err())
			}
		}
		for _, n := range []int{1, model.EncodeBatch} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) { act(b, n) })
		}
	}
}
