package dataset

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"scalewm/envs"
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
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	size := frames.Size() * frames.Size() * 3
	g, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			for row := from + w; row < to && ctx.Err() == nil; row += workers {
				if err := frames.Frame(row, dst[(row-from)*size:][:size]); err != nil {
					return fmt.Errorf("reading frames: %w", err)
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}
