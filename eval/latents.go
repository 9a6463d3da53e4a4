package eval

import (
	"context"

	"scalewm/dataset"
	"scalewm/envs/parallel"
)

// Latents are those of rows of the job's data by the job's model, P*D numbers a
// row: what `encode` writes.
func (j Job) Latents(ctx context.Context, rows []int) ([]float32, error) {
	e := newFrameEncoder(j.Arm.World)
	defer e.dev.Free(e.pixels)
	workers := parallel.Workers(j.Workers, encodeFrames)
	resize, stored := make([]*dataset.Resizer, workers), make([][]byte, workers)
	size := j.Data.FrameSize()
	for w := range workers {
		resize[w], stored[w] = dataset.NewResizer(size, e.info.FrameSize), make([]byte, 3*size*size)
	}
	frames := make([][]byte, encodeFrames)
	for i := range frames {
		frames[i] = e.newFrame()
	}
	z := make([]float32, 0, len(rows)*e.info.Patches*e.info.Dim)
	for from := 0; from < len(rows); from += encodeFrames {
		n := min(encodeFrames, len(rows)-from)
		err := parallel.For(ctx, workers, n, func(w, i int) error {
			if err := j.Data.Frame(rows[from+i], stored[w]); err != nil {
				return err
			}
			resize[w].Resize(frames[i], stored[w])
			return nil
		})
		if err != nil {
			return nil, err
		}
		part, err := e.latents(ctx, frames[:n])
		if err != nil {
			return nil, err
		}
		z = append(z, part...)
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
