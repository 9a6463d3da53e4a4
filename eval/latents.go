package eval

import (
	"context"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/model"
)

// Latents are those of rows of the job's data by the model of its arm, P*D numbers a
// row: what `encode` writes.
func (j Job) Latents(ctx context.Context, w model.World, rows []int) ([]float32, error) {
	e := model.NewEncoder(w)
	defer e.Free()
	info := w.Info()
	frames, size, width := dataset.AtSize(j.Data.Source, info.FrameSize), info.FrameBytes(), info.Patches*info.Dim
	px, z := make([]byte, model.FramesAtOnce*size), make([]float32, len(rows)*width)
	for from := 0; from < len(rows); from += model.FramesAtOnce {
		n := min(model.FramesAtOnce, len(rows)-from)
		err := parallel.For(ctx, j.Workers, n, func(_, i int) error { return frames.Frame(rows[from+i], px[i*size:(i+1)*size]) })
		if err == nil {
			err = e.Latents(ctx, z[from*width:(from+n)*width], px[:n*size])
		}
		if err != nil {
			return nil, err
		}
		if j.Progress != nil {
			j.Progress(int64(from+n), int64(len(rows)), "frames")
		}
	}
	return z, nil
}

// ScaledActions are the z-scored actions of rows [from, to), as the job's model
// takes them.
func (j Job) ScaledActions(from, to int) ([]float32, error) {
	m, _, err := j.scaler()
	if err != nil {
		return nil, err
	}
	raw, err := j.Data.Read("action", from, to)
	if err != nil {
		return nil, err
	}
	z := make([]float32, len(raw))
	for i, v := range raw {
		z[i] = float32(m.Scale(i%len(m.Mean), v))
	}
	return z, nil
}
