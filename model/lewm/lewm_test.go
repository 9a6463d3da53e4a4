package lewm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

func tiny() Config {
	return Config{ImageSize: 8, Patch: 4, Width: 8, Layers: 2, Heads: 2, MLP: 12, Dim: 6, Projector: 10, PredictorDepth: 2,
		PredictorHeads: 2, PredictorHeadDim: 4, PredictorMLP: 9, Dropout: 0.1, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
}

// linear is tiny without hidden layers in its projectors.
func linear() Config {
	c := tiny()
	c.Projector = 0
	return c
}

// eachProjector runs a test for both kinds of projectors.
func eachProjector(t *testing.T, test func(t *testing.T, c Config)) {
	t.Run("MLP", func(t *testing.T) { test(t, tiny()) })
	t.Run("linear", func(t *testing.T) { test(t, linear()) })
}

func paper() Config {
	return Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 6,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
}

// The expected counts are those of docs/sources.md#parameter-counts.
func TestParameterCounts(t *testing.T) {
	cube, small, linear := paper(), paper(), paper()
	linear.Projector = 0 // two of 192 x 192 weights, and 192 biases, scales and shifts
	cube.ActionDim = 5
	small.ImageSize, small.Patch, small.Layers, small.PredictorDepth = 64, 8, 4, 4
	for name, c := range map[string]struct {
		cfg  Config
		want float64
		tol  float64
	}{"paper": {paper(), 18034478, 0}, "cube": {cube, 18034628, 0}, "small": {small, 10.77e6, 0.005e6},
		"linear": {linear, 18034478 - 2*792768 + 2*(192*192+3*192), 0}} {
		m, err := c.cfg.Declare()
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(m.Params().Len()); math.Abs(got-c.want) > c.tol {
			t.Errorf("%s: %.0f parameters, want %.0f", name, got, c.want)
		}
	}
}

// The state dict of the published model has 303 tensors of 18,042,672 values, with
// the names and shapes of docs/sources.md#tensor-names for all i and j.
func TestTensorNames(t *testing.T) {
	m, err := paper().Declare()
	if err != nil {
		t.Fatal(err)
	}
	total, shapes := 2, map[string][]int{} // 2: the counters of the BatchNorms
	for _, p := range m.Saved() {
		shapes[p.Name] = p.Shape
		total += p.Len()
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		if n != p.Len() {
			t.Errorf("%s: shape %v holds %d of %d numbers", p.Name, p.Shape, n, p.Len())
		}
	}
	if len(shapes)+2 != 303 || total != 18042672 {
		t.Errorf("%d tensors, %d values", len(shapes)+2, total)
	}
	for name, want := range map[string][]int{
		"encoder.embeddings.cls_token":                              {1, 1, 192},
		"encoder.embeddings.position_embeddings":                    {1, 257, 192},
		"encoder.embeddings.patch_embeddings.projection.weight":     {192, 3, 14, 14},
		"encoder.encoder.layer.11.attention.attention.query.weight": {192, 192},
		"encoder.encoder.layer.0.attention.attention.value.bias":    {192},
		"encoder.encoder.layer.0.attention.output.dense.weight":     {192, 192},
		"encoder.encoder.layer.0.intermediate.dense.weight":         {768, 192},
		"encoder.encoder.layer.0.output.dense.weight":               {192, 768},
		"encoder.encoder.layer.0.layernorm_before.weight":           {192},
		"encoder.encoder.layer.0.layernorm_after.bias":              {192},
		"encoder.layernorm.weight":                                  {192},
		"predictor.pos_embedding":                                   {1, 3, 192},
		"predictor.transformer.norm.bias":                           {192},
		"predictor.transformer.layers.5.attn.norm.weight":           {192},
		"predictor.transformer.layers.5.attn.to_qkv.weight":         {3072, 192},
		"predictor.transformer.layers.5.attn.to_out.0.weight":       {192, 1024},
		"predictor.transformer.layers.5.mlp.net.0.bias":             {192},
		"predictor.transformer.layers.5.mlp.net.1.weight":           {2048, 192},
		"predictor.transformer.layers.5.mlp.net.4.weight":           {192, 2048},
		"predictor.transformer.layers.5.adaLN_modulation.1.weight":  {1152, 192},
		"action_encoder.patch_embed.weight":                         {10, 10, 1},
		"action_encoder.embed.0.weight":                             {768, 10},
		"action_encoder.embed.2.bias":                               {192},
		"projector.net.0.weight":                                    {2048, 192},
		"pred_proj.net.1.running_var":                               {2048},
		"pred_proj.net.3.weight":                                    {192, 2048},
	} {
		if got := shapes[name]; !equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// stirred returns a tiny model with random values everywhere, including the buffers.
func stirred(t *testing.T) (device.Device, *Model) {
	t.Helper()
	dev := ref.New()
	return dev, stirredOn(t, dev, tiny())
}

func stirredOn(t *testing.T, dev device.Device, c Config) *Model {
	t.Helper()
	m, err := New(dev, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]float64, m.Set.Len())
	for i := range v {
		v[i] = 0.3 * r.NormFloat64()
	}
	dev.Upload64(m.Set.Value, v)
	for _, b := range m.Set.Buffers {
		v := make([]float64, b.Len())
		for i := range v {
			v[i] = 0.5 + r.Float64()
		}
		dev.Upload64(b.Value, v)
	}
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

func download(dev device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	dev.Download64(v, m)
	return v
}

// The untrained predictor is the identity up to position and norm
// (docs/sources.md#predictor), and the initial values of a tensor do not depend on
// the other tensors.
func TestInit(t *testing.T) {
	dev := ref.New()
	a, err := New(dev, tiny(), 7)
	if err != nil {
		t.Fatal(err)
	}
	deeper := tiny()
	deeper.Layers++
	b, err := New(dev, deeper, 7)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{}
	for _, p := range b.Set.Params {
		values[p.Name] = download(dev, p.Value)
	}
	for _, p := range a.Set.Params {
		for i, v := range download(dev, p.Value) {
			if v != values[p.Name][i] {
				t.Fatalf("%s changed when a layer was added", p.Name)
			}
		}
		if strings.Contains(p.Name, "adaLN") {
			for _, v := range download(dev, p.Value) {
				if v != 0 {
					t.Errorf("%s is not zero", p.Name)
				}
			}
		}
	}
	// PyTorch's weights of a linear layer are bounded by 1/sqrt(fan in), here 8.
	for _, v := range values["projector.net.0.weight"] {
		if math.Abs(v) > 1/math.Sqrt(8) {
			t.Errorf("projector.net.0.weight has %g", v)
		}
	}
}

// Rollout equals the plain loop of docs/sources.md#rollout over windows of 1, 2, 3,
// 3, 3 latents, with positions from 0 in each and all tokens computed.
func TestRollout(t *testing.T) { eachProjector(t, checkRollout) }

func checkRollout(t *testing.T, c Config) {
	dev := ref.New()
	m := stirredOn(t, dev, c)
	r := rand.New(rand.NewPCG(3, 4))
	const episodes, each, h = 2, 3, 5
	start, cand := upload(dev, r, episodes, 6), upload(dev, r, episodes*each, h*10)
	after := map[int]device.Mat{} // latents by number of blocks
	for t := 1; t <= h; t++ {
		after[t] = device.NewMat(dev, episodes*each, 6)
		m.Rollout(after[t], start, cand.Columns(0, t*10), t)
	}

	p := &nn.Pass{Dev: dev, Arena: device.NewArena(dev)}
	for i := range episodes * each {
		z := device.NewMat(dev, h+1, 6)
		dev.Copy(z.RowRange(0, 1), start.RowRange(i/each, 1))
		act := m.embedder.Forward(p, cand.RowRange(i, 1).Reshape(h, 10))
		for step := range h {
			lo := max(0, step+1-3)
			w := step + 1 - lo
			x := p.Mat(w, 6)
			dev.Copy(x, z.RowRange(lo, w))
			rows := m.predProj.Forward(p, m.predictor.Forward(p, x, act.RowRange(lo, w), nn.Seqs{Count: 1, Len: w}, nn.All))
			dev.Copy(z.RowRange(step+1, 1), rows.RowRange(w-1, 1))
		}
		want := download(dev, z)
		for blocks, z := range after {
			same(t, fmt.Sprintf("rollout of %d blocks", blocks), download(dev, z.RowRange(i, 1)), want[blocks*6:(blocks+1)*6])
		}
	}
}

func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Fatalf("%s number %d: %.15g, want %.15g", what, i, got[i], want[i])
		}
	}
}

