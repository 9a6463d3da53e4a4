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

// Unrolled is what candidates lead to from one start: in the model and in the
// world. Latents are P*D numbers.
type Unrolled struct {
	Predicted []float32 // a latent for each candidate: what the model predicts
	Reached   []float32 // a latent for each candidate: of the last frame
	Goal      []float32 // the latent of the stored goal frame
	Distance  []float64 // for each candidate: of the world from its goal, by Spec.GoalDistance
	Met       int       // candidates that met the goal on their way, and went on
	Diverged  string    // why the simulation ended one of them, which leaves the start without a result
}

// Unroller executes candidates in worlds of a job's task and predicts the same with
// its model. It is used by one goroutine at a time.
type Unroller struct {
	job     Job
	world   model.World
	encoder *model.Encoder
	info    model.Info
	actions dataset.Moments
	workers []*worker
}

// NewUnroller makes the worlds. The job needs a task, data, rules and an arm, whose model is w.
func NewUnroller(j Job, w model.World) (*Unroller, error) {
	actions, _, err := j.scaler()
	if err != nil {
		return nil, err
	}
	u := &Unroller{job: j, world: w, encoder: model.NewEncoder(w), info: w.Info(), actions: actions}
	for range max(j.Workers, 1) {
		e, err := j.Task.New(nil)
		if err != nil {
			u.Close()
			return nil, fmt.Errorf("making a world: %w", err)
		}
		u.workers = append(u.workers, &worker{Env: e, resizer: dataset.NewResizer(envs.FrameSize, u.info.FrameSize), px: make([]byte, envs.FrameBytes)})
	}
	return u, nil
}

// Close gives worlds and memory back; the model stays.
func (u *Unroller) Close() {
	u.encoder.Free()
	for _, w := range u.workers {
		w.Close()
	}
}

// Unroll takes candidates of Horizon blocks, C x (Horizon*ActionWidth) z-scored
// actions. The world goes on where it meets its goal; the goal is the row GoalOffset
// later, and the model sees the stored frame of the start.
func (u *Unroller) Unroll(ctx context.Context, s Start, candidates []float32) (out Unrolled, err error) {
	width := u.job.Horizon * u.info.ActionWidth
	n := len(candidates) / width
	size := u.info.FrameBytes()
	frames := make([]byte, (n+2)*size) // of each candidate's end; then start and goal
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
	for i, row := range []int{0, u.job.GoalOffset} {
		w := u.workers[0]
		if err := u.job.Data.Frame(u.job.Data.fileRow(s)+row, w.px); err != nil {
			return out, err
		}
		w.resizer.Resize(frame(n+i), w.px)
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

// execute takes all steps of one candidate and draws the last frame.
func (u *Unroller) execute(w *worker, s Start, actions []float64, frame []byte) (distance float64, met bool, err error) {
	spec := u.job.Task.Spec
	if err := u.job.Data.setTo(w, s, spec.Name, "unroll"); err != nil {
		return 0, false, err
	}
	for k := 0; k < len(actions); k += spec.ActionDim {
		out, err := w.Step(actions[k : k+spec.ActionDim])
		if err != nil {
			return 0, false, err
		}
		met = met || out.Terminated
	}
	goal, err := u.job.Data.row(u.job.Data.fileRow(s) + u.job.GoalOffset)
	if err != nil {
		return 0, false, err
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
