package amortised

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Prefixes of the names of tensors. After them follow the names of the reference
// implementation of the policy, and those of the encoder's checkpoint.
const (
	policyPrefix  = "policy."
	encoderPrefix = "encoder."
)

// Model is a policy in training: its layers, and the frozen encoder. As a model.World,
// which training needs to compute features, it has the training's shape, and a latent is
// the policy's view of a frame.
type Model struct {
	model.Base[Config]
	layers  layers
	encoder model.Trainable
	world   model.World // the encoder in evaluation mode
}

// Model is not a model.Learner: its encoder does not change.
var (
	_ model.Trainable = (*Model)(nil)
	_ model.World     = (*Model)(nil)
)

// Declare implements model.Geometry. A geometry without an encoder is an error.
func (c Config) Declare() (model.Trainable, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Encoder == nil {
		return nil, errNoEncoder
	}
	m := &Model{}
	m.Cfg = c
	m.layers = c.Network.declare(&m.Set, c.Info().Dim, c.ActionDim)
	m.MarkDeclared()
	var err error
	m.encoder, err = c.Encoder.Geometry.Declare()
	return m, err
}

// Alloc implements model.Trainable. The encoder never has gradients.
func (m *Model) Alloc(dev device.Device, train bool) {
	m.Base.Alloc(dev, train)
	m.encoder.Alloc(dev, false)
}

// Init implements model.Trainable. The encoder's weights are those of its checkpoint.
func (m *Model) Init(seed int64) {
	m.Base.Init(seed)
	model.Upload(m.Dev, m.encoder, m.Cfg.Encoder.tensors)
	if err := m.prepare(); err != nil {
		panic("amortised: " + err.Error()) // Validate found the encoder usable
	}
}

// prepare sets m.world, once the encoder's weights are set.
func (m *Model) prepare() (err error) {
	m.world, err = m.encoder.World()
	return err
}

// Free releases the memory of the policy and of its encoder.
func (m *Model) Free() {
	m.encoder.Free()
	m.Base.Free()
}

// Saved implements model.Trainable: the policy's tensors, then the encoder's.
func (m *Model) Saved() []*nn.Param {
	saved := m.Base.Saved()
	for _, p := range m.encoder.Saved() {
		named := *p
		named.Name = encoderPrefix + p.Name
		saved = append(saved, &named)
	}
	return saved
}

// Counts implements model.Trainable: the encoder's counters.
func (m *Model) Counts() []model.Count {
	var counts []model.Count
	for _, c := range m.encoder.Counts() {
		counts = append(counts, model.Count{Name: encoderPrefix + c.Name, N: c.N})
	}
	return counts
}

// Forward implements model.Trainable. The last frame of each clip is the goal, and the
// targets are the actions of the frames before it.
func (m *Model) Forward(p *nn.Pass, b model.Batch) model.Output {
	h := m.Cfg.Network.history()
	frames := func(src device.Mat) device.Mat {
		dst := p.Mat(src.Rows/(h+1)*h, src.Cols)
		p.Dev.CopyBlocks(dst, h, src, h+1, h, false)
		return dst
	}
	pred := m.layers.Forward(p, frames(b.Features), b.Features.Every(h, h+1), b.Left)
	return model.Output{Emb: b.Features, Pred: pred, Target: frames(b.Actions)}
}

// PredictorGrad implements model.Trainable. It ignores demb and dtarget, because latents
// and actions are constants.
func (m *Model) PredictorGrad(p *nn.Pass, _, dpred, _ device.Mat) { m.layers.Backward(p, dpred) }

// Encode implements model.World: it writes the pooled latents of n frames to dst, n x D.
func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) {
	if m.world.Info().Patches == 1 {
		m.world.Encode(dst, frames, n)
		return
	}
	z := m.Eval().Mat(n*m.world.Info().Patches, dst.Cols)
	m.world.Encode(z, frames, n)
	m.pool(dst, z)
}

// pool implements model.Actor.Pool. It adds patch by patch, in one order for every frame.
func (m *Model) pool(dst, latents device.Mat) {
	patches := m.world.Info().Patches
	m.Dev.Fill(dst, 0)
	for i := range patches {
		m.Dev.Axpy(dst, 1/float64(patches), latents.Every(i, patches))
	}
}

// Rollout implements model.World: it is the encoder's, on latents that are not pooled.
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	m.world.Rollout(dst, start, candidates, h)
}

// World implements model.Trainable. It returns a model.Actor.
func (m *Model) World() (model.World, error) {
	if err := m.prepare(); err != nil {
		return nil, err
	}
	return &actor{m.world, m, m.layers.Acting(m.Eval())}, nil
}

// actor is a policy in evaluation mode. Its methods as a World are the encoder's.
type actor struct {
	model.World
	m   *Model
	act func(p *nn.Pass, z, goal, left device.Mat) device.Mat
}

var (
	_ model.Actor   = (*actor)(nil)
	_ model.Counted = (*actor)(nil)
)

// Geometry implements model.Counted.
func (a *actor) Geometry() model.Geometry { return a.m.Cfg }

// Free releases the memory of the policy and of its encoder.
func (a *actor) Free() { a.m.Free() }

// Pool implements model.Actor.
func (a *actor) Pool(dst, latents device.Mat) { a.m.pool(dst, latents) }

// Act implements model.Actor. No kernel mixes rows of different frames, so that an action
// does not depend on the others.
func (a *actor) Act(dst, z, goal, left device.Mat) {
	if dst.Rows != z.Rows || goal.Rows != z.Rows || left.Rows != z.Rows {
		panic(fmt.Sprintf("amortised: %s actions from %s to %s in %s steps", dst, z, goal, left))
	}
	a.m.Dev.Copy(dst, a.act(a.m.Eval(), z, goal, left))
}
