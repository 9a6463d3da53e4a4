package dinowm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

func tiny() Config {
	return Config{Backbone: dinov2.Config{Width: 6, Layers: 2, Heads: 2, MLP: 12, Patch: 4, Positions: 3, FrameSize: 8}, ActionEmbedding: 3,
		PredictorDepth: 2, PredictorHeads: 2, PredictorHeadDim: 4, PredictorMLP: 9, PositionFrames: 4, History: 3, FrameSkip: 5, ActionDim: 2}.Random()
}

// paper is the geometry in the authors' code.
func paper() Config {
	return Config{Backbone: dinov2.Small(), ActionEmbedding: 10, PredictorDepth: 6, PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048,
		PositionFrames: 4, History: 3, FrameSkip: 5, ActionDim: 2}
}

func upstream() Config {
	c := paper()
	c.PositionFrames, c.Dropout, c.Proprio, c.ProprioEmbedding = 3, .1, 4, 10
	return c
}

// The note describes a backbone with another geometry than dinov2-small's, or with random
// weights.
func TestBackboneNote(t *testing.T) {
	other := paper()
	other.Backbone.MLP = 1024
	const note = "the paper's backbone is dinov2-small; this is "
	for _, c := range []struct {
		cfg        Config
		name, note string
	}{{paper(), "dinov2-small by its geometry", ""}, {paper().Random(), "a random dinov2-small", note + "a random dinov2-small"},
		{other, "DINOv2 (layers 12, width 384, heads 6, MLP 1024, patch 14)", note + "DINOv2 (layers 12, width 384, heads 6, MLP 1024, patch 14)"}} {
		if got := c.cfg.Info(); got.BackboneName != c.name || got.Note() != c.note {
			t.Errorf("%q, note %q, want %+v", got.BackboneName, got.Note(), c)
		}
	}
}

