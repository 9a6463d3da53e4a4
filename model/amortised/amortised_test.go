package amortised

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/dinov2"
	"scalewm/model/dinowm"
	"scalewm/model/lewm"
	"scalewm/model/weights"
)

// Encoders of latents of 6 numbers on tasks of 2 actions: one with a single row per
// frame, and one with 4 patches.
var (
	single = lewm.Config{ImageSize: 8, Patch: 4, Width: 8, Layers: 1, Heads: 2, MLP: 6, Dim: 6, Projector: 7, PredictorDepth: 1,
		PredictorHeads: 2, PredictorHeadDim: 2, PredictorMLP: 6, History: 3, FrameSkip: 5, Smoothed: 4, ActionDim: 2}
	patched = dinowm.Config{Backbone: dinov2.Config{Width: 6, Layers: 2, Heads: 2, MLP: 12, Patch: 4, Positions: 3, FrameSize: 8}, ActionEmbedding: 3,
		PredictorDepth: 2, PredictorHeads: 2, PredictorHeadDim: 4, PredictorMLP: 9, PositionFrames: 4, History: 3, FrameSkip: 5, ActionDim: 2}.Random()
)

// networks are the tiny networks of testdata/policies.py.
var networks = map[string]Network{
	"gcidm": GCIDM{Width: 10, Layers: 3, MaxHorizon: 8},
	"gcbc":  GCBC{Depth: 6, Heads: 2, HeadDim: 4, MLP: 9, History: 3},
}

// frozen returns a checkpoint of an untrained encoder.
func frozen(t testing.TB, g model.Geometry) *model.FrozenEncoder {
	t.Helper()
	dev := ref.New()
	m, err := g.Declare()
	if err != nil {
		t.Fatal(err)
	}
	m.Alloc(dev, false)
	m.Init(5)
	c, side := opened(t, dev, m, g)
	return &model.FrozenEncoder{Arm: "lewm@half", SHA256: side.SHA256, Checkpoint: c}
}

// opened saves a model as train does and opens it again.
func opened(t testing.TB, dev device.Device, m model.Trainable, g model.Geometry) (*model.Checkpoint, *weights.Sidecar) {
	t.Helper()
	config, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	s := &weights.Sidecar{Kind: g.Info().Kind, Schema: model.Schema, Method: g.Info().Kind, Config: config, Train: json.RawMessage("{}")}
	path := filepath.Join(t.TempDir(), weights.FileName)
	if err := weights.Save(path, model.Tensors(dev, m), s); err != nil {
		t.Fatal(err)
	}
	c, s, err := model.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// policy returns an untrained policy on dev.
func policy(t testing.TB, dev device.Device, n Network, encoder model.Geometry, train bool) *Model {
	t.Helper()
	g, err := on(n, encoder.Info().ActionDim(), frozen(t, encoder))
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Declare()
	if err != nil {
		t.Fatal(err)
	}
	m.Alloc(dev, train)
	m.Init(7)
	t.Cleanup(m.Free)
	return m.(*Model)
}

func devices(t *testing.T) []device.Device {
	t.Helper()
	list := []device.Device{ref.New()}
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		dev, err := cpu.New(cpu.Options{Precision: p, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		list = append(list, dev)
	}
	return list
}

func upload(dev device.Device, v []float64, cols int) device.Mat {
	m := device.NewMat(dev, len(v)/cols, cols)
	dev.Upload64(m, v)
	return m
}

// normal returns random numbers that float32, the format of files, represents.
func normal(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(r.NormFloat64()))
	}
	return v
}

func download(dev device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	dev.Download64(v, m)
	return v
}

// actorOf returns a policy in evaluation mode, with all weights of its network random:
// GC-IDM's initial weights ignore the number of steps.
func actorOf(t *testing.T, dev device.Device, n Network, encoder model.Geometry) model.Actor {
	t.Helper()
	m := policy(t, dev, n, encoder, false)
	dev.Upload64(m.Set.Value, normal(rand.New(rand.NewPCG(3, 4)), m.Set.Len()))
	w, err := m.World()
	if err != nil {
		t.Fatal(err)
	}
	return w.(model.Actor)
}

// On all devices an action does not depend on those that are computed with it, and goals
// beyond the horizon are those at its end.
func TestActionsAreAlone(t *testing.T) {
	const n = 70
	for name, network := range networks {
		for _, dev := range devices(t) {
			t.Run(name+"/"+dev.Kind().String(), func(t *testing.T) {
				a, r := actorOf(t, dev, network, single), rand.New(rand.NewPCG(1, 2))
				left := make([]float64, n)
				for i := range left {
					left[i] = float64(1 + i%9)
				}
				z, goal, steps := upload(dev, normal(r, 6*n), 6), upload(dev, normal(r, 6*n), 6), upload(dev, left, 1)
				all, one := device.NewMat(dev, n, 2), device.NewMat(dev, 1, 2)
				a.Act(all, z, goal, steps)
				for i := range n {
					a.Act(one, z.RowRange(i, 1), goal.RowRange(i, 1), steps.RowRange(i, 1))
					if got, want := download(dev, one), download(dev, all.RowRange(i, 1)); !slices.Equal(got, want) {
						t.Fatalf("action %d is %v alone and %v among others", i, got, want)
					}
				}
				at := func(left float64) []float64 {
					a.Act(one, z.RowRange(0, 1), goal.RowRange(0, 1), upload(dev, []float64{left}, 1))
					return download(dev, one)
				}
				if differs := !slices.Equal(at(7), at(8)); !slices.Equal(at(8), at(50)) || differs != (name == "gcidm") {
					t.Errorf("actions to a goal in 7, 8 and 50 steps: %v, %v and %v", at(7), at(8), at(50))
				}
			})
		}
	}
}

