package eval

import (
	"context"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/model"
	"scalewm/model/device"
)

// encodeFrames bounds the frames that are encoded at once, and with them the
// scratch of the encoder.
const encodeFrames = 64

// sideBySide is how many of a job's episodes are planned side by side.
func (j Job) sideBySide() int {
	if j.Batch > 0 {
		return j.Batch
	}
	w := j.Arm.World
	return max(w.Device().Traits().PlanRows/(j.Tier.Candidates*w.Info().Patches), 1)
}

// frameEncoder turns frames at the model's size into latents.
type frameEncoder struct {
	world  model.World
	info   model.Info
	dev    device.Device
	pixels device.Bytes // frames on their way to the encoder
	host   []byte
}

func newFrameEncoder(w model.World) frameEncoder {
	e := frameEncoder{world: w, info: w.Info(), dev: w.Device()}
	e.host = make([]byte, encodeFrames*e.info.FrameBytes())
	e.pixels = e.dev.AllocBytes(len(e.host))
	return e
}

func (e *frameEncoder) newFrame() []byte { return make([]byte, e.info.FrameBytes()) }

// encode writes the latents of frames, (n*P) x D, into dst.
func (e *frameEncoder) encode(ctx context.Context, dst device.Mat, frames [][]byte) error {
	rows, size := e.info.Patches, e.info.FrameBytes()
	for from := 0; from < len(frames); from += encodeFrames {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(encodeFrames, len(frames)-from)
		for i, f := range frames[from : from+n] {
			copy(e.host[i*size:], f)
		}
		e.dev.UploadBytes(e.pixels, e.host[:n*size])
		e.world.Encode(dst.RowRange(from*rows, n*rows), e.pixels, n)
	}
	return e.dev.Err()
}

// latents are those of frames, on the host: n x (P*D).
func (e *frameEncoder) latents(ctx context.Context, frames [][]byte) ([]float32, error) {
	z := device.NewMat(e.dev, len(frames)*e.info.Patches, e.info.Dim)
	defer e.dev.Free(z.Buf)
	if err := e.encode(ctx, z, frames); err != nil {
		return nil, err
	}
	host := make([]float32, z.Len())
	e.dev.Download(host, z)
	return host, e.dev.Err()
}

// planner turns frames into actions: encode, search, scale back.
type planner struct {
	frameEncoder
	solver     plan.Solver
	tier       Tier
	sideBySide int // episodes planned at once
	protocol   dataset.Protocol
	noise      int
	sets       []Set
	actions    dataset.Moments
	low, high  []float64  // bounds of one action that iCEM clips to, z-scored
	bounds     *envs.Spec // whose bounds executed actions are clipped to, nil: none

	encoding, planning time.Duration
}

func newPlanner(j Job) (*planner, error) {
	solver, err := j.newSolver()
	if err != nil {
		return nil, err
	}
	actions, _, err := j.scaler()
	if err != nil {
		return nil, err
	}
	p := &planner{frameEncoder: newFrameEncoder(j.Arm.World), solver: solver, tier: j.Tier, sideBySide: j.sideBySide(),
		protocol: j.Protocol, noise: j.PlannerNoise, sets: j.Sets, actions: actions}
	p.low, p.high = j.Clip.Bounds(j.Task.Spec.ActionLow, j.Task.Spec.ActionHigh, p.actions.Mean, p.actions.Std)
	if j.ActionClip {
		p.bounds = j.Task.Spec
	}
	return p, nil
}

// encodeGoals keeps the latents of each episode's goal, which all its plans use.
func (p *planner) encodeGoals(ctx context.Context, eps []*episode) error {
	frames := make([][]byte, len(eps))
	for i, ep := range eps {
		frames[i] = ep.goalFrame
	}
	host, err := p.latents(ctx, frames)
	if err != nil {
		return err
	}
	per := p.info.Patches * p.info.Dim
	for i, ep := range eps {
		ep.goal, ep.goalFrame = host[i*per:(i+1)*per], nil
	}
	return nil
}

