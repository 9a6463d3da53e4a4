package eval

import (
	"context"
	"errors"
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/envs"
	"scalewm/model"
)

// Unrolled is where a set of C candidate plans leads from one start, in the model and
// in the simulator. Latents have P*D numbers.
type Unrolled struct {
	Predicted []float32 // C latents: what the model predicts after the last block
	Reached   []float32 // C latents: the encoded last frame of the simulator
	Goal      []float32 // one latent: the encoded goal frame
	Distance  []float64 // C distances of the simulator's last state from the goal, by Spec.GoalDistance
	Met       int       // number of candidates that met the goal at some step
	Diverged  string    // if not "": why a candidate's simulation diverged; all else is then empty
}

// Unroller executes candidate plans in simulators of a job's task and predicts their
// result with its model. It is not safe for concurrent use.
type Unroller struct {
	job     Job
	world   model.World
	encoder *model.Encoder
	info    model.Info
	actions dataset.Moments
	workers []*worker
}

// NewUnroller returns an Unroller with one simulator for each of the job's workers.
// The job needs a task, data, rules and an arm, whose model is w. The caller calls
// Close.
func NewUnroller(j Job, w model.World) (*Unroller, error) {
	actions, _, err := j.scaler()
	if err != nil {
		return nil, err
	}
	u := &Unroller{job: j, world: w, encoder: model.NewEncoder(w), info: w.Info(), actions: actions}
	for range max(j.Workers, 1) {
		e, err := newWorld(j.Task, j.Rules)
		if err != nil {
			u.Close()
			return nil, err
		}
		u.workers = append(u.workers, &worker{Env: e, resizer: dataset.NewResizer(envs.FrameSize, u.info.FrameSize), px: make([]byte, envs.FrameBytes)})
	}
	return u, nil
}

// Close closes the simulators and frees device memory. The model stays loaded.
func (u *Unroller) Close() {
	u.encoder.Free()
	for _, w := range u.workers {
		w.Close()
	}
}

// Unroll executes and predicts candidates from s: a C x (Horizon*ActionWidth) matrix
// of z-scored actions. The model sees the frame of the start. The goal is the
// row GoalOffset later, and a candidate that meets it earlier is still executed to
// its end: all distances are after the same number of steps. The result does not
// depend on the number of workers.
func (u *Unroller) Unroll(ctx context.Context, s Start, candidates []float32) (out Unrolled, err error) {
	width := u.job.Horizon * u.info.ActionWidth
	n := len(candidates) / width
	size := u.info.FrameBytes()
	// One buffer for one call of the encoder: the last frame of each candidate, then the
	// start and the goal.
	frames := make([]byte, (n+2)*size)
	frame := func(i int) []byte { return frames[i*size : (i+1)*size] }
	out.Distance = make([]float64, n)
	met, diverged := make([]bool, n), make([]error, n)
	err = parallel.For(ctx, len(u.workers), n, func(w, i int) (err error) {
		out.Distance[i], met[i], err = u.execute(u.workers[w], s, unscale(u.actions, candidates[i*width:(i+1)*width]), frame(i))
		if errors.Is(err, envs.ErrDiverged) {
			diverged[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return out, fmt.Errorf("executing candidates from episode %d, row %d: %w", s.Trajectory, s.Row, err)
	}
	for i := range n {
		if diverged[i] != nil {
			return Unrolled{Diverged: fmt.Sprintf("candidate %d: %v", i, diverged[i])}, nil
		}
		if met[i] {
			out.Met++
		}
	}
	w := u.workers[0]
	err = u.job.Data.frames(w, s, func(i int, px []byte) { w.resizer.Resize(frame(n+i), px) }, u.job.Task.Spec.Name, "unroll")
	if err != nil {
		return out, err
	}
	per := u.info.Patches * u.info.Dim
	z := make([]float32, (n+2)*per)
	if err := u.encoder.Latents(ctx, z, frames); err != nil {
		return out, err
	}
	out.Reached, out.Goal = z[:n*per], z[(n+1)*per:]
	out.Predicted, err = model.Predict(u.world, z[n*per:(n+1)*per], candidates, u.job.Horizon)
	return out, err
}

// execute takes all steps of one candidate and draws the last frame. The distance is
// that of the first goal column that the file has.
func (u *Unroller) execute(w *worker, s Start, actions []float64, frame []byte) (distance float64, met bool, err error) {
	spec := u.job.Task.Spec
	_, goal, err := u.job.Data.prepare(w, s, spec.Name, "unroll")
	if err != nil {
		return 0, false, err
	}
	for k := 0; k < len(actions); k += spec.ActionDim {
		out, err := w.Step(actions[k : k+spec.ActionDim])
		if err != nil {
			return 0, false, err
		}
		met = met || out.Terminated
	}
	for _, name := range spec.GoalColumns {
		if to, ok := goal[name]; ok {
			now := make([]float64, len(to))
			if err := w.Observe(name, now); err != nil {
				return 0, false, err
			}
			distance = spec.GoalDistance(now, to)
			break
		}
	}
	if err := w.Frame(w.px); err != nil {
		return 0, false, fmt.Errorf("drawing the last frame: %w", err)
	}
	w.resizer.Resize(frame, w.px)
	return distance, met, nil
}
