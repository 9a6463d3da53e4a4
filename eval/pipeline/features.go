package pipeline

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinowm"
	"scalewm/model/features"
	"scalewm/model/train"
)

// features are what the frozen encoder of m makes of a task's frames, from the cache
// beside the data set or as they are needed.
func (s *Train) features(ctx context.Context, frames dataset.FrameReader, m model.World) (train.Features, error) {
	e, info, resample := newFrameEncoder(m), m.Info(), ""
	if w, ok := m.(*dinowm.Model); ok {
		resample = w.Config().Backbone.Resample
	}
	source, note, err := features.Open(ctx, features.Options{Data: s.w.now.file, Frames: frames, Path: s.w.dataPath(s.task.Spec.Name),
		Key:    features.Key{Backbone: info.Backbone, Resample: resample, Device: m.Device().Kind().String(), Patches: info.Patches, Width: info.Dim},
		Encode: e.encode, Limit: s.w.FeatureCache, Workers: s.w.Workers, Progress: s.w.Listener.Progress})
	if err != nil {
		e.free()
		return nil, err
	}
	s.w.Listener.Note(note)
	return encoded{source, e}, nil
}

// encoded are features with the memory of their encoder.
type encoded struct {
	features.Source
	e *frameEncoder
}

func (e encoded) Close() error {
	e.e.free()
	return e.Source.Close()
}

// frameEncoder runs a model's encoder on frames of the host.
type frameEncoder struct {
	m       model.World
	px      device.Bytes
	latents device.Mat
}

// atOnce is how many frames are encoded together.
const atOnce = 64

func newFrameEncoder(m model.World) *frameEncoder {
	d, info := m.Device(), m.Info()
	return &frameEncoder{m, d.AllocBytes(atOnce * info.FrameBytes()), device.NewMat(d, atOnce*info.Patches, info.Dim)}
}

func (e *frameEncoder) free() {
	e.m.Device().Free(e.px)
	e.m.Device().Free(e.latents.Buf)
}

// encode writes the latents of n frames to dst.
func (e *frameEncoder) encode(frames []byte, n int, dst []float32) error {
	d, info := e.m.Device(), e.m.Info()
	for from := 0; from < n; from += atOnce {
		k := min(atOnce, n-from)
		z := e.latents.RowRange(0, k*info.Patches)
		d.UploadBytes(e.px, frames[from*info.FrameBytes():][:k*info.FrameBytes()])
		e.m.Encode(z, e.px, k)
		d.Download(dst[from*info.Patches*info.Dim:][:z.Len()], z)
	}
	return d.Err()
}
