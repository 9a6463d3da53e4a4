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
	"scalewm/model/device"
	"scalewm/model/train/metrics"
)

// loop is a training under way.
type loop struct {
	o       Options
	plan    *plan
	t       *trainer
	at      point
	metrics *metrics.Log
	train   *feed
	val     *feed        // nil: too few validation clips
	whole   device.Bytes // all frames, once they are on the device
	times   []time.Duration
	waited  time.Duration // for the loaders of feeds that are closed
	last    metrics.Losses
}

// run does the steps that are left and finishes the training.
func (l *loop) run(ctx context.Context, frames dataset.FrameReader) (_ Result, err error) {
	o, began, from := l.o, time.Now(), l.at.step
	if l.metrics, err = metrics.Open(o.Out, l.at.metrics); err != nil {
		return Result{}, err
	}
	defer l.metrics.Close()
	defer l.close()
	if err := l.open(frames); err != nil {
		return Result{}, err
	}
	for l.at.step < l.plan.total {
		err := ctx.Err()
		if err == nil {
			err = l.next(ctx)
		}
		if err == nil && l.at.step == from+1 {
			err = l.reside(ctx, frames)
		}
		if err != nil {
			return Result{}, l.stop(ctx, err)
		}
	}
	c := newClock(from, began, l.times, l.waited+l.train.loader.Waited(), o.Config.Batch)
	c.Resident = l.whole != nil
	if err := writeClock(o.Out, c); err != nil {
		return Result{}, err
	}
	if err := l.plan.finish(l.t.model); err != nil {
		return Result{}, err
	}
	return Result{Weights: filepath.Join(o.Out, "weights.safetensors"), ID: l.plan.id, Steps: l.plan.total,
		Loss: l.last.Loss, MsStep: c.MsStep, LoaderWait: c.LoaderWait}, nil
}

// open makes the feeds; frames nil: all are on the device.
func (l *loop) open(frames dataset.FrameReader) (err error) {
	if l.train, err = l.feed(frames, l.plan.train, l.o.Config.Batch); err != nil {
		return err
	}
	if n := min(l.o.Config.Batch, len(l.plan.val)); n > 1 { // SIGReg needs two
		l.val, err = l.feed(frames, l.plan.val, n)
	}
	return err
}

func (l *loop) feed(frames dataset.FrameReader, clips []dataset.Clip, batch int) (*feed, error) {
	opt := dataset.LoaderOptions{Batch: batch, Frames: l.t.frames(), Skip: l.o.Model.FrameSkip, Seed: l.o.Seed,
		Workers: l.o.Workers, Action: l.plan.action, Pixels: l.o.Dev}
	if l.o.usesQ() {
		opt.Q, opt.QMoments = &l.o.Task.Q, l.plan.q
	}
	loader, err := dataset.NewLoader(l.o.Data, frames, clips, opt)
	if err != nil {
		return nil, err
	}
	f := newFeed(l.o.Dev, l.whole, batch*opt.Frames, 3*l.o.Model.ImageSize*l.o.Model.ImageSize)
	f.loader = loader
	return f, nil
}

// closeFeeds ends the background work.
func (l *loop) closeFeeds() {
	for _, f := range []*feed{l.train, l.val} {
		if f != nil {
			f.close()
		}
	}
	l.train, l.val = nil, nil
}

func (l *loop) close() {
	l.closeFeeds()
	if l.whole != nil {
		l.o.Dev.Free(l.whole)
	}
}

// reside moves the data set to the device, if it may. That is after a step, when
// all that a step needs has its memory.
func (l *loop) reside(ctx context.Context, frames dataset.FrameReader) (err error) {
	if !l.fits(frames) {
		return nil
	}
	whole, err := l.store(ctx, frames)
	if err != nil {
		return err
	}
	l.waited += l.train.loader.Waited()
	l.closeFeeds()
	l.whole = whole
	return l.open(nil)
}

// next is one step with everything that is due around it.
func (l *loop) next(ctx context.Context) error {
	n, cfg := l.at.step, l.o.Config
	began := time.Now()
	batch, frames, err := l.train.take(ctx, n)
	if err != nil {
		return err
	}
	d := l.t.draws("train", n)
	in := l.t.inputs(batch, frames, d)
	if n+1 < l.plan.total {
		if err := l.train.send(ctx, n+1); err != nil {
			return err
		}
	}
	row := metrics.Row{Step: n, Split: "train", LR: l.t.rate(n)}
	if n%cfg.DiagnosticEvery == 0 {
		row.Diagnostics = &metrics.Diagnostics{}
	}
	row.Losses, row.GradNorm = l.t.step(n, in, d, row.Diagnostics)
	if err := l.o.Dev.Err(); err != nil {
		return fmt.Errorf("training step %d: %w", n, err)
	}
	if err := l.t.finite(n, batch, row.Losses, row.GradNorm); err != nil {
		return err
	}
	l.at.step, l.last = n+1, row.Losses
	l.times = append(l.times, time.Since(began))
	if n%cfg.LogEvery == 0 || row.Diagnostics != nil || l.at.step == l.plan.total {
		if err := l.metrics.Write(row); err != nil {
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
	batches := min(l.o.Config.EvalBatches, l.val.loader.StepsPerEpoch())
	row := metrics.Row{Step: l.at.step - 1, Split: "val"}
	for i := range batches {
		b, frames, err := l.val.take(ctx, i)
		if err != nil {
			return err
		}
		d := l.t.draws("val", i)
		v := l.t.evaluate(l.t.inputs(b, frames, d), d)
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
	return l.metrics.Write(row)
}

// save writes a resume point after the metrics that it counts on.
func (l *loop) save() (err error) {
	if l.at.metrics, err = l.metrics.Flush(); err != nil {
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
