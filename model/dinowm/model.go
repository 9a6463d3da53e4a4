package dinowm

import (
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

// Model is a model of the family: the frozen backbone, the embedders of a token's
// other parts, and the predictor. Its tensors have the names of the reference
// implementation (docs/sources.md#dino-wm-names).
type Model struct {
	model.Base[Config]
	// frozen holds the backbone's parameters. They are separate from Base.Set, since
	// they have neither gradients nor moments.
	frozen   nn.Set
	backbone *dinov2.Encoder
	// extras embed the parts of a token that follow the features: proprioception if
	// the geometry has it, then the action.
	extras    []*nn.Linear
	predictor *nn.Causal
	inputs    []device.Mat // inputs of extras, one row per token, saved for their gradients
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
	m.MarkDeclared()
	return m, nil
}

// Alloc implements model.Trainable. The backbone never has gradients.
func (m *Model) Alloc(dev device.Device, train bool) {
	m.Base.Alloc(dev, train)
	m.frozen.Alloc(dev, false)
}

// Init implements model.Trainable. It sets the backbone to Config.Weights, or to
// random values that do not depend on the seed.
func (m *Model) Init(seed int64) {
	m.Base.Init(seed)
	if m.Cfg.Weights != nil {
		m.Cfg.Weights.Set(m.Dev, m.backbone)
		return
	}
	m.frozen.Init(m.Dev, randomStream)
	m.backbone.Prepare(m.Dev)
}

// Free releases the model's memory.
func (m *Model) Free() {
	m.backbone.Free(m.Dev)
	m.frozen.Free(m.Dev)
	m.Base.Free()
}

// Forward implements model.Trainable. It predicts frames 1 to History of each clip
// from the frames before them, on features that the backbone computed before.
func (m *Model) Forward(p *nn.Pass, b model.Batch) model.Output {
	return m.forward(p, b.Features, b.Actions)
}

// forward is Forward for features, (B*T*P) x State, and the inputs of extras, which
// have B*T rows each.
func (m *Model) forward(p *nn.Pass, features device.Mat, inputs ...device.Mat) model.Output {
	z := m.tokens(p, features, inputs)
	s := nn.Seqs{Count: z.Rows / m.tokensOf(m.Cfg.History+1), Len: m.tokensOf(m.Cfg.History)}
	pred := m.predictor.Forward(p, m.gather(p, z, 0), s)
	state := m.Cfg.State()
	return model.Output{Emb: features, Pred: pred.Columns(0, state), Target: m.gather(p, z.Columns(0, state), 1)}
}

// tokensOf returns the number of tokens of the given number of frames.
func (m *Model) tokensOf(frames int) int { return frames * m.Cfg.Backbone.Patches() }

// tokens returns the tokens of all frames, (B*T*P) x Token: the features of a patch,
// followed by the embedded extras of its frame.
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

// gather copies the tokens of History consecutive frames of every clip, beginning
// with frame `from`.
func (m *Model) gather(p *nn.Pass, src device.Mat, from int) device.Mat {
	h, t, first := m.tokensOf(m.Cfg.History), m.tokensOf(m.Cfg.History+1), m.tokensOf(from)
	dst := p.Mat(src.Rows/t*h, src.Cols)
	p.Dev.CopyBlocks(dst, h, src.RowRange(first, src.Rows-first), t, h, false)
	return dst
}

// PredictorGrad implements model.Trainable: it adds the gradients of predictor and
// embedders. It ignores demb and dtarget, because features and targets are constants
// (docs/sources.md#dino-wm-loss).
func (m *Model) PredictorGrad(p *nn.Pass, _, dpred, _ device.Mat) {
	// What the predictor returns in the action's columns is not part of the loss:
	// gradient 0.
	dy := p.Zero(dpred.Rows, m.Cfg.Token())
	p.Dev.Copy(dy.Columns(0, dpred.Cols), dpred)
	dx := m.predictor.Backward(p, dy)
	h, t, at := m.tokensOf(m.Cfg.History), m.tokensOf(m.Cfg.History+1), m.Cfg.Backbone.Width
	// dz has the gradient of the embedded columns for all T frames of a clip; that of
	// the last frame, which the predictor does not see, is 0.
	dz := p.Zero(dx.Rows/h*t, m.Cfg.Token()-at)
	p.Dev.CopyBlocks(dz, t, dx.Columns(at, dz.Cols), h, h, false)
	at = 0
	for i, e := range m.extras {
		e.Grad(p, dz.Columns(at, e.Out()), m.inputs[i])
		at += e.Out()
	}
}
