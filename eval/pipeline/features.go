package pipeline

import (
	"context"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/features"
	"scalewm/model/train"
)

// features are what the frozen encoder of m makes of a task's frames, from the cache
// beside the data set or as they are needed.
func (s *Train) features(ctx context.Context, frames dataset.FrameReader, m model.World) (train.Features, error) {
	e, info := model.NewEncoder(m), m.Info()
	source, note, err := features.Open(ctx, features.Options{Data: s.w.now.file, Frames: frames, Path: s.w.dataPath(s.task.Spec.Name),
		Key:    features.Key{Backbone: info.Backbone, Resample: info.Resample, Device: m.Device().Kind().String(), Patches: info.Patches, Width: info.Dim},
		Encode: e.Latents, Limit: s.w.FeatureCache, Workers: s.w.Workers, Progress: s.w.Listener.Progress})
	if err != nil {
		e.Free()
		return nil, err
	}
	s.w.Listener.Note(note)
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
