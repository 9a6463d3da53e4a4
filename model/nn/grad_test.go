package nn

import (
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// layer is the subject of a gradient check: a forward pass from inputs to an output,
// and a backward pass from the output's gradient to those of the inputs.
type layer struct {
	set      *Set
	inputs   []device.Mat
	forward  func(p *Pass) device.Mat
	backward func(p *Pass, dy device.Mat) []device.Mat // gradient of each input, or none
}

func stream(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func random(dev device.Device, r *rand.Rand, rows, cols int) device.Mat {
	m := device.NewMat(dev, rows, cols)
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	dev.Upload64(m, v)
	return m
}

// ready allocates a set and fills it with random values, because zero biases or a zero
// AdaLN would hide errors.
func ready(dev device.Device, s *Set, r *rand.Rand) {
	s.Alloc(dev, true)
	v := make([]float64, s.Len())
	for i := range v {
		v[i] = 0.5 * r.NormFloat64()
	}
	dev.Upload64(s.Value, v)
	for _, b := range s.Buffers {
		dev.Fill(b.Value, 0.5)
	}
}

func values(dev device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	dev.Download64(v, m)
	return v
}

// checkGradients compares the backward pass with central differences of the
// scalar sum(weight*output), in float64.
func checkGradients(t *testing.T, dev device.Device, l layer) {
	t.Helper()
	r := stream(99)
	arena := device.NewArena(dev)
	run := func() device.Mat {
		arena.Reset()
		return l.forward(&Pass{Dev: dev, Arena: arena, Train: true, DropKey: 5})
	}
	shape := run()
	weight := random(dev, r, shape.Rows, shape.Cols)
	w := values(dev, weight)
	loss := func() (sum float64) {
		for i, v := range values(dev, run()) {
			sum += w[i] * v
		}
		return sum
	}
	run()
	p := &Pass{Dev: dev, Arena: arena, Train: true, DropKey: 5}
	dy := arena.Mat(shape.Rows, shape.Cols)
	dev.Copy(dy, weight)
	dins := l.backward(p, dy)
	got := [][]float64{values(dev, l.set.Grad)}
	at := []device.Mat{l.set.Value}
	for i, d := range dins {
		got, at = append(got, values(dev, d)), append(at, l.inputs[i])
	}
	for i, m := range at {
		compareDifferences(t, dev, m, got[i], loss, r)
	}
}

// compareDifferences checks up to 60 entries of a gradient.
func compareDifferences(t *testing.T, dev device.Device, m device.Mat, got []float64, loss func() float64, r *rand.Rand) {
	t.Helper()
	const h = 1e-5
	v := values(dev, m)
	for range 60 {
		i := r.IntN(len(v))
		old := v[i]
		v[i] = old + h
		dev.Upload64(m, v)
		up := loss()
		v[i] = old - h
		dev.Upload64(m, v)
		want := (up - loss()) / (2 * h)
		v[i] = old
		dev.Upload64(m, v)
		if math.Abs(got[i]-want) > 2e-6*(1+math.Abs(want)) {
			t.Errorf("%s entry %d: gradient %.9g, differences %.9g", m, i, got[i], want)
		}
	}
}

func TestGradients(t *testing.T) {
	dev := ref.New()

	normal := Inits{Normal(1), Normal(1)}
	tests := map[string]func(s *Set, r *rand.Rand) layer{
		"Linear": func(s *Set, r *rand.Rand) layer {
			l, x := NewLinear(s, "l", 5, 3, normal), random(dev, r, 4, 5)
			return layer{s, []device.Mat{x}, func(p *Pass) device.Mat { return l.Forward(p, x) },
				func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy, x)} }}
		},
		"LinearWithoutBias": func(s *Set, r *rand.Rand) layer {
			l, x := NewLinear(s, "l", 5, 3, Inits{Weight: Normal(1)}), random(dev, r, 4, 5)
			return layer{s, []device.Mat{x}, func(p *Pass) device.Mat { return l.Forward(p, x) },
				func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy, x)} }}
		},
		"MLP GELU":    func(s *Set, r *rand.Rand) layer { return mlpLayer(dev, s, r, device.GELU, 0) },
		"MLP SiLU":    func(s *Set, r *rand.Rand) layer { return mlpLayer(dev, s, r, device.SiLU, 0) },
		"MLP ReLU":    func(s *Set, r *rand.Rand) layer { return mlpLayer(dev, s, r, device.ReLU, 0) },
		"MLP dropout": func(s *Set, r *rand.Rand) layer { return mlpLayer(dev, s, r, device.GELU, 0.4) },
		"LayerNorm": func(s *Set, r *rand.Rand) layer {
			l, x := NewLayerNorm(s, "n", 6, innerEps), random(dev, r, 4, 6)
			return layer{s, []device.Mat{x}, func(p *Pass) device.Mat { return l.Forward(p, x) },
				func(p *Pass, dy device.Mat) []device.Mat {
					dx := p.Mat(dy.Rows, dy.Cols)
					l.BackwardInto(p, dx, dy, false)
					return []device.Mat{dx}
				}}
		},
		"modulated norms": func(s *Set, r *rand.Rand) layer {
			h := branch{outer: &LayerNorm{Eps: adaEps}, inner: NewLayerNorm(s, "n", 6, innerEps)}
			x, shift, scale := random(dev, r, 4, 6), random(dev, r, 4, 6), random(dev, r, 4, 6)
			return layer{s, []device.Mat{x, shift, scale}, func(p *Pass) device.Mat { return h.modulate(p, x, shift, scale) },
				func(p *Pass, dy device.Mat) []device.Mat {
					dx, dshift, dscale := p.Zero(4, 6), p.Mat(4, 6), p.Mat(4, 6)
					h.modulateGrad(p, dx, dshift, dscale, dy, scale)
					return []device.Mat{dx, dshift, dscale}
				}}
		},
		"Projector":         func(s *Set, r *rand.Rand) layer { return projectorLayer(dev, s, r, 7) },
		"Projector, linear": func(s *Set, r *rand.Rand) layer { return projectorLayer(dev, s, r, 0) },
		"Embedder": func(s *Set, r *rand.Rand) layer {
			l, x := NewEmbedder(s, "a", EmbedderConfig{In: 4, Smoothed: 3, Hidden: 8, Out: 2}), random(dev, r, 6, 4)
			return layer{s, nil, func(p *Pass) device.Mat { return l.Forward(p, x) },
				func(p *Pass, dy device.Mat) []device.Mat { l.Backward(p, dy); return nil }}
		},
		"Attention":                func(s *Set, r *rand.Rand) layer { return attentionLayer(dev, s, r, 0, All, 0) },
		"Attention causal":         func(s *Set, r *rand.Rand) layer { return attentionLayer(dev, s, r, 1, All, 0) },
		"Attention causal dropout": func(s *Set, r *rand.Rand) layer { return attentionLayer(dev, s, r, 1, All, 0.3) },
		"Attention first token":    func(s *Set, r *rand.Rand) layer { return attentionLayer(dev, s, r, 0, 0, 0) },
		"ViT":                      func(s *Set, r *rand.Rand) layer { return vitLayer(dev, s) },
		"Predictor":                func(s *Set, r *rand.Rand) layer { return predictorLayer(dev, s, r, 3, All, 0) },
		"Predictor dropout":        func(s *Set, r *rand.Rand) layer { return predictorLayer(dev, s, r, 3, All, 0.2) },
		"Predictor short window":   func(s *Set, r *rand.Rand) layer { return predictorLayer(dev, s, r, 2, All, 0) },
		"Predictor last token":     func(s *Set, r *rand.Rand) layer { return predictorLayer(dev, s, r, 3, 2, 0) },
		"Predictor without to_out": func(s *Set, r *rand.Rand) layer {
			c := PredictorConfig{Frames: 3, Dim: 4, Out: 3, Depth: 2, Heads: 1, HeadDim: 4, MLP: 5, Dropout: 0.2}
			return predictorOf(dev, s, r, c, 3, All)
		},
		"Causal":                     func(s *Set, r *rand.Rand) layer { return causalLayer(dev, s, r, 3, 0) },
		"Causal dropout":             func(s *Set, r *rand.Rand) layer { return causalLayer(dev, s, r, 3, 0.2) },
		"Causal short window":        func(s *Set, r *rand.Rand) layer { return causalLayer(dev, s, r, 2, 0) },
		"GoalPredictor":              func(s *Set, r *rand.Rand) layer { return goalOf(dev, s, r, 4, 3) },
		"GoalPredictor odd":          func(s *Set, r *rand.Rand) layer { return goalOf(dev, s, r, 3, 3) },
		"GoalPredictor short window": func(s *Set, r *rand.Rand) layer { return goalOf(dev, s, r, 4, 2) },
		"Inverse":                    func(s *Set, r *rand.Rand) layer { return inverseOf(dev, s, r, 0) },
		"Inverse dropout":            func(s *Set, r *rand.Rand) layer { return inverseOf(dev, s, r, 0.3) },
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			var s Set
			r := stream(1) // one per case, since the iteration order of maps varies
			l := build(&s, r)
			ready(dev, &s, r)
			checkGradients(t, dev, l)
		})
	}
}

