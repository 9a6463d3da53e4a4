package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/geometry"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// batchSize returns how many of the job's episodes are planned in one batch. For a
// search the device's PlanRows says how many latents
// (episodes x candidates x patches) fill it. A CPU plans about a dozen episodes of T1
// at once, and hundreds of T5.
func (j Job) batchSize(a Agent) int {
	switch m := a.Model(); {
	case j.Batch > 0:
		return j.Batch
	case a.Policy != nil:
		return model.EncodeBatch
	default:
		return max(m.Device().Traits().PlanRows/(j.Tier.Candidates*m.Info().Patches), 1)
	}
}

// planner turns what episodes see into their next actions.
type planner interface {
	// begin prepares the episodes, once before their first plan: it resets policies and
	// encodes the goals from goalFrame.
	begin(ctx context.Context, eps []*episode) error
	// plan sets the next actions of each episode, those that are executed before its next
	// plan.
	plan(ctx context.Context, eps []*episode) error
	// spent returns the wall-clock time of encoding and of planning so far.
	spent() (encoding, planning time.Duration)
	// free frees the planner's device memory. The model stays loaded.
	free()
}

// newPlanner returns the planner of the runner's arm: a direct one for a policy, else a
// search with the job's solver.
func newPlanner(ctx context.Context, r *runner) (planner, error) {
	j, a := r.Job, r.agent
	actions, _, err := j.scaler()
	if err != nil {
		return nil, err
	}
	x := executor{actions: actions, batchSize: j.batchSize(a)}
	if j.ActionClip {
		x.bounds = j.Task.Spec
	}
	if a.Policy != nil {
		// Policies have no setting of noise: each episode of each set has its own stream.
		return &direct{executor: x, caller: caller{a.Policy, j.Rules, j.Task.Spec, actions, func(ep *episode) uint64 {
			return rng.Key("policy", j.Sets[ep.set].Name, ep.index)
		}}}, nil
	}
	solver, err := j.newSolver()
	if err != nil {
		return nil, err
	}
	p := &search{executor: x, dev: a.Model().Device(), solver: solver, tier: j.Tier, rules: j.Rules, sets: j.Sets,
		width: j.Horizon * a.Model().Info().ActionWidth}
	if a.Proposal != nil {
		p.proposal = &caller{a.Proposal, j.Rules, j.Task.Spec, actions, p.key}
	}
	p.low, p.high = plan.Clip(j.Clip).Bounds(j.Task.Spec.ActionLow, j.Task.Spec.ActionHigh, actions.Mean, actions.Std)
	if p.costMaker, err = newCostMaker(ctx, r, x); err != nil {
		return nil, err
	}
	return p, nil
}

// newCostMaker returns the costMaker of the runner's arm.
func newCostMaker(ctx context.Context, r *runner, x executor) (costMaker, error) {
	a := r.agent
	var latents *latentCostMaker
	switch {
	case a.Cost != nil:
		return frameCostMaker{a.Cost}, nil
	case a.World != nil:
		latents = newLatentCostMaker(a.World, r.Tier.Candidates)
		var err error
		if latents.metric, err = r.fitMetric(ctx, a.World); err != nil {
			return nil, err
		}
	}
	if !r.Arm.Replaced.Simulator {
		return latents, nil
	}
	return newSimulated(r, x, latents)
}

// executor turns planned z-scores into the actions that the task executes.
type executor struct {
	actions   dataset.Moments
	bounds    *envs.Spec // task whose bounds executed actions are clipped to; nil: no clipping
	batchSize int        // episodes planned in one batch
}

// execute sets the actions of each episode to the first env steps of its row of z, a
// len(eps) x (plan width) matrix of z-scores. As in the published evaluation nothing is
// clipped by default: the simulator receives what the solver found.
func (x *executor) execute(eps []*episode, z []float32, steps int) {
	width := len(z) / len(eps)
	for i, ep := range eps {
		ep.actions = x.raw(z[i*width:][:steps*len(x.actions.Mean)])
	}
}

// raw returns the actions that are executed for z-scores.
func (x *executor) raw(z []float32) []float64 {
	actions := unscale(x.actions, z)
	if x.bounds != nil {
		clip(actions, x.bounds.ActionLow, x.bounds.ActionHigh)
	}
	return actions
}

// direct is the planner of a Policy: its plans need no search.
type direct struct {
	executor
	caller
	planning time.Duration
}

