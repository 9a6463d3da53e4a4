package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// This file searches in the simulator: candidates are executed in worlds of the task, from
// snapshots of the episodes.

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