// On all devices, the result of a row does not depend on the other rows that are
// rolled out or encoded with it, nor on the row's position in a chunk.
func TestRowsAreAlone(t *testing.T) {
	devices := []device.Device{ref.New()}
	for _, precision := range []device.Precision{device.FP32, device.BF16} {
		dev, err := cpu.New(cpu.Options{Precision: precision, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		devices = append(devices, dev)
	}
	for _, dev := range devices {
		t.Run(dev.Kind().String(), func(t *testing.T) {
			eachProjector(t, func(t *testing.T, c Config) { rowsAreAlone(t, dev, c) })
		})
	}
}

func rowsAreAlone(t *testing.T, dev device.Device, c Config) {
	m := stirredOn(t, dev, c)
	r := rand.New(rand.NewPCG(5, 6))
	rows := dev.Traits().RolloutRows
	n := rows + 3                                                // more than a chunk
	start, cand := upload(dev, r, 1, 6), upload(dev, r, n, 5*10) // five blocks: the window grows, then slides
	all, one := device.NewMat(dev, n, 6), device.NewMat(dev, 1, 6)
	m.Rollout(all, start, cand, 5)
	for _, i := range []int{0, rows - 1, rows, n - 1} {
		m.Rollout(one, start, cand.RowRange(i, 1), 5)
		a, b := download(dev, all.RowRange(i, 1)), download(dev, one)
		for d := range a {
			if a[d] != b[d] {
				t.Fatalf("candidate %d alone: %v, in the batch %v", i, b, a)
			}
		}
	}
	px := make([]byte, 3*8*8*3)
	for i := range px {
		px[i] = byte(r.IntN(256))
	}
	frames, third := dev.AllocBytes(len(px)), dev.AllocBytes(len(px)/3)
	dev.UploadBytes(frames, px)
	dev.UploadBytes(third, px[2*len(px)/3:])
	z := device.NewMat(dev, 3, 6)
	m.Encode(z, frames, 3)
	m.Encode(one, third, 1)
	for d, v := range download(dev, one) {
		if want := download(dev, z.RowRange(2, 1))[d]; v != want {
			t.Fatalf("frame 2 alone: latent %d is %g, in the batch %g", d, v, want)
		}
	}
}

// Gradients of the entire model, through both paths to the latents, are compared with
// central differences of scalars such as 0.5*sum(w*(pred-target)^2).
func TestModelGradient(t *testing.T) { eachProjector(t, checkModelGradient) }

func checkModelGradient(t *testing.T, c Config) {
	dev := ref.New()
	c.Dropout = 0
	declared, err := c.Declare()
	if err != nil {
		t.Fatal(err)
	}
	m := declared.(*Model)
	m.Alloc(dev, true)
	m.Init(1)
	r := rand.New(rand.NewPCG(8, 9))
	v := download(dev, m.Set.Value)
	for i := range v {
		v[i] += 0.2 * r.NormFloat64()
	}
	dev.Upload64(m.Set.Value, v)
	px := make([]byte, 3*4*8*8*3)
	for i := range px {
		px[i] = byte(r.IntN(256))
	}
	b := model.Batch{B: 3, Pixels: dev.AllocBytes(len(px)), Actions: upload(dev, r, 12, 10)}
	dev.UploadBytes(b.Pixels, px)
	arena, loss := device.NewArena(dev), device.NewMat(dev, 1, 1)
	forward := func() (*nn.Pass, model.Output) {
		arena.Reset()
		p := &nn.Pass{Dev: dev, Arena: arena, Train: true}
		return p, m.Forward(p, b)
	}
	value := func() float64 {
		_, out := forward()
		dev.MSE(loss, device.Mat{}, device.Mat{}, out.Pred, out.Target, 0)
		return download(dev, loss)[0]
	}
	p, out := forward()
	dpred, dtarget, demb := p.Zero(9, 6), p.Zero(9, 6), p.Zero(12, 6)
	dev.MSE(loss, dpred, dtarget, out.Pred, out.Target, 1)
	m.PredictorGrad(p, demb, dpred, dtarget)
	m.EncoderGrad(p, demb)
	got := download(dev, m.Set.Grad)
	for range 80 {
		i, old, h := r.IntN(len(v)), 0.0, 1e-5
		old = v[i]
		v[i] = old + h
		dev.Upload64(m.Set.Value, v)
		up := value()
		v[i] = old - h
		dev.Upload64(m.Set.Value, v)
		want := (up - value()) / (2 * h)
		v[i] = old
		if math.Abs(got[i]-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("parameter %d: gradient %g, differences %g", i, got[i], want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"patch": func(c *Config) { c.Patch = 9 }, "heads": func(c *Config) { c.Heads = 3 }, "dropout": func(c *Config) { c.Dropout = 1 },
		"layers": func(c *Config) { c.Layers = 5000 }, "width": func(c *Config) { c.Width = 1 << 20 },
		"history": func(c *Config) { c.History = 0 }, "projector": func(c *Config) { c.Projector = -1 }, "action_scale": func(c *Config) { c.ActionScale = -1 },
	} {
		c := tiny()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
