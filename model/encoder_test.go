package model_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
)

// small returns a model for frames of 4 x 4 pixels with latents of 5 numbers.
func small(t *testing.T) model.World {
	t.Helper()
	m, err := lewm.New(ref.New(), lewm.Config{ImageSize: 4, Patch: 2, Width: 4, Layers: 1, Heads: 2, MLP: 6, Dim: 5, Projector: 6, PredictorDepth: 1,
		PredictorHeads: 2, PredictorHeadDim: 2, PredictorMLP: 6, History: 3, FrameSkip: 5, Smoothed: 4, ActionDim: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The latent of a frame does not depend on the other frames of its batch, and Into
// and Latents return the same values.
func TestEncoder(t *testing.T) {
	w, r := small(t), rand.New(rand.NewPCG(1, 2))
	info, dev := w.Info(), w.Device()
	const n = 2*model.EncodeBatch + 3
	frames := make([]byte, n*info.FrameBytes())
	for i := range frames {
		frames[i] = byte(r.Uint32())
	}
	e := model.NewEncoder(w)
	defer e.Free()
	all, onDevice := make([]float32, n*info.Dim), make([]float32, n*info.Dim)
	z := device.NewMat(dev, n, info.Dim)
	if err := errors.Join(e.Latents(t.Context(), all, frames), e.Into(t.Context(), z, frames)); err != nil {
		t.Fatal(err)
	}
	dev.Download(onDevice, z)
	one, px, row := make([]float32, info.Dim), dev.AllocBytes(info.FrameBytes()), device.NewMat(dev, 1, info.Dim)
	for i := range n {
		dev.UploadBytes(px, frames[i*info.FrameBytes():(i+1)*info.FrameBytes()])
		w.Encode(row, px, 1)
		dev.Download(one, row)
		for name, got := range map[string][]float32{"host": all, "device": onDevice} {
			if !slices.Equal(got[i*info.Dim:(i+1)*info.Dim], one) {
				t.Fatalf("%s: frame %d has a different latent when encoded alone than among %d", name, i, n)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Latents(ctx, all, frames); !errors.Is(err, context.Canceled) {
		t.Errorf("Latents ignores a cancelled context: %v", err)
	}
}

// Predict and Costs of E episodes with C candidates each give the same values as a
// call per candidate with the start of its episode.
func TestPredict(t *testing.T) {
	w, r := small(t), rand.New(rand.NewPCG(3, 4))
	const episodes, candidates, h = 2, 3, 2
	width, plan := w.Info().Dim, h*w.Info().ActionWidth
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	start, actions := numbers(episodes*width), numbers(episodes*candidates*plan)
	all, err := model.Predict(w, start, actions, h)
	if err != nil || len(all) != episodes*candidates*width {
		t.Fatal(len(all), err)
	}
	goals := numbers(episodes * width)
	costs, err := model.Costs(w, start, actions, goals, h)
	if err != nil || len(costs) != episodes*candidates {
		t.Fatal(len(costs), err)
	}
	for i := range episodes * candidates {
		e := i / candidates
		one, err := model.Predict(w, start[e*width:(e+1)*width], actions[i*plan:(i+1)*plan], h)
		if err != nil || !slices.Equal(one, all[i*width:(i+1)*width]) {
			t.Errorf("candidate %d: %v alone, %v among all (%v)", i, one, all[i*width:(i+1)*width], err)
		}
		want := 0.0 // the family's cost is the squared distance (docs/sources.md#planning-cost)
		for k, v := range one {
			want += math.Pow(float64(v)-float64(goals[e*width+k]), 2)
		}
		if math.Abs(float64(costs[i])-want) > 1e-5*want {
			t.Errorf("candidate %d: cost %v, want %v", i, costs[i], want)
		}
	}
}
