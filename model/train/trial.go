package train

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/train/metrics"
)

// Trial runs single training steps outside a run, for benchmarks.
type Trial struct {
	t     *trainer
	batch *dataset.Batch
	fixed *feed // of a synthetic batch whose frames stay on the device
	fed   *feed // of the loader that StepFrom was last called with, or nil
}

// NewTrial returns a Trial of an untrained model. It uses Dev, Method, Model and
// Config of the options, and Task.Q if the method's loss uses q. The batch has
// synthetic frames, and states that vary, so that no loss term is skipped.
func NewTrial(o Options) (*Trial, error) {
	t, err := newTrainer(o, 1000) // any number of steps will do: the rate does not affect the time
	if err != nil {
		return nil, err
	}
	dev, clips := o.Dev, o.Config.Batch
	frames := clips * t.info.ClipFrames()
	b := &dataset.Batch{Clips: make([]dataset.Clip, clips), Actions: make([]float32, frames*t.info.ActionWidth), Rows: make([]int32, frames),
		Episode: make([]int32, clips), Q: make([]float32, frames*t.q.Cols), Left: make([]float32, clips)}
	for i := range b.Episode {
		b.Episode[i], b.Left[i] = int32(i), 1
	}
	for i := range b.Q {
		b.Q[i] = float32(i*7919%101)/50 - 1
	}
	for i := range b.Rows {
		b.Rows[i] = int32(i)
	}
	px := make([]byte, frames*t.info.FrameBytes())
	for i := range px {
		px[i] = byte(i * 7919 >> 3)
	}
	trial := &Trial{t: t, batch: b}
	if _, learns := t.model.(model.Learner); learns {
		resident := dev.AllocBytes(len(px))
		dev.UploadBytes(resident, px)
		trial.fixed = newFeed(dev, nil, nil, resident, frames, t.info)
	} else {
		trial.fixed = newFeed(dev, nil, t.model.(model.World), nil, frames, t.info)
		dev.UploadBytes(trial.fixed.slots[0], px)
	}
	trial.fixed.sent = b
	return trial, nil
}

// Params returns the number of the model's parameters, including those of loss terms.
func (t *Trial) Params() int { return t.t.model.Params().Len() }

// Step runs one complete optimiser step on a synthetic batch that is on the device:
// forward with the encoder, losses, backward, clipping, AdamW. It returns when the
// step is done.
func (t *Trial) Step() error { return t.step(context.Background(), t.fixed, 0) }

// StepOnFeatures is Step without the frozen encoder, on the features that the last
// Step computed. They are on the device.
func (t *Trial) StepOnFeatures() error {
	frames := model.Batch{B: len(t.batch.Clips), Features: t.fixed.features.Mat}
	t.t.step(0, t.t.inputs(t.batch, frames, metrics.Train, 0), nil)
	return t.t.dev.Err()
}

// StepFrom runs a step on batch n of the loader, with the transfers that a run has. The
// transfer of batch n+1 overlaps with the step, so n should increase by one from call
// to call.
func (t *Trial) StepFrom(ctx context.Context, l *dataset.Loader, n int) error {
	if t.fed == nil {
		t.fed = newFeed(t.t.dev, nil, nil, nil, len(t.batch.Rows), t.t.info)
	}
	if t.fed.loader != l {
		t.fed.loader, t.fed.sent = l, nil
	}
	return t.step(ctx, t.fed, n)
}

// step runs a step on batch n of a feed.
func (t *Trial) step(ctx context.Context, f *feed, n int) error {
	b, frames, err := f.take(ctx, n)
	if err != nil {
		return err
	}
	in := t.t.inputs(b, frames, metrics.Train, n)
	if f == t.fed {
		if err := f.send(ctx, n+1); err != nil {
			return err
		}
	}
	t.t.step(n, in, nil)
	return t.t.dev.Err()
}

// Free releases all memory on the device.
func (t *Trial) Free() {
	if t.fixed.resident != nil {
		t.t.dev.Free(t.fixed.resident)
	}
	t.fixed.free()
	if t.fed != nil {
		t.fed.free()
	}
	t.t.free()
}
