// Package line is the smallest family of world models, for the tests of the recipe "a new family": an action moves the
// latent along a line, by a matrix that is learnt. The encoder is a matrix that is not.
package line

import (
	"math/rand/v2"

	"scalewm/dataset/rng"
	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

func init() {
	same := func(name string) string { return name }
	model.Register(model.Family{Name: "line", Section: "line", New: func() model.Section { return &Config{} }, Decode: model.DecodeAs[Config], Rename: same})
}

// Config is the geometry, and the [line] section of a preset.
type Config struct {
	FrameSize int `toml:"frame_size" json:"frame_size"`
	Dim       int `toml:"dim" json:"dim"`
	FrameSkip int `toml:"frame_skip" json:"frame_skip"`
	ActionDim int `toml:"-" json:"action_dim"`
}

func (c *Config) Geometry(_ model.Method, actionDim int, _ any) (model.Geometry, error) {
	g := *c
	g.ActionDim = actionDim
	return g, nil
}

func (c *Config) Training() (none model.Schedule)   { return none }
func (c *Config) With(model.Schedule) model.Section { return c }

func (c Config) Validate() error { return nil }

func (c Config) Info() model.Info {
	return model.Info{Kind: "line", Patches: 1, Dim: c.Dim, History: 1, FrameSize: c.FrameSize, Patch: c.FrameSize, ActionWidth: c.FrameSkip * c.ActionDim, FrameSkip: c.FrameSkip}
}

func (c Config) Describe() (encoder, latents, predictor string) {
	return "a matrix", "a line", "a matrix"
}
func (c Config) Hydra() (any, []tensorfile.Tensor) { return nil, nil }
func (c Config) StepFLOP(int, int) float64         { return 0 }
func (c Config) EncodeFLOP(int) float64            { return 0 }
func (c Config) PlanFLOP(int, int) float64         { return 0 }

func (c Config) Declare() (model.Trainable, error) {
	m := &Model{}
	m.Cfg = c
	m.eye = m.frozen.Param("eye", c.Dim, 3*c.FrameSize*c.FrameSize, nn.Normal(0.01))
	m.Move = m.Set.Param("move", c.Dim, c.Info().ActionWidth, nn.Normal(0.1))
	m.MarkDeclared()
	return m, nil
}

// Model has its encoder outside of Params, so that it has neither gradient nor moments.
type Model struct {
	model.Base[Config]
	frozen    nn.Set
	eye, Move *nn.Param  // D x 3*FrameSize^2, D x A
	actions   device.Mat // of the last Forward
}

func (m *Model) Saved() []*nn.Param          { return append([]*nn.Param{m.eye}, m.Base.Saved()...) }
func (m *Model) World() (model.World, error) { return m, nil }

func (m *Model) Alloc(dev device.Device, train bool) {
	m.Base.Alloc(dev, train)
	m.frozen.Alloc(dev, false)
}

func (m *Model) Init(seed int64) {
	m.Base.Init(seed)
	m.frozen.Init(m.Dev, func(name string) *rand.Rand { return rng.Stream("line", name) })
}

func (m *Model) Free() { m.Base.Free(); m.frozen.Free(m.Dev) }

func (m *Model) encode(dst device.Mat, frames device.Bytes, rows device.Ints, n int) {
	px := device.NewMat(m.Dev, n, m.eye.Value.Cols)
	m.Dev.Patches(px, frames, device.Frames{Count: n, Size: m.Cfg.FrameSize, Patch: m.Cfg.FrameSize, Std: [3]float64{1, 1, 1}, List: rows})
	m.Dev.Gemm(device.NT, dst, px, m.eye.Value, device.Epilogue{})
	m.Dev.Free(px.Buf)
}

func (m *Model) Forward(p *nn.Pass, b model.Batch) model.Output {
	out := model.Output{Emb: p.Mat(2*b.B, m.Cfg.Dim), Pred: p.Mat(b.B, m.Cfg.Dim), Target: p.Mat(b.B, m.Cfg.Dim)}
	m.encode(out.Emb, b.Pixels, b.Frames, 2*b.B)
	m.Dev.Copy(out.Target, out.Emb.Every(1, 2))
	m.actions = p.Mat(b.B, b.Actions.Cols)
	m.Dev.Copy(m.actions, b.Actions.Every(0, 2))
	m.Dev.Gemm(device.NT, out.Pred, m.actions, m.Move.Value, device.Epilogue{})
	m.Dev.CopyBlocks(out.Pred, 1, out.Emb, 2, 1, true)
	return out
}

func (m *Model) PredictorGrad(_ *nn.Pass, _, dpred, _ device.Mat) {
	m.Dev.Gemm(device.TN, m.Move.Grad, dpred, m.actions, device.Epilogue{Add: true})
}
func (m *Model) EncoderGrad(*nn.Pass, device.Mat) {}

func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) { m.encode(dst, frames, nil, n) }

func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	a, each := m.Cfg.Info().ActionWidth, candidates.Rows/start.Rows
	block := device.NewMat(m.Dev, candidates.Rows, a)
	for t := range h {
		m.Dev.Copy(block, candidates.Columns(t*a, a))
		m.Dev.Gemm(device.NT, dst, block, m.Move.Value, device.Epilogue{Add: t > 0})
	}
	for e := range start.Rows {
		m.Dev.CopyBlocks(dst.RowRange(e*each, each), 1, start.RowRange(e, 1), 0, 1, true)
	}
	m.Dev.Free(block.Buf)
}
