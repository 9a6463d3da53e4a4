package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/geometry"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// This file replaces components of a search (model.Replacement): the metric of latents by
// one that is fitted to frames of training episodes, and the model's dynamics by the
// simulator's.

// fitRows is the number of frames of training episodes to which a metric is fitted, and
// fewFitRows the smallest number.
const (
	fitRows    = 2048
	fewFitRows = 100
)

// trainingRows draws rows of the episodes that a training under the rules may see: all but
// those held out. They are in ascending order.
func (d *Data) trainingRows(n int) []int {
	var all []int
	for i, e := range d.Episodes() {
		if _, held := slices.BinarySearch(d.heldOut, i); held {
			continue
		}
		for row := range e.Len {
			all = append(all, e.Offset+row)
		}
	}
	if len(all) > n {
		drawn := rng.Stream("rows of a metric", d.Fingerprint).Perm(len(all))[:n]
		for i, k := range drawn {
			drawn[i] = all[k]
		}
		all = drawn
		slices.Sort(all)
	}
	return all
}

// scaledQ is a task state and the moments that standardise it.
type scaledQ struct {
	envs.Q
	moments dataset.Moments
}

// readState returns the task state in which distances are measured, the first of the task,
// with its moments over the same episodes. Data.state caches it.
func (d *Data) readState() (scaledQ, error) {
	qs := d.task.Spec.Qs
	if len(qs) == 0 {
		return scaledQ{}, fmt.Errorf("the task %s has no task state q, in which the search would compare candidates with the goal (hint: a task of your own gives Spec.Qs)", d.task.Spec.Name)
	}
	var episodes []int
	if d.heldOut != nil {
		episodes = dataset.TrainEpisodes(d.Fingerprint, len(d.Episodes()))
	}
	m, err := dataset.QMoments(d.Source, qs[0], episodes)
	return scaledQ{qs[0], unitStd(m)}, err
}

// checkReplaced returns an error if the arm's replacement does not fit the task, the data
// set or the model.
func (j Job) checkReplaced(a Agent) error {
	r, info := j.Arm.Replaced, a.Model().Info()
	if r.String() != "" && a.World == nil {
		return fmt.Errorf("%s replaces a component of the search of a world model, and %s is none (hint: give the checkpoint of a world model, such as %s)", r, j.Arm.Method, model.Baseline)
	}
	if r.Metric == model.StateDistance || r.Metric == model.ProbedState {
		if _, err := j.Data.state(); err != nil {
			return err
		}
	}
	if r.Simulator && j.Solver == results.Descent {
		return fmt.Errorf("solver %s needs a gradient, which the simulator does not provide (hint: %s, %s or %s)", results.Descent, results.CEM, results.ICEM, results.MPPI)
	}
	if err := CheckMetric(r, info, len(j.Data.trainingRows(fitRows))); err != nil {
		return err
	}
	if r.Simulator {
		return checkSnapshots(j.Task, j.Rules)
	}
	return nil
}

// CheckMetric returns an error if the latents of a model are too few or too wide for the
// metric of a replacement. rows is the number of rows of training episodes.
func CheckMetric(r model.Replacement, info model.Info, rows int) error {
	width := info.Patches * info.Dim
	need := max(fewFitRows, 2*width)
	if r.Metric != model.WhitenedLatents {
		need = min(need, fitRows)
	}
	switch {
	case r.K > width:
		return fmt.Errorf("%s: the latents have %d numbers (hint: a smaller K)", r, width)
	case r.OfLatents() && min(rows, fitRows) < need:
		return fmt.Errorf("%s is fitted to %d frames of training episodes, but latents of %d numbers need %d (hint: a larger data set; at most %d frames are used)", r, min(rows, fitRows), width, need, fitRows)
	}
	return nil
}

// checkSnapshots returns an error if a world of the task is not in the same state after its
// snapshot is restored: candidates would then not start where the episode is.
func checkSnapshots(task envs.Task, r results.Rules) error {
	w, err := newWorld(task, r)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Reset(rng.Stream("snapshot check")); err != nil {
		return err
	}
	columns := slices.Clone(task.Spec.StateColumns)
	columns = slices.DeleteFunc(columns, func(c string) bool { _, ok := task.Spec.Column(c); return !ok })
	// Two steps from one snapshot, with a reset in between, reach the same state.
	at := w.Snapshot()
	var reached [2]envs.Row
	for i := range reached {
		err := w.Restore(at)
		if err == nil {
			_, err = w.Step(task.Spec.ActionHigh)
		}
		if err == nil {
			reached[i], err = observe(w, columns)
		}
		if err == nil {
			err = w.Reset(rng.Stream("snapshot check", i))
		}
		if err != nil {
			return fmt.Errorf("the task %s cannot restore snapshots, from which candidates start: %w", task.Spec.Name, err)
		}
	}
	for _, c := range columns {
		if !slices.Equal(reached[0][c], reached[1][c]) {
			return fmt.Errorf("the task %s does not restore snapshots exactly: the same step leads to two values of %s (hint: Env.Snapshot must copy all state)", task.Spec.Name, c)
		}
	}
	return nil
}