// The published GC-IDM on latents of 192 numbers has 1,547,778 parameters
// (docs/sources.md#gc-idm).
func TestParameterCount(t *testing.T) {
	e := single
	e.Dim = 192
	m := policy(t, ref.New(), GCIDM{Width: 512, Layers: 3, Dropout: 0.1, MaxHorizon: 50}, e, false)
	if got := m.Params().Len(); got != 1_547_778 {
		t.Errorf("%d parameters", got)
	}
}

// pixels returns n frames of an encoder on its device.
func pixels(w model.World, n int) device.Bytes {
	px := make([]byte, n*w.Info().FrameBytes())
	for i := range px {
		px[i] = byte(i * 7919 >> 3)
	}
	b := w.Device().AllocBytes(len(px))
	w.Device().UploadBytes(b, px)
	return b
}

// A checkpoint of a policy is complete: it opens as a world model whose latents are those
// of the encoder's checkpoint, and its policy acts as before. A training sees the mean of
// a frame's patches, which Pool computes too.
func TestCheckpoint(t *testing.T) {
	for name, network := range networks {
		for of, encoder := range map[string]model.Geometry{"one row": single, "patches": patched} {
			t.Run(name+" on "+of, func(t *testing.T) {
				dev, r := ref.New(), rand.New(rand.NewPCG(1, 2))
				m := policy(t, dev, network, encoder, true)
				dev.Upload64(m.Set.Value, normal(r, m.Set.Len()))
				c, side := opened(t, dev, m, m.Cfg)
				w, err := c.World(dev)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Free()
				e, err := frozen(t, encoder).World(dev)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Free()
				if w.Info() != e.Info() || side.Kind != name {
					t.Errorf("%+v of kind %s, want %+v", w.Info(), side.Kind, e.Info())
				}
				const n = 3
				patches, frames := e.Info().Patches, pixels(e, n)
				z, want, pooled, training := device.NewMat(dev, n*patches, 6), device.NewMat(dev, n*patches, 6), device.NewMat(dev, n, 6), device.NewMat(dev, n, 6)
				w.Encode(z, frames, n)
				e.Encode(want, frames, n)
				if !slices.Equal(download(dev, z), download(dev, want)) {
					t.Error("the latents are not the encoder's")
				}
				w.(model.Actor).Pool(pooled, z)
				m.Encode(training, frames, n)
				mean := make([]float64, n*6)
				for i, v := range download(dev, want) {
					mean[i/6/patches*6+i%6] += v / float64(patches)
				}
				if got := download(dev, pooled); !slices.Equal(got, download(dev, training)) || !near(got, mean, 1e-12) {
					t.Errorf("pooled %v, in training %v, want %v", got, download(dev, training), mean)
				}
				before, err := m.World()
				if err != nil {
					t.Fatal(err)
				}
				steps := upload(dev, []float64{1, 5, 3}, 1)
				a, b := device.NewMat(dev, n, 2), device.NewMat(dev, n, 2)
				w.(model.Actor).Act(a, pooled, training, steps)
				before.(model.Actor).Act(b, pooled, training, steps)
				if !slices.Equal(download(dev, a), download(dev, b)) {
					t.Errorf("acts %v, before it was saved %v", download(dev, a), download(dev, b))
				}
			})
		}
	}
}

func near(a, b []float64, tolerance float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x-y <= tolerance && y-x <= tolerance })
}

// A preset is validated without an encoder, on latents of one number and frames of one
// pixel.
func TestInfo(t *testing.T) {
	for _, c := range []struct {
		network Network
		encoder *model.FrozenEncoder
		want    model.Info
	}{
		{networks["gcidm"], nil, model.Info{Kind: "gcidm", Patches: 1, Dim: 1, History: 1, FrameSize: 1, Patch: 1, ActionWidth: 2, FrameSkip: 1, Goals: true, MaxGoal: 8}},
		{networks["gcbc"], nil, model.Info{Kind: "gcbc", Patches: 1, Dim: 1, History: 3, FrameSize: 1, Patch: 1, ActionWidth: 2, FrameSkip: 1, Goals: true}},
		{networks["gcidm"], frozen(t, patched), model.Info{Kind: "gcidm", Patches: 1, Dim: 6, History: 1, FrameSize: 8, Patch: 4, ActionWidth: 2, FrameSkip: 1, Goals: true, MaxGoal: 8,
			Encoder: "lewm@half", BackboneName: patched.Info().BackboneName}},
	} {
		g, err := on(c.network, 2, c.encoder)
		if err != nil {
			t.Fatal(err)
		}
		if c.encoder != nil {
			c.want.Backbone = c.encoder.SHA256
		}
		if got := g.Info(); got != c.want {
			t.Errorf("%+v\nwant %+v", got, c.want)
		}
	}
}