// The expected counts are those of docs/sources.md#dino-wm-training. The published
// checkpoint has 302 tensors, six of which are masks. 223 belong to transformers'
// Dinov2Model.
func TestParameterCounts(t *testing.T) {
	for _, c := range []struct {
		cfg             Config
		params, tensors int
	}{{paper(), 19_796_714, 294}, {upstream(), 20_195_480, 296}} {
		m, err := c.cfg.Declare()
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Params().Len(); got != c.params || len(m.Saved()) != c.tensors {
			t.Errorf("%d trainable parameters and %d tensors, want %d and %d", got, len(m.Saved()), c.params, c.tensors)
		}
	}
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

func newModel(t *testing.T, dev device.Device, c Config) *Model {
	t.Helper()
	declared, err := c.Declare()
	if err != nil {
		t.Fatal(err)
	}
	m := declared.(*Model)
	m.Alloc(dev, false)
	m.Init(7)
	return m
}

func upload(dev device.Device, r *rand.Rand, rows, cols int) device.Mat {
	m := device.NewMat(dev, rows, cols)
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	dev.Upload64(m, v)
	return m
}

// On all devices, the result of a candidate does not depend on the others that are
// rolled out or encoded with it, nor on its position in a chunk.
func TestCandidatesAreAlone(t *testing.T) {
	for _, dev := range devices(t) {
		t.Run(dev.Kind().String(), func(t *testing.T) {
			m, r := newModel(t, dev, tiny()), rand.New(rand.NewPCG(5, 6))
			p, d := m.Info().Patches, m.Info().Dim
			chunk := dev.Traits().RolloutRows / p
			n := chunk + 3
			start, cand := upload(dev, r, 2*p, d), upload(dev, r, 2*n, 5*m.Cfg.ActionWidth()) // windows grow, then slide
			all, one := device.NewMat(dev, 2*n*p, d), device.NewMat(dev, p, d)
			m.Rollout(all, start, cand, 5)
			for _, i := range []int{0, chunk - 1, chunk, n - 1, n, 2*n - 1} {
				m.Rollout(one, start.RowRange(i/n*p, p), cand.RowRange(i, 1), 5)
				if !slices.Equal(download(dev, all.RowRange(i*p, p)), download(dev, one)) {
					t.Errorf("candidate %d alone differs from it among others", i)
				}
			}
			px := make([]byte, 3*m.Info().FrameBytes())
			for i := range px {
				px[i] = byte(r.IntN(256))
			}
			frames, third := dev.AllocBytes(len(px)), dev.AllocBytes(len(px)/3)
			dev.UploadBytes(frames, px)
			dev.UploadBytes(third, px[2*len(px)/3:])
			z := device.NewMat(dev, 3*p, d)
			m.Encode(z, frames, 3)
			m.Encode(one, third, 1)
			if !slices.Equal(download(dev, z.RowRange(2*p, p)), download(dev, one)) {
				t.Error("frame 2 alone differs from it among others")
			}
		})
	}
}

// Rollout is compared with a plain implementation that computes every window from
// scratch, sequence by sequence, with the complete transformer. In float64 they
// differ by rounding: 1e-12.
func TestRolloutAgainstWholeWindows(t *testing.T) {
	dev := ref.New()
	m, r := newModel(t, dev, tiny()), rand.New(rand.NewPCG(8, 9))
	const n, h = 3, 5
	patches, d, a := m.Info().Patches, m.Info().Dim, m.Cfg.ActionWidth()
	start, cand := upload(dev, r, patches, d), upload(dev, r, n, h*a)
	fast := device.NewMat(dev, n*patches, d)
	m.Rollout(fast, start, cand, h)
	p := &nn.Pass{Dev: dev, Arena: device.NewArena(dev)}
	latents := make([][]float64, 0, h+1) // for one candidate
	for i := range n {
		latents = append(latents[:0], download(dev, start))
		for t := range h {
			w := min(t+1, m.Cfg.History)
			x := device.NewMat(dev, w*patches, d)
			dev.Upload64(x, slices.Concat(latents[t+1-w:]...))
			actions := device.NewMat(dev, w, a)
			for k := range w {
				dev.Copy(actions.RowRange(k, 1), cand.RowRange(i, 1).Columns((t+1-w+k)*a, a))
			}
			y := m.predictor.Forward(p, m.tokens(p, x, []device.Mat{actions}), nn.Seqs{Count: 1, Len: w * patches})
			latents = append(latents, download(dev, dense(p, y.RowRange((w-1)*patches, patches).Columns(0, d))))
		}
		if worst := furthest(download(dev, fast.RowRange(i*patches, patches)), latents[h]); worst > 1e-12 {
			t.Errorf("candidate %d is off by %g", i, worst)
		}
	}
}

func furthest(a, b []float64) (worst float64) {
	for i := range a {
		worst = max(worst, a[i]-b[i], b[i]-a[i])
	}
	return worst
}

// The expected numbers are counted by hand at the published size. A token takes
// 4*394*1024 multiply-adds in its projections, 2*394*2048 in its MLP and 2*1024 for
// each token that it attends to, in each of 6 layers. A step on a clip has three
// frames of 256 tokens, and the backward pass takes twice the forward pass. The backbone
// encodes four: 256 patches of 3*14*14 numbers, and 257 tokens in 12 layers.
func TestFLOP(t *testing.T) {
	c := paper()
	frame := func(keys float64) float64 { return 2 * 256 * (4*394*1024 + 2*394*2048 + 2*1024*keys) }
	encoder := 4. * 2 * (256*588*384 + 12*257*(4*384*384+2*257*384+2*384*1536))
	if got := c.EncodeFLOP(4); got != encoder {
		t.Errorf("encoding a clip: %.6g FLOP, want %.6g", got, encoder)
	}
	step := 3*6*(frame(256)+frame(512)+frame(768)) + encoder
	if got := c.StepFLOP(1, 0); got != step || c.StepFLOP(32, 0) != 32*step {
		t.Errorf("a step: %.6g FLOP, want %.6g", got, step)
	}
	// One block: one frame through 6 layers.
	if got := c.PlanFLOP(1, 1); got != 6*frame(256) {
		t.Errorf("a plan of a block: %.6g FLOP, want %.6g", got, 6*frame(256))
	}
	by := func(h int) float64 { return c.PlanFLOP(1, h) - c.PlanFLOP(1, h-1) }
	if !(by(2) < by(3) && by(3) < by(4)) || by(4) != by(5) {
		t.Errorf("windows that slide cost more: %g, %g, %g, %g", by(2), by(3), by(4), by(5))
	}
	// The two sliding steps compute only keys and values in the last layer of 2 of 3
	// frames. In total 9 frames are computed instead of the 12 of stable-worldmodel.
	if got, whole := c.PlanFLOP(1, 5), 6*(3*(frame(256)+frame(512)+frame(768))+frame(256)+frame(512)+frame(256)); !(got < .8*whole) {
		t.Errorf("a rollout: %.4g FLOP, without shortcuts %.4g", got, whole)
	}
}

// A random backbone is the same for every seed, but a predictor is not.
func TestRandomBackbone(t *testing.T) {
	dev := ref.New()
	a := newModel(t, dev, tiny())
	declared, err := tiny().Declare()
	if err != nil {
		t.Fatal(err)
	}
	b := declared.(*Model)
	b.Alloc(dev, true)
	b.Init(8)
	if !slices.Equal(download(dev, a.frozen.Value), download(dev, b.frozen.Value)) || slices.Equal(download(dev, a.Set.Value), download(dev, b.Set.Value)) {
		t.Error("seeds share the wrong half")
	}
	if b.frozen.Grad.IsSet() || b.Params().Len() != len(download(dev, b.Set.Grad)) {
		t.Error("a frozen backbone has gradients")
	}
	other := tiny()
	other.Backbone.MLP++
	if c := other.Random(); c.SHA256 == a.Cfg.SHA256 || len(c.SHA256) != 64 {
		t.Errorf("geometries share the hash %s", c.SHA256)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"backbone":        func(c *Config) { c.Backbone.Width = 0 },
		"history":         func(c *Config) { c.History = c.PositionFrames + 1 },
		"predictor_mlp":   func(c *Config) { c.PredictorMLP = -1 },
		"proprio":         func(c *Config) { c.Proprio = 3 },
		"dropout":         func(c *Config) { c.Dropout = 1 },
		"predictor_depth": func(c *Config) { c.PredictorDepth = 1 << 30 },
	} {
		c := tiny()
		change(&c)
		_, err := c.Declare()
		refused(t, name, err, name)
	}
}

func Example() {
	declared, err := paper().Declare()
	if err != nil {
		fmt.Println(err)
		return
	}
	m := declared.(*Model)
	encoder, latents, predictor := m.Config().Describe()
	fmt.Println(m.Params().Len(), "trainable parameters")
	fmt.Println(encoder)
	fmt.Println(latents)
	fmt.Println(predictor)
	// Output:
	// 19796714 trainable parameters
	// DINOv2, frozen: 224 px, patch 14, 12 layers of 384, 6 heads
	// 256 patches of 384
	// 3 frames of tokens of 394 (action 10), positions for 4, 6 blocks, 16 heads of 64
}
