package train

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/train/metrics"
)

// Trial takes training steps outside a training, for those who time them.
type Trial struct {
	t     *trainer
	batch *dataset.Batch
	still *feed // stripes that lie on the device
	fed   *feed // of the loader that Fed was called with last
}

// NewTrial is an untrained model with everything that a step needs: Dev, Method,
// Model, Config and, for a method whose loss sees it, Task.Q of the options.
func NewTrial(o Options) (*Trial, error) {
	t, err := newTrainer(o, 1000)
	if err != nil {
		return nil, err
	}
	dev, clips := o.Dev, o.Config.Batch
	frames := clips * t.info.ClipFrames()
	b := &dataset.Batch{Clips: make([]dataset.Clip, clips), Actions: make([]float32, frames*t.info.ActionWidth), Rows: make([]int32, frames),
		Episode: make([]int32, clips), Q: make([]float32, frames*t.q.Cols)}
	for i := range b.Episode {
		b.Episode[i] = int32(i)
	}
	for i := range b.Q {
		b.Q[i] = float32(i*7919%101)/50 - 1
	}
	for i := range b.Rows {
		b.Rows[i] = int32(i)
	}
	trial := &Trial{t: t, batch: b}
	if _, learns := t.model.(model.Learner); !learns {
		trial.still = newFeed(dev, stripes{}, nil, frames, t.info)
	} else {
		px := make([]byte, frames*t.info.FrameBytes())
		for i := range px {
			px[i] = byte(i * 7919 >> 3)
		}
		whole := dev.AllocBytes(len(px))
		dev.UploadBytes(whole, px)
		trial.still = newFeed(dev, nil, whole, frames, t.info)
	}
	trial.still.sent = b
	return trial, nil
}

// stripes are the features of no frames.
type stripes struct{}

func (stripes) Features(_ context.Context, _ []int32, dst []uint16) error {
	for i := range dst {
		dst[i] = uint16(0x3F80 | i*7919>>3&0x7F) // of 1 to 2
	}
	return nil
}

func (stripes) Close() error { return nil }

// Params counts the model's parameters.
func (t *Trial) Params() int { return t.t.model.Params().Len() }

// Step is one whole optimiser step on a batch of stripes whose frames are on the
// device: forward, losses, backward, clip, AdamW. It returns when it is done.
func (t *Trial) Step() error { return t.step(context.Background(), t.still, 0) }

// Fed is a step on the loader's batch of that number, as a training takes it.
func (t *Trial) Fed(ctx context.Context, l *dataset.Loader, n int) error {
	if t.fed == nil {
		t.fed = newFeed(t.t.dev, nil, nil, len(t.batch.Rows), t.t.info)
	}
	if t.fed.loader != l {
		t.fed.loader, t.fed.sent = l, nil
	}
	return t.step(ctx, t.fed, n)
}

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

// Free gives the memory back.
func (t *Trial) Free() {
	if t.still.whole != nil {
		t.t.dev.Free(t.still.whole)
	}
	t.still.free()
	if t.fed != nil {
		t.fed.free()
	}
	t.t.free()
}