func (p *direct) begin(_ context.Context, eps []*episode) error { return p.reset(eps) }

func (p *direct) free() {}

func (p *direct) spent() (encoding, planning time.Duration) { return 0, p.planning }

func (p *direct) plan(ctx context.Context, eps []*episode) error {
	began := time.Now()
	defer func() { p.planning += time.Since(began) }()
	for batch := range slices.Chunk(eps, p.batchSize) {
		z, blocks, err := p.act(ctx, batch)
		if err != nil {
			return err
		}
		steps := 1
		if p.rules.Act != results.EachStep {
			steps = max(min(blocks, p.rules.Executed())*p.rules.Steps(), 1)
		}
		p.execute(batch, z, steps)
	}
	return nil
}

// search is the planner that runs a solver on the cost of a costMaker.
type search struct {
	executor
	costMaker
	dev       device.Device
	solver    plan.Solver
	tier      Tier
	rules     results.Rules
	sets      []Set
	width     int       // numbers of a plan: Horizon * ActionWidth
	low, high []float64 // bounds of one action that iCEM clips candidates to, z-scored
	proposal  *caller   // its plans are the solver's initial means; nil if there is none

	encoding, planning time.Duration
}

// costMaker makes the cost of plans from what episodes see. It has one implementation for
// world models (latentCostMaker), one for models with their own cost (frameCostMaker), and
// one for searches in the simulator (simulated).
type costMaker interface {
	goals(ctx context.Context, eps []*episode) error
	// cost returns the cost of plans that start at the episodes' current frames. The
	// caller calls done to free the memory of c.
	cost(ctx context.Context, eps []*episode) (c plan.Cost, done func(), err error)
	PredictorCalls(h int) int
	free()
}

func (p *search) spent() (encoding, planning time.Duration) { return p.encoding, p.planning }

// begin implements planner.
func (p *search) begin(ctx context.Context, eps []*episode) error {
	if p.proposal != nil {
		if err := p.proposal.reset(eps); err != nil {
			return err
		}
	}
	return p.goals(ctx, eps)
}