func projectorLayer(dev device.Device, s *Set, r *rand.Rand, hidden int) layer {
	l, x := NewProjector(s, "q", 5, hidden, 3), random(dev, r, 9, 5)
	return layer{s, []device.Mat{x}, func(p *Pass) device.Mat { return l.Forward(p, x) },
		func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy)} }}
}

func mlpLayer(dev device.Device, s *Set, r *rand.Rand, act device.Act, drop float64) layer {
	in := Inits{Normal(1), Normal(1)}
	l := &MLP{In: NewLinear(s, "i", 4, 6, in), Out: NewLinear(s, "o", 6, 3, in), Act: act, Drop: drop}
	x := random(dev, r, 5, 4)
	return layer{s, []device.Mat{x}, func(p *Pass) device.Mat { return l.Forward(p, x) },
		func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy)} }}
}

func attentionLayer(dev device.Device, s *Set, r *rand.Rand, block, token int, drop float64) layer {
	in := Inits{Normal(1), Normal(1)}
	l := &Attention{QKV: NewLinear(s, "qkv", 4, 12, in), Out: NewLinear(s, "o", 4, 4, in), Heads: 2, Dim: 2, Block: block, Drop: drop, OutDrop: drop}
	seqs := Seqs{Count: 3, Len: 4}
	x := random(dev, r, 12, 4)
	rows := 12
	if token != All {
		rows = 3
	}
	return layer{s, []device.Mat{x},
		func(p *Pass) device.Mat {
			y := p.Mat(rows, 4)
			l.Into(p, y, x, seqs, token, device.Epilogue{})
			return y
		},
		func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy)} }}
}

