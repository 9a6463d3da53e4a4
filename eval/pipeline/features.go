package pipeline

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/features"
	"scalewm/model/train"
)

// openFeatures are what the frozen encoder of m makes of a training's frames, from the cache
// next to the data set or as they are needed.
func openFeatures(ctx context.Context, o train.Options, frames dataset.FrameReader, m model.World, cache features.Limit) (train.Features, error) {
	e, info := model.NewEncoder(m), m.Info()
	source, note, err := features.Open(ctx, features.Options{Data: o.Data, Frames: frames, Path: o.DataPath,
		Key:    features.Key{Backbone: info.Backbone, Resample: info.Resample, Device: m.Device().Kind().String(), Patches: info.Patches, Width: info.Dim},
		Encode: e.Latents, Limit: cache, Workers: o.Workers, Progress: o.Progress})
	if err != nil {
		e.Free()
		return nil, err
	}
	o.Note(note)
	return encoded{source, e}, nil
}

// encoded are features with the memory of their encoder.
type encoded struct {
	features.Source
	e *model.Encoder
}

func (e encoded) Close() error {
	e.e.Free()
	return e.Source.Close()
}
