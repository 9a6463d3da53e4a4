package train

import (
	"scalewm/dataset"
	"scalewm/model/device"
	"scalewm/model/lewm"
)

// Trial takes training steps outside a training, for those who time them.
type Trial struct {
	t     *trainer
	batch *dataset.Batch
}

// NewTrial is an untrained LeWM with everything a step of it needs.
func NewTrial(dev device.Device, m lewm.Config, c Config) (*Trial, error) {
	t, err := newTrainer(Options{Dev: dev, Method: "lewm", Model: m, Config: c, Seed: 1}, 1000)
	if err != nil {
		return nil, err
	}
	frames := c.Batch * t.frames()
	b := &dataset.Batch{Clips: make([]dataset.Clip, c.Batch), Actions: make([]float32, frames*m.ActionWidth()),
		Pixels: make([]byte, frames*m.ImageSize*m.ImageSize*3)}
	for i := range b.Pixels {
		b.Pixels[i] = byte(i * 7919 >> 3)
	}
	return &Trial{t, b}, nil
}

// Params counts the model's parameters.
func (t *Trial) Params() int { return t.t.model.Params().Len() }

// Step is one whole optimiser step on a batch (nil: one of stripes): upload,
// forward, losses, backward, clip, AdamW. It returns when it is done.
func (t *Trial) Step(b *dataset.Batch) error {
	if b == nil {
		b = t.batch
	}
	t.t.step(b, t.t.draws("train", b.Step), nil)
	return t.t.dev.Err()
}

// Free gives the memory back.
func (t *Trial) Free() { t.t.free() }