// fitMetric fits the metric of the arm's replacement to latents of training frames. It is
// nil if the arm compares latents as its model does.
func (j Job) fitMetric(ctx context.Context, w model.World) (*geometry.Metric, error) {
	r := j.Arm.Replaced
	if !r.OfLatents() {
		return nil, nil
	}
	rows := j.Data.trainingRows(fitRows)
	x, err := j.Latents(ctx, w, rows)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) { // NaN or infinite
		return nil, errors.New("fitting a metric: the model's latents are not finite (hint: its training diverged, see metrics.jsonl)")
	}
	z := geometry.Samples[float32]{N: len(rows), D: len(x) / len(rows), X: x}
	var m geometry.Metric
	if r.Metric == model.ProbedState {
		q, err := j.scaledState(rows)
		if err == nil {
			m, err = geometry.Readout(z, q)
		}
		return &m, err
	}
	c, err := geometry.Analyse(z)
	switch {
	case err != nil:
	case r.Metric == model.WhitenedLatents:
		m, err = c.Whitening(z)
	default:
		m, err = c.Leading(z, r.K)
	}
	if w.Info().CostMean { // so that MPPI's temperature has the same meaning
		m = m.Averaged()
	}
	return &m, err
}

// scaledState returns the standardised task state of rows.
func (j Job) scaledState(rows []int) (geometry.Samples[float64], error) {
	q, err := j.Data.state()
	if err != nil {
		return geometry.Samples[float64]{}, err
	}
	s := geometry.Samples[float64]{N: len(rows), D: len(q.Parts)}
	for _, row := range rows {
		v, err := dataset.ReadQ(j.Data.Source, q.Q, row, row+1)
		if err != nil {
			return s, err
		}
		for i := range v {
			s.X = append(s.X, q.moments.Scale(i, v[i]))
		}
	}
	return s, nil
}

// stateModel is the Model of model.OracleState, which only has a device to search on.
type stateModel struct {
	info model.Info
	dev  device.Device
}

func (m stateModel) Info() model.Info      { return m.info }
func (m stateModel) Device() device.Device { return m.dev }

// NewOracle returns the agent of model.OracleState, which plans in the simulator of a task.
// It searches on d, which the caller owns.
func NewOracle(d device.Device, task envs.Task, r results.Rules) Agent {
	steps := r.Steps()
	return Agent{State: stateModel{model.Info{Kind: model.OracleState, Patches: 1, FrameSkip: steps, ActionWidth: steps * task.Spec.ActionDim}, d}}
}

// simulated is the costMaker of searches in the simulator. Each candidate starts from the
// snapshot of its episode, in any worker's world, so that costs depend neither on the number
// of workers nor on which candidates share one.
type simulated struct {
	*runner
	executor
	*latentCostMaker // compares latents of drawn frames; nil: states are compared
	q                scaledQ
	buffers          [][]float64 // q, by worker
	frames           []byte      // of the candidates that are encoded together
}

// newSimulated returns the costMaker of a runner's arm. latents is nil if its metric is
// model.StateDistance.
func newSimulated(r *runner, x executor, latents *latentCostMaker) (*simulated, error) {
	s := &simulated{runner: r, executor: x, latentCostMaker: latents}
	if latents != nil {
		s.frames = make([]byte, model.EncodeBatch*latents.world.Info().FrameBytes())
		return s, nil
	}
	var err error
	if s.q, err = r.Data.state(); err != nil {
		return nil, err
	}
	for range r.workers {
		s.buffers = append(s.buffers, make([]float64, len(s.q.Parts)))
	}
	return s, nil
}

func (s *simulated) free() {
	if s.latentCostMaker != nil {
		s.latentCostMaker.free()
	}
}

// PredictorCalls implements costMaker: the model predicts nothing.
func (s *simulated) PredictorCalls(int) int { return 0 }

// goals prepares the episodes' goals, and sets each to its start, from which the first plan's
// candidates begin.
func (s *simulated) goals(ctx context.Context, eps []*episode) error {
	if s.latentCostMaker != nil {
		if err := s.latentCostMaker.goals(ctx, eps); err != nil {
			return err
		}
	}
	return s.eachLive(ctx, eps, func(w *worker, ep *episode) error {
		if s.latentCostMaker == nil {
			if err := s.goalState(w, ep); err != nil {
				return err
			}
		}
		if err := s.enter(w, ep); err != nil {
			return err
		}
		ep.world = w.Snapshot()
		return nil
	})
}