func vitLayer(dev device.Device, s *Set) layer {
	v := NewViT(s, "encoder", ViTConfig{ImageSize: 4, Patch: 2, Width: 4, Layers: 2, Heads: 2, MLP: 6, Kind: PlainViT})
	px := make([]byte, 3*4*4*3)
	r := stream(4)
	for i := range px {
		px[i] = byte(r.IntN(256))
	}
	frames := dev.AllocBytes(len(px))
	dev.UploadBytes(frames, px)
	return layer{s, nil, func(p *Pass) device.Mat { return v.Forward(p, v.Patches(p, frames, nil, 0, 3)) },
		func(p *Pass, dy device.Mat) []device.Mat { v.Backward(p, dy); return nil }}
}

func causalLayer(dev device.Device, s *Set, r *rand.Rand, frames int, drop float64) layer {
	c := CausalConfig{Frames: 3, Patches: 2, Dim: 4, Depth: 2, Heads: 2, HeadDim: 3, MLP: 5, Dropout: drop}
	l, seqs := NewCausal(s, "predictor", c), Seqs{Count: 3, Len: 2 * frames}
	x := random(dev, r, seqs.Count*seqs.Len, 4)
	return layer{s, []device.Mat{x},
		func(p *Pass) device.Mat {
			copied := p.Mat(x.Rows, x.Cols)
			dev.Copy(copied, x)
			return l.Forward(p, copied, seqs)
		},
		func(p *Pass, dy device.Mat) []device.Mat { return []device.Mat{l.Backward(p, dy)} }}
}

func inverseOf(dev device.Device, s *Set, r *rand.Rand, drop float64) layer {
	v := NewInverse(s, "", InverseConfig{Dim: 3, Width: 5, Layers: 2, Out: 2, Horizon: 4, Dropout: drop})
	z, goal, left := random(dev, r, 4, 3), random(dev, r, 4, 3), device.NewMat(dev, 4, 1)
	dev.Upload64(left, []float64{1, 4, 2, 4})
	return layer{s, nil, func(p *Pass) device.Mat { return v.Forward(p, z, goal, left) },
		func(p *Pass, dy device.Mat) []device.Mat { v.Backward(p, dy); return nil }}
}

func goalOf(dev device.Device, s *Set, r *rand.Rand, depth, frames int) layer {
	v := NewGoalPredictor(s, "", GoalConfig{Frames: 3, Dim: 4, Depth: depth, Heads: 2, HeadDim: 3, MLP: 5, Out: 2})
	z, goal := random(dev, r, 3*frames, 4), random(dev, r, 3, 4)
	return layer{s, nil, func(p *Pass) device.Mat { return v.Forward(p, z, goal, device.Mat{}) },
		func(p *Pass, dy device.Mat) []device.Mat { v.Backward(p, dy); return nil }}
}

func predictorLayer(dev device.Device, s *Set, r *rand.Rand, length, token int, drop float64) layer {
	c := PredictorConfig{Frames: 3, Dim: 4, Depth: 2, Heads: 2, HeadDim: 3, MLP: 5, Dropout: drop}
	return predictorOf(dev, s, r, c, length, token)
}

func predictorOf(dev device.Device, s *Set, r *rand.Rand, config PredictorConfig, length, token int) layer {
	l := NewPredictor(s, "predictor", config)
	seqs := Seqs{Count: 3, Len: length}
	x, c := random(dev, r, 3*length, 4), random(dev, r, 3*length, 4)
	return layer{s, []device.Mat{x, c},
		func(p *Pass) device.Mat {
			copied := p.Mat(x.Rows, x.Cols)
			dev.Copy(copied, x)
			return l.Forward(p, copied, c, seqs, token)
		},
		func(p *Pass, dy device.Mat) []device.Mat {
			dx, dc := l.Backward(p, dy)
			return []device.Mat{dx, dc}
		}}
}
