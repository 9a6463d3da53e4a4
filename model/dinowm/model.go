package dinowm

import (
	"math/rand/v2"

	"scalewm/dataset/rng"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

// Model is the frozen backbone, the embedders of what tokens hold besides, and the
// predictor, with the tensor names of the reference (docs/sources.md#dino-wm-names).
type Model struct {
	cfg Config
	dev device.Device
	set nn.Set // what learns
	// frozen is the backbone, which has neither gradients nor moments.
	frozen   nn.Set
	backbone *dinov2.Encoder
	// extras are embedded into tokens behind the features, the action last.
	extras    []*nn.Linear
	predictor *nn.Causal
	params    int // the model's own in set; a method's follow them

	arena  *device.Arena // of Encode and Rollout
	inputs []device.Mat  // of the extras, a row a token, which their gradients need
}

// Declare builds a model without memory.
func Declare(c Config) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: c}
	m.backbone = dinov2.New(&m.frozen, "backbone", c.Backbone)
	m.predictor = nn.NewCausal(&m.set, "predictor", nn.CausalConfig{Frames: c.PositionFrames, Patches: c.Backbone.Patches(), Dim: c.Token(),
		Depth: c.PredictorDepth, Heads: c.PredictorHeads, HeadDim: c.PredictorHeadDim, MLP: c.PredictorMLP, Dropout: c.Dropout})
	if c.Proprio > 0 {
		m.extras = append(m.extras, nn.NewConv(&m.set, "extra_encoders.proprio.patch_embed", c.Proprio, c.ProprioEmbedding))
	}
	m.extras = append(m.extras, nn.NewConv(&m.set, "extra_encoders.action.patch_embed", c.ActionWidth(), c.ActionEmbedding))
	m.params = len(m.set.Params)
	return m, nil
}

// Declare is Declare(c), as package model knows it.
func (c Config) Declare() (model.Trainable, error) {
	m, err := Declare(c)
	if err != nil {
		return nil, err // and not a Trainable that holds a nil *Model
	}
	return m, nil
}

// Alloc makes the memory of a declared model, with gradients of what learns if train.
func (m *Model) Alloc(dev device.Device, train bool) {
	m.dev, m.arena = dev, device.NewArena(dev)
	m.set.Alloc(dev, train)
	m.frozen.Alloc(dev, false)
}

// Init draws the initial values of Params and sets the backbone's given weights.
func (m *Model) Init(seed int64) {
	m.set.Init(m.dev, func(name string) *rand.Rand { return rng.Stream("init", seed, name) })
	if m.cfg.Weights != nil {
		m.cfg.Weights.Set(m.dev, m.backbone)
		return
	}
	m.frozen.Init(m.dev, randomStream)
	m.backbone.Prepare(m.dev)
}

// Params is the set of what learns.
func (m *Model) Params() *nn.Set { return &m.set }

// Config is the model's geometry.
func (m *Model) Config() Config { return m.cfg }

// Free gives the model's memory back.
func (m *Model) Free() {
	m.arena.Free()
	m.backbone.Free(m.dev)
	m.set.Free(m.dev)
	m.frozen.Free(m.dev)
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
	s := nn.Seqs{Count: z.Rows / m.tokensOf(m.cfg.History+1), Len: m.tokensOf(m.cfg.History)}
	pred := m.predictor.Forward(p, m.blocks(p, z, 0), s)
	state := m.cfg.State()
	return model.Output{Emb: features, Pred: pred.Columns(0, state), Target: m.blocks(p, z.Columns(0, state), 1)}
}

// tokensOf is how many tokens frames have.
func (m *Model) tokensOf(frames int) int { return frames * m.cfg.Backbone.Patches() }

// tokens joins features and what is embedded, the same for all patches of a frame:
// one row a token, as wide as the predictor.
func (m *Model) tokens(p *nn.Pass, features device.Mat, inputs []device.Mat) device.Mat {
	z := p.Mat(features.Rows, m.cfg.Token())
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
	h, t, first := m.tokensOf(m.cfg.History), m.tokensOf(m.cfg.History+1), m.tokensOf(from)
	dst := p.Mat(src.Rows/t*h, src.Cols)
	p.Dev.CopyBlocks(dst, h, src.RowRange(first, src.Rows-first), t, h, false)
	return dst
}

// PredictorGrad adds the gradients of predictor and embedders. Features and targets are
// constants, so that their gradients are not asked for (docs/sources.md#dino-wm-loss).
func (m *Model) PredictorGrad(p *nn.Pass, _, dpred, _ device.Mat) {
	dy := p.Zero(dpred.Rows, m.cfg.Token())
	p.Dev.Copy(dy.Columns(0, dpred.Cols), dpred)
	dx := m.predictor.Backward(p, dy)
	h, t, at := m.tokensOf(m.cfg.History), m.tokensOf(m.cfg.History+1), m.cfg.Backbone.Width
	dz := p.Zero(dx.Rows/h*t, m.cfg.Token()-at)
	p.Dev.CopyBlocks(dz, t, dx.Columns(at, dz.Cols), h, h, false)
	at = 0
	for i, e := range m.extras {
		e.Grad(p, dz.Columns(at, e.Out()), m.inputs[i])
		at += e.Out()
	}
}