// goalState sets the state of an episode's goal: that of its row, or of the replayed actions.
func (s *simulated) goalState(w *worker, ep *episode) error {
	d := s.Data
	_, goal, err := d.prepare(w, ep.start, s.ids(ep)...)
	if err != nil {
		return err
	}
	row := d.fileRow(ep.start) + d.rules.GoalOffset
	if d.rules.GoalSource == results.Replayed {
		row = -1 // the goal is no row of the file
	}
	seen, err := d.shown(w, row, s.q.Columns, goal, goal, s.ids(ep)...)
	if err != nil {
		return fmt.Errorf("the state of the goal: %w", err)
	}
	ep.goalState = make([]float64, len(s.q.Parts))
	s.q.Of(seen, ep.goalState)
	return nil
}

// cost implements costMaker.
func (s *simulated) cost(ctx context.Context, eps []*episode) (plan.Cost, func(), error) {
	c := simulatedCost{simulated: s, ctx: ctx, eps: eps}
	if s.latentCostMaker == nil {
		return c, func() {}, nil
	}
	c.latents = s.compare(eps)
	return c, c.latents.free, nil
}

// simulatedCost is the plan.Cost of candidates that are executed in the simulator.
type simulatedCost struct {
	*simulated
	ctx     context.Context
	eps     []*episode
	latents *latentCost // nil: states are compared
}

// Costs implements plan.Cost.
func (c simulatedCost) Costs(dst, candidates device.Mat) error {
	d := c.agent.Model().Device()
	z := make([]float32, candidates.Len())
	d.Download(z, candidates)
	costs := make([]float32, candidates.Rows)
	err := c.run(z, costs)
	if err != nil {
		return err
	}
	if c.latents == nil {
		d.Upload(dst, costs)
		return d.Err()
	}
	c.latents.distance(dst, c.latents.pred.RowRange(0, len(costs)*c.world.Info().Patches))
	if slices.ContainsFunc(costs, func(v float32) bool { return v != 0 }) { // some diverged
		known := make([]float32, len(costs))
		d.Download(known, dst)
		for i := range costs {
			costs[i] += known[i]
		}
		d.Upload(dst, costs)
	}
	return d.Err()
}

// run executes the candidates z, and sets costs to the distance of each state from the
// goal's, or encodes the frames that they reach. The cost of a candidate whose simulation
// diverges is infinite.
func (c simulatedCost) run(z, costs []float32) error {
	n := len(costs)
	if c.latents == nil {
		return c.each(z, costs, 0, n, func(worker, i int) (err error) {
			costs[i], err = c.distance(worker, c.eps[i/(n/len(c.eps))])
			return err
		})
	}
	size, patches := c.world.Info().FrameBytes(), c.world.Info().Patches
	for from := 0; from < n; from += model.EncodeBatch {
		batch := min(model.EncodeBatch, n-from)
		err := c.each(z, costs, from, batch, func(worker, i int) error {
			w := c.workers[worker]
			if err := w.Frame(w.px); err != nil {
				return fmt.Errorf("drawing the last frame: %w", err)
			}
			w.resizer.Resize(c.frames[(i-from)*size:(i-from+1)*size], w.px)
			return nil
		})
		if err == nil {
			err = c.encoder.Into(c.ctx, c.latents.pred.RowRange(from*patches, batch*patches), c.frames[:batch*size])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each executes n candidates from the given one on, each from its episode's snapshot, and
// calls reached after the last step.
func (c simulatedCost) each(z, costs []float32, from, n int, reached func(worker, i int) error) error {
	width, each, dim := len(z)/len(costs), len(costs)/len(c.eps), c.Task.Spec.ActionDim
	return parallel.For(c.ctx, len(c.workers), n, func(worker, k int) error {
		i := from + k
		w, actions := c.workers[worker], c.raw(z[i*width:(i+1)*width])
		err := w.Restore(c.eps[i/each].world)
		for k := 0; k < len(actions) && err == nil; k += dim {
			_, err = w.Step(actions[k : k+dim])
		}
		if errors.Is(err, envs.ErrDiverged) {
			costs[i] = float32(math.Inf(1))
			return nil
		}
		if err == nil {
			err = reached(worker, i)
		}
		if err != nil {
			return fmt.Errorf("executing candidate %d of episode %d: %w", i%each, c.eps[i/each].index, err)
		}
		return nil
	})
}

// distance returns the squared distance of a worker's world from an episode's goal, in the
// standardised task state.
func (c simulatedCost) distance(worker int, ep *episode) (float32, error) {
	now, err := observe(c.workers[worker], c.q.Columns)
	if err != nil {
		return 0, err
	}
	q, sum := c.buffers[worker], 0.0
	c.q.Of(now, q)
	for i, v := range q {
		d := (v - ep.goalState[i]) / c.q.moments.Std[i]
		sum += d * d
	}
	return float32(sum), nil
}
