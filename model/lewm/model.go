package lewm

import (
	"cmp"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model is a model of the family: the encoder and its projector, the action embedder,
// and the predictor and its output projector. Its tensors have the names of the
// reference implementation (docs/sources.md#tensor-names).
type Model struct {
	model.Base[Config]
	encoder   *nn.ViT
	projector *nn.Projector
	embedder  *nn.Embedder
	predictor *nn.Predictor
	predProj  *nn.Projector
}

// Declare implements model.Geometry. The order of the declarations is that of the
// tensors in a checkpoint.
func (c Config) Declare() (model.Trainable, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{}
	m.Cfg = c
	m.encoder = nn.NewViT(&m.Set, "encoder", nn.ViTConfig{ImageSize: c.ImageSize, Patch: c.Patch, Width: c.Width,
		Layers: c.Layers, Heads: c.Heads, MLP: c.MLP, Kind: nn.PlainViT})
	m.predictor = nn.NewPredictor(&m.Set, "predictor", nn.PredictorConfig{Frames: c.History, Dim: c.Dim,
		Width: c.PredictorWidth, Out: c.PredictorOut, Depth: c.PredictorDepth,
		Heads: c.PredictorHeads, HeadDim: c.PredictorHeadDim, MLP: c.PredictorMLP, Dropout: c.Dropout})
	m.embedder = nn.NewEmbedder(&m.Set, "action_encoder", nn.EmbedderConfig{In: c.ActionWidth(), Smoothed: c.Smoothed, Hidden: c.actionHidden(), Out: c.Dim})
	m.projector = nn.NewProjector(&m.Set, "projector", c.Width, c.Projector, c.Dim)
	m.predProj = nn.NewProjector(&m.Set, "pred_proj", cmp.Or(c.PredictorOut, c.Dim), cmp.Or(c.PredProjector, c.Projector), c.Dim)
	m.MarkDeclared()
	return m, nil
}

// New returns an untrained model in evaluation mode on dev. The initial values depend
// only on the seed and on the tensors' names.
func New(dev device.Device, c Config, seed int64) (*Model, error) {
	m, err := c.Declare()
	if err != nil {
		return nil, err
	}
	m.Alloc(dev, false)
	m.Init(seed)
	return m.(*Model), nil
}

// Forward encodes all B*T frames of a batch. It predicts the latents of frames 1 to
// History of each clip, each from the encoded latents of the frames before it
// (docs/sources.md#loss): predictions are not fed back in training.
func (m *Model) Forward(p *nn.Pass, b model.Batch) model.Output {
	h := m.Cfg.History
	t := h + 1
	n := b.B * t
	out := model.Output{Emb: p.Mat(n, m.Cfg.Dim)}
	m.projector.Into(p, out.Emb, m.encoder.Forward(p, m.encoder.Patches(p, b.Pixels, b.Frames, 0, n)))
	out.Act = m.embedder.Forward(p, b.Actions)
	out.Target = m.gather(p, out.Emb, 1)
	cond := m.gather(p, out.Act, 0)
	rows := m.predictor.Forward(p, m.gather(p, out.Emb, 0), cond, nn.Seqs{Count: b.B, Len: h}, nn.All)
	out.Pred = m.predProj.Forward(p, rows)
	return out
}

// gather copies History consecutive rows of every clip, beginning with frame `from`,
// from src, (B*T) x cols. The result is (B*History) x cols.
func (m *Model) gather(p *nn.Pass, src device.Mat, from int) device.Mat {
	h := m.Cfg.History
	dst := p.Mat(src.Rows/(h+1)*h, src.Cols)
	p.Dev.CopyBlocks(dst, h, src.RowRange(from, src.Rows-from), h+1, h, false)
	return dst
}

// scatter is the backward pass of gather: it adds the rows of src to those of dst
// that gather copied.
func (m *Model) scatter(p *nn.Pass, dst, src device.Mat, from int) {
	h := m.Cfg.History
	p.Dev.CopyBlocks(dst.RowRange(from, dst.Rows-from), h+1, src, h, h, true)
}

// PredictorGrad implements model.Trainable. The gradient reaches the latents on two
// paths: through the predictor's input, and through the target, which the reference
// implementation does not detach.
func (m *Model) PredictorGrad(p *nn.Pass, demb, dpred, dtarget device.Mat) {
	dx, dc := m.predictor.Backward(p, m.predProj.Backward(p, dpred))
	m.scatter(p, demb, dx, 0)
	m.scatter(p, demb, dtarget, 1)
	dact := p.Zero(demb.Rows, m.Cfg.Dim)
	m.scatter(p, dact, dc, 0)
	m.embedder.Backward(p, dact)
}

// EncoderGrad implements model.Learner: it adds the gradients of projector and
// encoder.
func (m *Model) EncoderGrad(p *nn.Pass, demb device.Mat) {
	m.encoder.Backward(p, m.projector.Backward(p, demb))
}