// plan plans the episodes in batches. A batch bounds the memory on the device; no
// result depends on it, since each episode has its own noise (see keys) and every
// kernel computes the rows of an episode independently of the others.
func (p *search) plan(ctx context.Context, eps []*episode) error {
	for batch := range slices.Chunk(eps, p.batchSize) {
		if err := p.planBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// planBatch encodes the episodes' frames, searches, and turns the plans into actions. All
// episodes of a search have had the same number of plans.
func (p *search) planBatch(ctx context.Context, eps []*episode) error {
	replan := eps[0].result.Replans - 1
	began := time.Now()
	cost, done, err := p.cost(ctx, eps)
	if err != nil {
		return err
	}
	defer done()
	p.dev.Sync() // kernels run asynchronously: without it, planning would pay for encoding
	p.encoding += time.Since(began)

	began = time.Now()
	problem := plan.Problem{Episodes: len(eps), Horizon: p.rules.Horizon, Width: p.width, Cost: cost, Low: p.low, High: p.high,
		Noise: plan.KeyedNoise{Device: p.dev, Keys: p.keys(eps), Replan: replan, Iterations: p.tier.Iterations}}
	first, err := p.initial(ctx, eps)
	if err != nil {
		return err
	}
	if first != nil {
		problem.Init = device.NewMat(p.dev, len(eps), p.width)
		defer p.dev.Free(problem.Init.Buf)
		p.dev.Upload(problem.Init, first)
	}
	found, err := p.solver.Solve(ctx, p.dev, problem)
	if err != nil {
		return err
	}
	z := make([]float32, len(eps)*p.width)
	p.dev.Download(z, found.Actions)
	p.dev.Free(found.Actions.Buf)
	p.planning += time.Since(began)
	p.execute(eps, z, p.rules.Executed()*p.rules.Steps())
	for i, ep := range eps {
		p.keepRest(ep, z[i*p.width:(i+1)*p.width])
		ep.result.PredictorCalls += p.tier.Candidates * p.tier.Iterations * p.PredictorCalls(p.rules.Horizon)
		ep.result.NaNCosts, ep.blind = ep.result.NaNCosts+found.NaNs[i], found.Blind[i]
		if replan == 0 {
			ep.result.PlanCost = found.Cost[i]
		}
	}
	return p.dev.Err()
}

// initial returns the initial means of a search, an E x W matrix: the proposal's plans, or
// else the part of the last plans that was not executed, followed by zeros. nil means zero.
func (p *search) initial(ctx context.Context, eps []*episode) ([]float32, error) {
	if p.proposal != nil {
		z, blocks, err := p.proposal.act(ctx, eps)
		if err == nil && blocks != p.rules.Horizon {
			err = fmt.Errorf("a proposal answered %d numbers for each of %d episodes (hint: a search needs plans of %d blocks, %d x %d)", len(z)/len(eps), len(eps), p.rules.Horizon, len(eps), p.width)
		}
		return z, err
	}
	if eps[0].rest == nil {
		return nil, nil
	}
	z := make([]float32, len(eps)*p.width)
	for i, ep := range eps {
		copy(z[i*p.width:(i+1)*p.width], ep.rest)
	}
	return z, nil
}

// keepRest stores what a plan leaves for a warm start of the next one. There is nothing if
// all of it is executed.
func (p *search) keepRest(ep *episode, z []float32) {
	if done := p.rules.Executed() * p.width / p.rules.Horizon; p.rules.WarmStart && done < len(z) {
		ep.rest = z[done:]
	}
}

// keys returns the key of each episode's noise stream.
func (p *search) keys(eps []*episode) []uint64 {
	keys := make([]uint64, len(eps))
	for i, ep := range eps {
		keys[i] = p.key(ep)
	}
	return keys
}

func (p *search) key(ep *episode) uint64 {
	return noiseKey(p.rules, p.sets[ep.set].Name, ep.result.PlannerSeed)
}

// frameCostMaker is the costMaker of a CostModel, which sees the frames themselves.
type frameCostMaker struct{ CostModel }

func (frameCostMaker) goals(context.Context, []*episode) error { return nil }

func (frameCostMaker) free() {}

func (j frameCostMaker) cost(_ context.Context, eps []*episode) (plan.Cost, func(), error) {
	c, err := j.Cost(startFrames(eps), goals(eps))
	return c, func() {}, err
}

// latentCostMaker is the costMaker of a world model: the cost is the distance between latents.
type latentCostMaker struct {
	world      model.World
	encoder    *model.Encoder
	candidates int
	metric     *geometry.Metric // of the distance; nil: the model's own
}

func newLatentCostMaker(w model.World, candidates int) *latentCostMaker {
	return &latentCostMaker{world: w, encoder: model.NewEncoder(w), candidates: candidates}
}

func (j *latentCostMaker) free() { j.encoder.Free() }

// goals encodes each episode's goal once; all of its plans use the same latents.
func (j *latentCostMaker) goals(ctx context.Context, eps []*episode) error {
	width := j.world.Info().Patches * j.world.Info().Dim
	// In chunks, because goals copies the frames into one slice.
	for some := range slices.Chunk(eps, model.EncodeBatch) {
		z := make([]float32, len(some)*width)
		if err := j.encoder.Latents(ctx, z, goals(some)); err != nil {
			return err
		}
		for i, ep := range some {
			ep.goal = z[i*width : (i+1)*width]
		}
	}
	return nil
}

func (j *latentCostMaker) PredictorCalls(h int) int { return j.world.PredictorCalls(h) }

// compare returns the cost of latents against the goals of episodes, without a start.
func (j *latentCostMaker) compare(eps []*episode) *latentCost {
	c := newLatentCost(j.world, len(eps), j.candidates)
	c.metric = j.metric
	for _, ep := range eps {
		c.goals = append(c.goals, ep.goal...)
	}
	j.world.Device().Upload(c.goal, c.goals)
	return c
}

// cost encodes the episodes' current frames.
func (j *latentCostMaker) cost(ctx context.Context, eps []*episode) (plan.Cost, func(), error) {
	c := j.compare(eps)
	row := 0
	for some := range slices.Chunk(eps, model.EncodeBatch) {
		n := len(some) * j.world.Info().Patches
		if err := j.encoder.Into(ctx, c.start.RowRange(row, n), startFrames(some)); err != nil {
			c.free()
			return nil, nil, err
		}
		row += n
	}
	return c.best(), c.free, nil
}

// unscale turns z-scored actions into the task's: multiplied by the deviation, then
// shifted by the mean, with a rounding to float32 after each step. The scaler of the
// reference implementation does the same on float32 actions, and a difference in the
// last bit can change the outcome of an episode.
func unscale(m dataset.Moments, z []float32) []float64 {
	out := make([]float64, len(z))
	for i, v := range z {
		d := i % len(m.Mean)
		scaled := float32(float64(v) * m.Std[d])
		out[i] = float64(float32(float64(scaled) + m.Mean[d]))
	}
	return out
}

// clip limits actions in place to the bounds of one action, len(low) numbers each.
func clip(actions, low, high []float64) {
	for i, v := range actions {
		d := i % len(low)
		actions[i] = min(max(v, low[d]), high[d])
	}
}

// latentCost is the plan.Cost of a world model: the squared distance of the last
// predicted latent from the goal's, summed or averaged over the latent as
// Info.CostMean says, or by a metric. The steps in between do not count
// (docs/sources.md#planning-cost).
type latentCost struct {
	world       model.World
	start, goal device.Mat // (E*P) x D
	pred        device.Mat // (E*C*P) x D
	metric      *geometry.Metric
	goals       []float32 // those in goal
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
	c.world.Rollout(pred, c.start, candidates, candidates.Cols/c.world.Info().ActionWidth)
	c.distance(dst, pred)
	return c.world.Device().Err()
}

// distance sets dst, E x C, to the distances between latents and the goals. A metric is
// applied in float64 on the host: a state in directions of small variance is a small
// difference of large numbers, which bf16 GEMMs would lose.
func (c *latentCost) distance(dst, latents device.Mat) {
	d := c.world.Device()
	if c.metric == nil {
		d.LatentCost(dst, latents, c.goal, c.world.Info().CostMean)
		return
	}
	z, costs := make([]float32, latents.Len()), make([]float32, dst.Len())
	d.Download(z, latents)
	c.metric.Costs(costs, nil, z, c.goals, dst.Cols)
	d.Upload(dst, costs)
}

// end implements model.EndCost by the metric.
func (c *latentCost) end(cost, dz, z, goal device.Mat) {
	d := c.world.Device()
	at, to, grad, costs := make([]float32, z.Len()), make([]float32, z.Len()), make([]float32, z.Len()), make([]float32, cost.Len())
	d.Download(at, z)
	d.Download(to, goal)
	c.metric.Costs(costs, grad, at, to, 1)
	d.Upload(cost, costs)
	d.Upload(dz, grad)
}

// best returns the cost with its gradients if the world can compute them, else c.
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
	var end model.EndCost
	if c.metric != nil {
		end = c.end
	}
	c.world.CostGrad(dst, grad, c.start, c.goal, candidates, candidates.Cols/c.world.Info().ActionWidth, end)
	return c.latentCost.world.Device().Err()
}

func (c *latentCost) free() {
	for _, m := range []device.Mat{c.start, c.goal, c.pred} {
		c.world.Device().Free(m.Buf)
	}
}

// Trial plans by CEM outside an evaluation, to measure how long a plan takes.
type Trial struct {
	p   *search
	eps []*episode
}

// NewTrial returns a Trial of the given number of episodes. Their frames and goals
// are synthetic stripes: the time of a plan does not depend on the pixels.
func NewTrial(w model.World, t Tier, episodes int) *Trial {
	info, rules := w.Info(), results.Published()
	p := &search{costMaker: newLatentCostMaker(w, t.Candidates), dev: w.Device(), tier: t, rules: rules, sets: []Set{{}}, width: rules.Horizon * info.ActionWidth,
		solver: plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}}
	n := info.ActionWidth / info.FrameSkip
	p.executor = executor{actions: dataset.Moments{Mean: make([]float64, n), Std: make([]float64, n)}, batchSize: episodes}
	tr := &Trial{p: p}
	for i := range episodes {
		ep := &episode{frame: make([]byte, info.FrameBytes()), goalFrame: make([]byte, info.FrameBytes())}
		for k := range ep.frame {
			ep.frame[k] = byte((k + i) * 7919 >> 3)
		}
		ep.result.PlannerSeed = uint32(i)
		tr.eps = append(tr.eps, ep)
	}
	return tr
}

// Free frees the trial's device memory. The world stays loaded.
func (t *Trial) Free() { t.p.free() }

// Plan makes one plan for every episode in one batch, with all the work of an
// evaluation's plan: encoding start and goal, the search, scaling the actions back.
func (t *Trial) Plan(ctx context.Context) error {
	if err := t.p.begin(ctx, t.eps); err != nil {
		return err
	}
	for _, ep := range t.eps {
		ep.result.Replans = 1
	}
	return t.p.plan(ctx, t.eps)
}
