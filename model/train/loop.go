package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
)

// loop is a training under way.
type loop struct {
	o       Options
	plan    *plan
	t       *trainer
	at      point
	metrics *metrics
	val     *dataset.Loader // nil: too few validation clips
	times   []time.Duration
	last    Losses
}

// run does the steps that are left and finishes the training.
func (l *loop) run(ctx context.Context, frames dataset.FrameReader) (_ Result, err error) {
	o, began, from := l.o, time.Now(), l.at.step
	if l.metrics, err = openMetrics(o.Out, l.at.metrics); err != nil {
		return Result{}, err
	}
	defer l.metrics.close()
	loader, err := l.loader(frames, l.plan.train, o.Config.Batch)
	if err != nil {
		return Result{}, err
	}
	defer loader.Close()
	if n := min(o.Config.Batch, len(l.plan.val)); n > 1 { // SIGReg needs two
		if l.val, err = l.loader(frames, l.plan.val, n); err != nil {
			return Result{}, err
		}
		defer l.val.Close()
	}
	for l.at.step < l.plan.total {
		err := ctx.Err()
		if err == nil {
			err = l.next(ctx, loader)
		}
		if err != nil {
			return Result{}, l.stop(ctx, err)
		}
	}
	c := newClock(from, began, l.times, loader.Waited(), o.Config.Batch)
	if err := writeClock(o.Out, c); err != nil {
		return Result{}, err
	}
	if err := l.plan.finish(l.t.model); err != nil {
		return Result{}, err
	}
	return Result{Weights: filepath.Join(o.Out, "weights.safetensors"), ID: l.plan.id, Steps: l.plan.total,
		Loss: l.last.Loss, MsStep: c.MsStep, LoaderWait: c.LoaderWait}, nil
}

func (l *loop) loader(frames dataset.FrameReader, clips []dataset.Clip, batch int) (*dataset.Loader, error) {
	opt := dataset.LoaderOptions{Batch: batch, Frames: l.o.Model.History + 1, Skip: l.o.Model.FrameSkip, Seed: l.o.Seed,
		Workers: l.o.Workers, Action: l.plan.action}
	if l.o.usesQ() {
		opt.Q, opt.QMoments = &l.o.Task.Q.Spec, l.plan.q
	}
	return dataset.NewLoader(l.o.Data, frames, clips, opt)
}

// next is one step with everything that is due around it.
func (l *loop) next(ctx context.Context, loader *dataset.Loader) error {
	n, cfg := l.at.step, l.o.Config
	began := time.Now()
	batch, err := loader.Batch(ctx, n)
	if err != nil {
		return err
	}
	row := Row{Step: n, Split: "train", LR: l.t.rate(n)}
	if n%cfg.DiagnosticEvery == 0 {
		row.Diagnostics = &Diagnostics{}
	}
	row.Losses, row.GradNorm = l.t.step(batch, l.t.draws("train", n), row.Diagnostics)
	if err := l.o.Dev.Err(); err != nil {
		return fmt.Errorf("training step %d: %w", n, err)
	}
	if err := l.t.finite(n, batch, row.Losses, row.GradNorm); err != nil {
		return err
	}
	l.at.step, l.last = n+1, row.Losses
	l.times = append(l.times, time.Since(began))
	if n%cfg.LogEvery == 0 || row.Diagnostics != nil || l.at.step == l.plan.total {
		if err := l.metrics.write(row); err != nil {
			return err
		}
	}
	if l.o.Progress != nil {
		rate := float64(cfg.Batch) / l.times[len(l.times)-1].Seconds()
		l.o.Progress(int64(l.at.step), int64(l.plan.total), fmt.Sprintf("loss %.4f  %.0f clips/s", row.Loss, rate))
	}
	if l.at.step%cfg.EvalEvery == 0 || l.at.step == l.plan.total {
		// Not interruptible: a resume point of this step counts on its row.
		if err := l.validate(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if l.at.step%cfg.SaveEvery == 0 && l.at.step < l.plan.total {
		if err := l.keepStep(); err != nil {
			return err
		}
		return l.save()
	}
	return nil
}

// validate runs the losses in evaluation mode on the first batches of the
// validation clips, the same ones each time.
func (l *loop) validate(ctx context.Context) error {
	if l.val == nil {
		return nil
	}
	batches := min(l.o.Config.EvalBatches, l.val.StepsPerEpoch())
	row := Row{Step: l.at.step - 1, Split: "val"}
	for i := range batches {
		b, err := l.val.Batch(ctx, i)
		if err != nil {
			return err
		}
		v := l.t.evaluate(b, l.t.draws("val", i))
		if err := l.t.finite(row.Step, b, v, 0); err != nil {
			return fmt.Errorf("validating: %w", err)
		}
		n := float64(batches)
		row.Loss += v.Loss / n
		row.Pred += v.Pred / n
		row.SIGReg += v.SIGReg / n
		row.Obj += v.Obj / n
		row.Skipped += v.Skipped / n
	}
	if err := l.keepBest(row.Loss); err != nil {
		return err
	}
	return l.metrics.write(row)
}

// save writes a resume point after the metrics that it counts on.
func (l *loop) save() (err error) {
	if l.at.metrics, err = l.metrics.flush(); err != nil {
		return fmt.Errorf("writing metrics: %w (hint: is the disk full?)", err)
	}
	return l.t.save(l.o.Out, l.plan.id, l.at)
}

// stop ends an unfinished training: an interruption leaves a resume point.
func (l *loop) stop(ctx context.Context, cause error) error {
	if ctx.Err() == nil || !errors.Is(cause, ctx.Err()) {
		return cause
	}
	if err := l.save(); err != nil {
		return err
	}
	return fmt.Errorf("training stopped after step %d of %d, which a resume point in %s holds: %w", l.at.step, l.plan.total, l.o.Out, ctx.Err())
}

func writeClock(out string, c clock) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing run.json: %w", err)
	}
	return cell.WriteFile(filepath.Join(out, "run.json"), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}
