package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// Run trains a model and writes the run to Options.Out: weights.safetensors and its
// sidecar once it is finished, metrics.jsonl, run.json with the measured times, and a
// resume point while it is unfinished.
//
// The same call resumes a run that was interrupted, and returns at once, with
// Result.Skipped set, if the run is finished. If a file of a finished run is damaged,
// it trains again. Run holds a lock on the folder and waits for another process that
// holds it.
//
// An interruption through ctx writes a resume point and returns an error that wraps
// ctx.Err().
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	l, err := newLoop(o)
	if err != nil {
		return Result{}, err
	}
	if o.Resume && !l.hasState() {
		return Result{}, fmt.Errorf("--resume: %s has no resume point (hint: leave --resume out to train from the start)", o.Out)
	}
	release, err := safefile.Lock(ctx, o.Out, safefile.LockOptions{Break: o.BreakLock, Note: o.Note})
	r := Result{Weights: filepath.Join(o.Out, weights.FileName), ID: l.side.ID, Steps: l.total}
	// A read-only folder cannot be locked. It need not be if the run in it is finished.
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		if r.Skipped, _ = l.finished(); !r.Skipped {
			return Result{}, err
		}
	} else if err != nil {
		return Result{}, err
	} else {
		defer release()
		if r.Skipped, err = l.finished(); err != nil {
			return Result{}, err
		}
	}
	if r.Skipped {
		l.noteUnkept(l.total)
		r.Loss = metrics.FinalLoss(o.Out)
		return r, nil
	}
	if l.t, err = newTrainer(o, l.total); err != nil {
		return Result{}, err
	}
	defer l.t.free()
	if err := l.resume(); err != nil {
		return Result{}, err
	}
	l.noteUnkept(l.at.step)
	if o.Begin != nil {
		if err := o.Begin(); err != nil {
			return Result{}, err
		}
	}
	if !o.Method.Trained() {
		return r, l.finish()
	}
	open := o.OpenFrames
	if o.Frames != nil {
		open = o.Frames
	}
	frames, free, err := open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer free()
	if text := l.t.info.Note(); text != "" {
		l.note("%s", text)
	}
	_, learns := l.t.model.(model.Learner)
	switch {
	case learns:
	case encodesOnDevice(o.Dev, l.t.info):
		l.encoder = l.t.model.(model.World)
		l.note("features are computed on the device in every step, and no cache is used")
	default:
		if l.features, err = o.Features(ctx, frames, l.t.model.(model.World)); err != nil {
			return Result{}, err
		}
		defer l.features.Close()
	}
	c, err := l.run(ctx, frames)
	if err != nil {
		return Result{}, err
	}
	r.Loss, r.MsStep, r.LoaderWait = metrics.FinalLoss(o.Out), c.MsStep, c.LoaderWait
	return r, nil
}

// note formats a message for Options.Note.
func (l *loop) note(format string, args ...any) {
	if l.o.Note != nil {
		l.o.Note(fmt.Sprintf(format, args...))
	}
}

// loop is the state of a run in progress.
type loop struct {
	o     Options
	clips clips
	total int             // optimiser steps of the entire run
	side  weights.Sidecar // template for the sidecars of all checkpoints
	t     *trainer
	at    point // position, as the next resume point will record it

	metrics    *metrics.Log
	train, val *feed           // val is nil if there are fewer than two validation clips
	features   Features        // of a frozen encoder, unless encoder computes them
	encoder    model.World     // the model, if each step computes features on the device
	resident   device.Bytes    // all frames, once they are on the device
	times      []time.Duration // of each step in this process
	waited     time.Duration   // time spent waiting for the loaders of closed feeds
}

// newLoop checks the data set and determines the clips, the number of steps and the
// id of the run. It does not allocate memory on the device.
func newLoop(o Options) (*loop, error) {
	fp, err := o.Data.Fingerprint()
	if err != nil {
		return nil, err
	}
	l := &loop{o: o}
	if l.clips, err = newClips(o, fp); err != nil {
		return nil, err
	}
	switch {
	case !o.Method.Trained():
	case o.Config.Steps > 0:
		l.total = o.Config.Steps
	default:
		l.total = o.Config.Epochs * (len(l.clips.Train) / o.Config.Batch)
	}
	l.side, err = sidecar(o, l.clips, l.total, fp)
	return l, err
}

