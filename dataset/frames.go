package dataset

import (
	"context"
	"fmt"

	"scalewm/envs"
	"scalewm/envs/parallel"
)

// FrameReader hands out frames of (size, size, 3) bytes by row, to many
// goroutines at once.
type FrameReader interface {
	Size() int
	Frame(row int, dst []byte) error
}

// Original is the FrameReader of a source's own frames.
func Original(src Source) FrameReader { return original{src} }

type original struct{ Source }

func (original) Size() int { return envs.FrameSize }

// ReadFrames fetches the frames of rows [from, to) into dst, with so many
// goroutines (0: one a core).
func ReadFrames(ctx context.Context, frames FrameReader, from, to int, dst []byte, workers int) error {
	size := frames.Size() * frames.Size() * 3
	return parallel.For(ctx, workers, to-from, func(_, i int) error {
		if err := frames.Frame(from+i, dst[i*size:][:size]); err != nil {
			return fmt.Errorf("reading frames: %w", err)
		}
		return nil
	})
}
