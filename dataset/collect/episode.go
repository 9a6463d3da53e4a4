package collect

import (
	"context"
	"errors"
	"fmt"
	"math"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/rng"
	"scalewm/envs"
)

// episode is one recorded episode: one row for the reset and one for each step.
type episode struct {
	rows    int
	columns map[string][]float64
	// frames are encoded by hdf5.Deflate.
	frames [][]byte
}

// truncate marks the last row as the episode's last.
func (e *episode) truncate() { e.columns["truncated"][e.rows-1] = 1 }

// columnsOf returns the columns to record: the action, what the task reports, and the
// outcome of the step into the row unless the task reports it itself.
func columnsOf(s *envs.Spec, o envs.Options) []envs.Column {
	cols := append([]envs.Column{{Name: "action", DType: s.ActionDType, Width: s.ActionDim}}, s.Recorded(o)...)
	for _, c := range []envs.Column{{Name: "reward", DType: "float64", Width: 1}, {Name: "terminated", DType: "uint8", Width: 1}, {Name: "truncated", DType: "uint8", Width: 1}} {
		if _, ok := s.Column(c.Name); !ok {
			cols = append(cols, c)
		}
	}
	return cols
}

// worker owns one world and records episodes in it, one after another.
type worker struct {
	job *Job
	env envs.Env
	// start is the state of the untouched world. Every episode restores it, so that
	// no hidden state of an earlier episode, such as a solver's warm start, enters
	// the next one: the episodes that a worker has recorded before must not matter.
	start envs.Snapshot
	frame []byte
	// value is scratch space for one column.
	value []float64
}

// newWorker creates the world of a job.
func newWorker(j *Job) (*worker, error) {
	e, err := j.task.New(j.Spec.Switches)
	if err != nil {
		return nil, err
	}
	return &worker{job: j, env: e, start: e.Snapshot(), frame: make([]byte, envs.FrameBytes)}, nil
}

// close frees the world.
func (w *worker) close() { w.env.Close() }

// record records episode i. Row t has the state before action t, and action t itself.
// The last row has no action, which is NaN (docs/sources.md#recorder-rows).
func (w *worker) record(ctx context.Context, i int) (episode, error) {
	return w.begin(ctx, i, w.job.task.Spec.MaxSteps+1)
}

// begin records at most rows rows of episode i. It returns the error of ctx if that
// ends between two rows.
func (w *worker) begin(ctx context.Context, i, rows int) (episode, error) {
	s := w.job.Spec
	ep := episode{columns: map[string][]float64{}}
	fail := func(step int, err error) (episode, error) {
		return episode{}, fmt.Errorf("episode %d, step %d: %w", i, step, err)
	}
	policy, err := w.job.task.Policy(s.Policy)
	if err != nil {
		return fail(0, err)
	}
	if err := w.env.Restore(w.start); err != nil {
		return fail(0, err)
	}
	if err := w.env.Reset(rng.Stream("collect", s.Task, s.Policy, s.Seed, i)); err != nil {
		return fail(0, err)
	}
	if err := policy.Reset(w.env, rng.Stream("collect-policy", s.Task, s.Policy, s.Seed, i)); err != nil {
		return fail(0, err)
	}
	action := make([]float64, w.job.task.Spec.ActionDim)
	step := envs.Step{Reward: math.NaN()}
	for {
		// The last row that the task allows: the episode is truncated unless it
		// succeeds.
		if ep.rows == w.job.task.Spec.MaxSteps {
			step.Truncated = step.Truncated || !step.Terminated
		}
		if err := w.observe(&ep, step); err != nil {
			return fail(ep.rows, err)
		}
		ep.rows++
		if step.Terminated || step.Truncated || ep.rows == rows {
			break
		}
		if err := ctx.Err(); err != nil {
			return ep, err
		}
		if err := w.act(policy, action); err != nil {
			return fail(ep.rows, err)
		}
		step, err = w.env.Step(action)
		// The simulation diverged: the episode ends with the row before this step.
		if errors.Is(err, envs.ErrDiverged) {
			ep.truncate()
			break
		}
		if err != nil {
			return fail(ep.rows, err)
		}
		ep.columns["action"] = append(ep.columns["action"], action...)
	}
	for range action {
		ep.columns["action"] = append(ep.columns["action"], math.NaN())
	}
	return ep, nil
}

// act returns the policy's action. Actions of type float32 are rounded before the
// world sees them, so that the recorded action is the one that was taken.
func (w *worker) act(p envs.Policy, action []float64) error {
	if err := p.Act(w.env, action); err != nil {
		return err
	}
	if w.job.task.Spec.ActionDType == "float32" {
		for i, v := range action {
			action[i] = float64(float32(v))
		}
	}
	return nil
}

// observe records the current row, except its action, which is not known yet.
func (w *worker) observe(ep *episode, step envs.Step) error {
	for _, c := range w.job.columns {
		if c.Name == "action" {
			continue
		}
		v, err := w.column(c, step)
		if err != nil {
			return err
		}
		ep.columns[c.Name] = append(ep.columns[c.Name], v...)
	}
	if err := w.env.Frame(w.frame); err != nil {
		return err
	}
	ep.frames = append(ep.frames, hdf5.Deflate.Encode(nil, w.frame))
	return nil
}

// column returns the current value of a column, from the task if that reports it. The
// result is valid until the next call.
func (w *worker) column(c envs.Column, step envs.Step) ([]float64, error) {
	if _, ok := w.job.task.Spec.Column(c.Name); !ok {
		switch c.Name {
		case "reward":
			return []float64{step.Reward}, nil
		case "terminated":
			return []float64{flag(step.Terminated)}, nil
		case "truncated":
			return []float64{flag(step.Truncated)}, nil
		}
	}
	if cap(w.value) < c.Width {
		w.value = make([]float64, c.Width)
	}
	v := w.value[:c.Width]
	return v, w.env.Observe(c.Name, v)
}

// flag returns a boolean as a column stores it.
func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
