package train

import (
	"context"
	"fmt"

	"scalewm/dataset"
	"scalewm/model/device"
	"scalewm/model/lewm"
)

// feed brings the batches of one split to the device. Frames of the next step are
// on their way while this one runs; or all frames of the data set are on the device
// and a step sends their numbers.
type feed struct {
	dev    device.Device
	loader *dataset.Loader
	slots  [2]device.Bytes // frames of even and odd steps
	whole  device.Bytes    // all frames, by row; nil: batches are sent
	rows   device.Ints     // those of a batch, in whole
	sent   *dataset.Batch  // the last that was sent
}

// newFeed is one for batches of so many frames of so many bytes; whole is not its own.
func newFeed(dev device.Device, whole device.Bytes, frames, size int) *feed {
	f := &feed{dev: dev, whole: whole}
	if whole != nil {
		f.rows = dev.AllocInts(frames)
		return f
	}
	for i := range f.slots {
		f.slots[i] = dev.AllocBytes(frames * size)
	}
	return f
}

// free gives the memory back, once nothing is on its way to it.
func (f *feed) free() {
	f.dev.Sync()
	if f.whole != nil {
		f.dev.Free(f.rows)
		return
	}
	for _, s := range f.slots {
		f.dev.Free(s)
	}
}

// close is free, and ends the loader.
func (f *feed) close() {
	f.dev.Sync() // before the loader frees what is read
	f.loader.Close()
	f.free()
}

// send takes the batch of a step from the loader and lets its frames go.
func (f *feed) send(ctx context.Context, step int) error {
	b, err := f.loader.Batch(ctx, step)
	if err != nil {
		return err
	}
	f.sent = b
	if f.whole == nil {
		f.dev.SendBytes(f.slots[step%2], 0, b.Pixels)
	}
	return nil
}

// take is the batch of a step, and its frames for the kernels from now on.
func (f *feed) take(ctx context.Context, step int) (*dataset.Batch, lewm.Batch, error) {
	if f.sent == nil || f.sent.Step != step {
		if err := f.send(ctx, step); err != nil {
			return nil, lewm.Batch{}, err
		}
	}
	b := f.sent
	f.dev.AwaitSent()
	if f.whole == nil {
		return b, lewm.Batch{B: len(b.Clips), Pixels: f.slots[step%2]}, nil
	}
	f.dev.UploadInts(f.rows, b.Rows)
	return b, lewm.Batch{B: len(b.Clips), Pixels: f.whole, Frames: f.rows}, nil
}

// Bounds of what is kept on the device.
const (
	share = 0.75     // of the memory that a step leaves free
	piece = 64 << 20 // bytes that are read while as many are sent
)

// fits says whether all frames may be kept on the device: if they fit beside
// what a step took, and the steps that are left would send more.
func (l *loop) fits(frames dataset.FrameReader) bool {
	rows := l.o.Data.Rows()
	left := (l.plan.total - l.at.step) * l.o.Config.Batch * l.t.frames()
	return left > rows && float64(rows*frameBytes(frames)) <= share*float64(l.o.Dev.Room())
}

func frameBytes(frames dataset.FrameReader) int { return 3 * frames.Size() * frames.Size() }

// store sends all frames to the device, by row: a piece is read with all workers
// while the one before is on its way.
func (l *loop) store(ctx context.Context, frames dataset.FrameReader) (device.Bytes, error) {
	dev, rows, size := l.o.Dev, l.o.Data.Rows(), frameBytes(frames)
	per := min(rows, max(1, piece/size))
	whole := dev.AllocBytes(rows * size)
	host := [2][]byte{dev.AllocHost(per * size), dev.AllocHost(per * size)}
	defer func() {
		dev.Sync()
		dev.FreeHost(host[0])
		dev.FreeHost(host[1])
	}()
	for from, i := 0, 0; from < rows; from, i = from+per, i+1 {
		to := min(from+per, rows)
		err := dataset.ReadFrames(ctx, frames, from, to, host[i%2], l.o.Workers)
		dev.Sync() // the piece before is there
		if err == nil {
			dev.SendBytes(whole, from*size, host[i%2][:(to-from)*size])
			err = dev.Err()
		}
		if err != nil {
			dev.Free(whole)
			return nil, fmt.Errorf("bringing all frames to the device: %w", err)
		}
		if l.o.Progress != nil {
			l.o.Progress(int64(to), int64(rows), "frames to the device")
		}
	}
	return whole, nil
}