// run performs the remaining steps and finishes the run.
func (l *loop) run(ctx context.Context, frames dataset.FrameReader) (c Clock, err error) {
	began, from := time.Now(), l.at.step
	if l.metrics, err = metrics.Open(l.o.Out, l.at.metrics); err != nil {
		return c, err
	}
	defer l.metrics.Close()
	defer l.close()
	if err := l.openFeeds(frames); err != nil {
		return c, err
	}
	// Each iteration is a step and what follows it. After a resumption the first
	// iteration may have only the latter to do.
	for l.at.step < l.total || l.at.due {
		err := ctx.Err()
		if err == nil && !l.at.due {
			err = l.next(ctx)
		}
		if err == nil {
			err = l.afterStep(ctx)
		}
		if err == nil && l.at.step == from+1 {
			err = l.makeResident(ctx, frames)
		}
		if err != nil {
			return c, l.stop(ctx, err)
		}
	}
	c = newClock(from, began, l.times, l.waited+l.train.loader.Waited(), l.o.Config.Batch)
	c.Resident = l.resident != nil
	if err := c.write(l.o.Out); err != nil {
		return c, err
	}
	return c, l.finish()
}

// next performs one step and writes its row of metrics. It starts to copy the frames
// of the following step before the kernels of this one.
func (l *loop) next(ctx context.Context) error {
	n, cfg := l.at.step, l.o.Config
	began := time.Now()
	batch, frames, err := l.train.take(ctx, n)
	if err != nil {
		return err
	}
	in := l.t.inputs(batch, frames, metrics.Train, n)
	if n+1 < l.total {
		if err := l.train.send(ctx, n+1); err != nil {
			return err
		}
	}
	row := metrics.Row{Step: n, Split: metrics.Train, LR: l.t.rate(n)}
	// The latents of a frozen encoder do not change and have no gradients: no diagnostics.
	if n%cfg.DiagnosticEvery == 0 && l.features == nil && l.encoder == nil {
		row.Diagnostics = &metrics.Diagnostics{}
	}
	row.Losses, row.GradNorm = l.t.step(n, in, row.Diagnostics)
	if err := l.o.Dev.Err(); err != nil {
		return fmt.Errorf("training step %d: %w", n, err)
	}
	if err := l.t.checkFinite(n, batch, row.Losses, row.GradNorm); err != nil {
		return err
	}
	l.at.step, l.at.due = n+1, true
	l.times = append(l.times, time.Since(began))
	if n%cfg.LogEvery == 0 || row.Diagnostics != nil || l.at.step == l.total {
		if err := l.metrics.Write(row); err != nil {
			return err
		}
	}
	if l.o.Progress != nil {
		rate := float64(cfg.Batch) / l.times[len(l.times)-1].Seconds()
		l.o.Progress(int64(l.at.step), int64(l.total), fmt.Sprintf("loss %.4f  %.0f clips/s", row.Loss, rate))
	}
	return nil
}

// afterStep validates, writes a resume point and writes weights that stay, after the
// steps where they are due.
// The point is no longer due once the validation is complete. If it is interrupted,
// the resume point records that it must be repeated.
func (l *loop) afterStep(ctx context.Context) error {
	cfg := l.o.Config
	if l.at.step%cfg.EvalEvery == 0 || l.at.step == l.total {
		if err := l.validate(ctx); err != nil {
			return err
		}
	}
	l.at.due = false
	if l.at.step%cfg.SaveEvery == 0 && l.at.step < l.total {
		if err := l.saveStep(); err != nil {
			return err
		}
		return l.save()
	}
	if l.keeps(l.at.step) {
		return l.checkpoint(stepName(l.at.step), "step")
	}
	return nil
}

// validate computes the losses in evaluation mode on the first EvalBatches batches of
// the validation clips, the same ones each time, and writes the mean to the metrics.
// It saves the weights if they are the best so far.
func (l *loop) validate(ctx context.Context) error {
	if l.val == nil {
		return nil
	}
	batches := min(l.o.Config.EvalBatches, l.val.loader.StepsPerEpoch())
	row := metrics.Row{Step: l.at.step - 1, Split: metrics.Val}
	for i := range batches {
		b, frames, err := l.val.take(ctx, i)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		v := l.t.evaluate(l.t.inputs(b, frames, metrics.Val, i))
		if err := l.t.checkFinite(row.Step, b, v, 0); err != nil {
			return fmt.Errorf("validating: %w", err)
		}
		n := float64(batches)
		row.Loss += v.Loss / n
		row.Pred += v.Pred / n
		row.SIGReg += v.SIGReg / n
		row.Obj += v.Obj / n
		row.Skipped += v.Skipped / n
	}
	if err := l.saveBest(row.Loss); err != nil {
		return err
	}
	return l.metrics.Write(row)
}

// stop ends an unfinished run. If cause is the interruption of ctx, stop writes a
// resume point. After any other error it writes nothing, so that the last resume
// point stays.
func (l *loop) stop(ctx context.Context, cause error) error {
	if ctx.Err() == nil || !errors.Is(cause, ctx.Err()) {
		return cause
	}
	if err := l.save(); err != nil {
		return err
	}
	return fmt.Errorf("training stopped after step %d of %d, with a resume point in %s: %w", l.at.step, l.total, l.o.Out, ctx.Err())
}