// plan gives each episode the actions of its plan number replan, as many
// episodes side by side as fit.
func (p *planner) plan(ctx context.Context, eps []*episode, replan int) error {
	for batch := range slices.Chunk(eps, p.sideBySide) {
		if err := p.planBatch(ctx, batch, replan); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) planBatch(ctx context.Context, eps []*episode, replan int) error {
	began := time.Now()
	c := newLatentCost(p.world, len(eps), p.tier.Candidates)
	defer c.free()
	if err := p.fill(ctx, c, eps); err != nil {
		return err
	}
	p.dev.Sync()
	p.encoding += time.Since(began)

	began = time.Now()
	keys := make([]uint64, len(eps))
	for i, ep := range eps {
		keys[i] = noiseKey(p.protocol, p.noise, p.sets[ep.set].Name, ep.result.PlannerSeed)
	}
	width := Horizon * p.info.ActionWidth
	found, err := p.solver.Solve(ctx, p.dev, plan.Problem{
		Episodes: len(eps), Horizon: Horizon, Width: width, Cost: c.best(), Low: p.low, High: p.high,
		Noise: plan.Keyed{Device: p.dev, Keys: keys, Replan: replan, Iterations: p.tier.Iterations},
	})
	if err != nil {
		return err
	}
	z := make([]float32, len(eps)*width)
	p.dev.Download(z, found.Actions)
	p.dev.Free(found.Actions.Buf)
	p.planning += time.Since(began)
	for i, ep := range eps {
		ep.actions = unscale(p.actions, z[i*width:(i+1)*width])
		if p.bounds != nil {
			clip(ep.actions, p.bounds.ActionLow, p.bounds.ActionHigh)
		}
		ep.result.PredictorCalls += p.tier.Candidates * p.tier.Iterations * p.world.PredictorCalls(Horizon)
		ep.result.NaNCosts += found.NaNs[i]
		if replan == 0 {
			ep.result.PlanCost = found.Cost[i]
		}
	}
	return p.dev.Err()
}

// fill gives the cost its starts, from the episodes' present frames, and goals.
func (p *planner) fill(ctx context.Context, c *latentCost, eps []*episode) error {
	frames := make([][]byte, len(eps))
	var goals []float32
	for i, ep := range eps {
		frames[i] = ep.frame
		goals = append(goals, ep.goal...)
	}
	p.dev.Upload(c.goal, goals)
	return p.encode(ctx, c.start, frames)
}

// unscale turns z-scored actions into the task's own: multiplied by the
// deviation and shifted by the mean, rounded to float32 after each, as the
// original's scaler does on float32 actions.
func unscale(m dataset.Moments, z []float32) []float64 {
	out := make([]float64, len(z))
	for i, v := range z {
		d := i % len(m.Mean)
		scaled := float32(float64(v) * m.Std[d])
		out[i] = float64(float32(float64(scaled) + m.Mean[d]))
	}
	return out
}

// clip keeps actions within bounds of one of them.
func clip(actions, low, high []float64) {
	for i, v := range actions {
		d := i % len(low)
		actions[i] = min(max(v, low[d]), high[d])
	}
}

// latentCost is plan.Cost of a world model: how far the last predicted latent
// is from the goal's.
type latentCost struct {
	world       model.World
	start, goal device.Mat // (E*P) x D
	pred        device.Mat // (E*C*P) x D
}

func newLatentCost(w model.World, episodes, candidates int) *latentCost {
	d, info := w.Device(), w.Info()
	return &latentCost{
		world: w,
		start: device.NewMat(d, episodes*info.Patches, info.Dim),
		goal:  device.NewMat(d, episodes*info.Patches, info.Dim),
		pred:  device.NewMat(d, episodes*candidates*info.Patches, info.Dim),
	}
}

// Costs implements plan.Cost.
func (c *latentCost) Costs(dst, candidates device.Mat) error {
	pred := c.pred.RowRange(0, candidates.Rows*c.world.Info().Patches)
	c.world.Rollout(pred, c.start, candidates, Horizon)
	c.world.Device().LatentCost(dst, pred, c.goal, c.world.Info().CostMean)
	return c.world.Device().Err()
}

// best is the cost with its gradients, where the world has them.
func (c *latentCost) best() plan.Cost {
	if w, ok := c.world.(model.Differentiable); ok {
		return gradCost{c, w}
	}
	return c
}

// gradCost is a latentCost that has a gradient.
type gradCost struct {
	*latentCost
	world model.Differentiable
}

// CostGrads implements plan.GradCost.
func (c gradCost) CostGrads(dst, grad, candidates device.Mat) error {
	c.world.CostGrad(dst, grad, c.start, c.goal, candidates, Horizon)
	return c.latentCost.world.Device().Err()
}

func (c *latentCost) free() {
	for _, m := range []device.Mat{c.start, c.goal, c.pred} {
		c.world.Device().Free(m.Buf)
	}
}

// Trial plans by CEM outside an evaluation, so that plans can be timed.
type Trial struct {
	p   *planner
	eps []*episode
}

// NewTrial is so many episodes whose frames and goals are stripes.
func NewTrial(w model.World, t Tier, episodes int) *Trial {
	info := w.Info()
	p := &planner{frameEncoder: newFrameEncoder(w), tier: t, sideBySide: episodes, protocol: dataset.Paper, sets: []Set{{}},
		solver: plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}}
	n := info.ActionWidth / info.FrameSkip
	p.actions = dataset.Moments{Mean: make([]float64, n), Std: make([]float64, n)}
	tr := &Trial{p: p}
	for i := range episodes {
		ep := &episode{frame: p.newFrame()}
		for k := range ep.frame {
			ep.frame[k] = byte((k + i) * 7919 >> 3)
		}
		ep.result.PlannerSeed = uint32(i)
		tr.eps = append(tr.eps, ep)
	}
	return tr
}

// Free gives the memory back; the world stays.
func (t *Trial) Free() { t.p.dev.Free(t.p.pixels) }

// Plan makes one plan for every episode, side by side, as an evaluation does:
// start and goal encoded, the search, actions scaled back.
func (t *Trial) Plan(ctx context.Context) error {
	for _, ep := range t.eps {
		ep.goalFrame = t.p.newFrame()
	}
	if err := t.p.encodeGoals(ctx, t.eps); err != nil {
		return err
	}
	return t.p.plan(ctx, t.eps, 0)
}
