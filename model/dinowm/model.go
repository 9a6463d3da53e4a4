package dinowm

import (
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

// Model is the frozen backbone, the embedders of what tokens hold besides, and the
// predictor, with the tensor names of the reference (docs/sources.md#dino-wm-names).
type Model struct {
	model.Base[Config]
	// frozen is the backbone, which has neither gradients nor moments.
	frozen   nn.Set
	backbone *dinov2.Encoder
	// extras are embedded into tokens behind the features, the action last.
	extras    []*nn.Linear
	predictor *nn.Causal
	inputs    []device.Mat // of the extras, a row a token, which their gradients need
}

// Declare implements model.Geometry.
func (c Config) Declare() (model.Trainable, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{}
	m.Cfg = c
	m.backbone = dinov2.New(&m.frozen, "backbone", c.Backbone)
	m.predictor = nn.NewCausal(&m.Set, "predictor", nn.CausalConfig{Frames: c.PositionFrames, Patches: c.Backbone.Patches(), Dim: c.Token(),
		Depth: c.PredictorDepth, Heads: c.PredictorHeads, HeadDim: c.PredictorHeadDim, MLP: c.PredictorMLP, Dropout: c.Dropout})
	if c.Proprio > 0 {
		m.extras = append(m.extras, nn.NewConv(&m.Set, "extra_encoders.proprio.patch_embed", c.Proprio, c.ProprioEmbedding))
	}
	m.extras = append(m.extras, nn.NewConv(&m.Set, "extra_encoders.action.patch_embed", c.ActionWidth(), c.ActionEmbedding))
	m.Declared()
	return m, nil
}

// Alloc makes the memory of a declared model, with gradients of what learns if train.
func (m *Model) Alloc(dev device.Device, train bool) {
	m.Base.Alloc(dev, train)
	m.frozen.Alloc(dev, false)
}

// Init draws the initial values of Params and sets the backbone's given weights.
func (m *Model) Init(seed int64) {
	m.Base.Init(seed)
	if m.Cfg.Weights != nil {
		m.Cfg.Weights.Set(m.Dev, m.backbone)
		return
	}
	m.frozen.Init(m.Dev, randomStream)
	m.backbone.Prepare(m.Dev)
}

// Free gives the model's memory back.
func (m *Model) Free() {
	m.backbone.Free(m.Dev)
	m.frozen.Free(m.Dev)
	m.Base.Free()
}

// Forward predicts the tokens of the last History frames of each clip from those
// before them. It sees features, which the backbone made before.
func (m *Model) Forward(p *nn.Pass, b model.Batch) model.Output {
	return m.forward(p, b.Features, b.Actions)
}

// forward takes the features of frames, (B*T*P) x D, and the inputs of the extras,
// (B*T) rows each.
func (m *Model) forward(p *nn.Pass, features device.Mat, inputs ...device.Mat) model.Output {
	z := m.tokens(p, features, inputs)
	s := nn.Seqs{Count: z.Rows / m.tokensOf(m.Cfg.History+1), Len: m.tokensOf(m.Cfg.History)}
	pred := m.predictor.Forward(p, m.blocks(p, z, 0), s)
	state := m.Cfg.State()
	return model.Output{Emb: features, Pred: pred.Columns(0, state), Target: m.blocks(p, z.Columns(0, state), 1)}
}

// tokensOf is how many tokens frames have.
func (m *Model) tokensOf(frames int) int { return frames * m.Cfg.Backbone.Patches() }

// tokens joins features and what is embedded, the same for all patches of a frame:
// one row a token, as wide as the predictor.
func (m *Model) tokens(p *nn.Pass, features device.Mat, inputs []device.Mat) device.Mat {
	z := p.Mat(features.Rows, m.Cfg.Token())
	p.Dev.Copy(z.Columns(0, features.Cols), features)
	m.inputs = m.inputs[:0]
	at := features.Cols
	for i, e := range m.extras {
		each := p.Mat(z.Rows, inputs[i].Cols)
		p.Dev.AddRepeated(each, inputs[i], p.Zero(1, each.Cols))
		e.Into(p, z.Columns(at, e.Out()), each, device.Epilogue{})
		m.inputs, at = append(m.inputs, each), at+e.Out()
	}
	return z
}

// blocks gathers the tokens of History frames of every clip, from frame `from` on.
func (m *Model) blocks(p *nn.Pass, src device.Mat, from int) device.Mat {
	h, t, first := m.tokensOf(m.Cfg.History), m.tokensOf(m.Cfg.History+1), m.tokensOf(from)
	dst := p.Mat(src.Rows/t*h, src.Cols)
	p.Dev.CopyBlocks(dst, h, src.RowRange(first, src.Rows-first), t, h, false)
	return dst
}

// PredictorGrad adds the gradients of predictor and embedders. Features and targets are
// constants, so that their gradients are not asked for (docs/sources.md#dino-wm-loss).
func (m *Model) PredictorGrad(p *nn.Pass, _, dpred, _ device.Mat) {
	dy := p.Zero(dpred.Rows, m.Cfg.Token())
	p.Dev.Copy(dy.Columns(0, dpred.Cols), dpred)
	dx := m.predictor.Backward(p, dy)
	h, t, at := m.tokensOf(m.Cfg.History), m.tokensOf(m.Cfg.History+1), m.Cfg.Backbone.Width
	dz := p.Zero(dx.Rows/h*t, m.Cfg.Token()-at)
	p.Dev.CopyBlocks(dz, t, dx.Columns(at, dz.Cols), h, h, false)
	at = 0
	for i, e := range m.extras {
		e.Grad(p, dz.Columns(at, e.Out()), m.inputs[i])
		at += e.Out()
	}
}
