package pipeline

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/features"
	"scalewm/model/train"
)

// openFeatures returns the features that the frozen encoder of m computes from a
// training's frames: from the cache next to the data set if they fit its limit, else
// computed on demand. The features own the encoder's memory; the caller closes them.
func openFeatures(ctx context.Context, o train.Options, frames dataset.FrameReader, m model.World, cache features.Limit) (train.Features, error) {
	e, info := model.NewEncoder(m), m.Info()
	source, note, err := features.Open(ctx, features.Options{Data: o.Data, Frames: frames, Path: o.DataPath,
		Key: features.Key{Backbone: info.Backbone, Resample: info.Resample, Device: m.Device().Kind().String(), Patches: info.Patches, Width: info.Dim,
			Float32: info.Goals}, // policies are trained on latents as they are (docs/sources.md#policy-training)
		Encode: e.Latents, Limit: cache, Workers: o.Workers, Progress: o.Progress})
	if err != nil {
		e.Free()
		return nil, err
	}
	o.Note(note)
	return encoded{source, e}, nil
}

// encoded is a source of features together with the encoder that it uses.
type encoded struct {
	features.Source
	e *model.Encoder
}

func (e encoded) Close() error {
	e.e.Free()
	return e.Source.Close()
}
