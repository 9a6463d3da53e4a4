package eval

import (
	"context"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/model"
)

// Latents encodes the frames at the given rows of the job's data set with w and
// returns P*D numbers for each row. The command encode writes them to a file. Frames
// are read by Workers goroutines and encoded EncodeBatch at a time; the result
// depends on neither.
func (j Job) Latents(ctx context.Context, w model.World, rows []int) ([]float32, error) {
	e := model.NewEncoder(w)
	defer e.Free()
	info := w.Info()
	frames, size, width := dataset.AtSize(j.Data.Source, info.FrameSize), info.FrameBytes(), info.Patches*info.Dim
	px, z := make([]byte, model.EncodeBatch*size), make([]float32, len(rows)*width)
	for from := 0; from < len(rows); from += model.EncodeBatch {
		n := min(model.EncodeBatch, len(rows)-from)
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

// ScaledActions returns the z-scored actions of rows [from, to), the input that the
// job's model was trained on.
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
