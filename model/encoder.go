package model

import (
	"context"

	"scalewm/model/device"
)

// FramesAtOnce is how many frames an Encoder encodes together: it bounds the memory that they
// and the encoder's layers take. No latent depends on it.
const FramesAtOnce = 64

// Encoder turns frames of the host into latents of a World, FramesAtOnce of them together. It
// owns the memory that they take on their way, until Free. Like the World it is used by one
// goroutine at a time.
type Encoder struct {
	world  World
	info   Info
	pixels device.Bytes
	z      device.Mat // latents on their way to the host
}

// NewEncoder is an Encoder of w, which stays the caller's.
func NewEncoder(w World) *Encoder {
	d, info := w.Device(), w.Info()
	return &Encoder{w, info, d.AllocBytes(FramesAtOnce * info.FrameBytes()), device.NewMat(d, FramesAtOnce*info.Patches, info.Dim)}
}

// Free gives the memory back.
func (e *Encoder) Free() {
	e.world.Device().Free(e.pixels)
	e.world.Device().Free(e.z.Buf)
}

// Into writes the latents of n frames, n x Info.FrameBytes bytes, into dst, (n*P) x D.
func (e *Encoder) Into(ctx context.Context, dst device.Mat, frames []byte) error {
	return e.batches(ctx, frames, func(from, n int) {
		e.world.Encode(dst.RowRange(from*e.info.Patches, n*e.info.Patches), e.pixels, n)
	})
}

// Latents writes those of n frames, n x Info.FrameBytes bytes, into dst, n x P*D numbers of the host.
func (e *Encoder) Latents(ctx context.Context, dst []float32, frames []byte) error {
	width := e.info.Patches * e.info.Dim
	return e.batches(ctx, frames, func(from, n int) {
		z := e.z.RowRange(0, n*e.info.Patches)
		e.world.Encode(z, e.pixels, n)
		e.world.Device().Download(dst[from*width:(from+n)*width], z)
	})
}

// batches uploads frames and has each batch of n encoded, which begins with frame from.
func (e *Encoder) batches(ctx context.Context, frames []byte, encode func(from, n int)) error {
	d, size := e.world.Device(), e.info.FrameBytes()
	all := len(frames) / size
	for from := 0; from < all; from += FramesAtOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(FramesAtOnce, all-from)
		d.UploadBytes(e.pixels, frames[from*size:(from+n)*size])
		encode(from, n)
		if err := d.Err(); err != nil {
			return err
		}
	}
	return nil
}
