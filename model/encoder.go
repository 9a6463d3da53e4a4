package model

import (
	"context"

	"scalewm/model/device"
)

// EncodeBatch is the number of frames that an Encoder encodes in one batch. It
// bounds the memory of the frames and of the encoder's activations. The latents do
// not depend on it, since in evaluation mode each frame is encoded independently of
// the others.
const EncodeBatch = 64

// Encoder encodes frames in host memory into latents of a World, in batches of
// EncodeBatch frames. It reuses its own buffers on the device from batch to batch.
// Like the World, it must be used by one goroutine at a time.
type Encoder struct {
	world World
	info  Info
	// pixels holds the frames of a batch, and z the latents of a batch,
	// (EncodeBatch*P) x D, before they are downloaded.
	pixels device.Bytes
	z      device.Mat
}

// NewEncoder returns an Encoder that uses w. The caller still owns w, and must call
// Free on the Encoder before it frees w.
func NewEncoder(w World) *Encoder {
	d, info := w.Device(), w.Info()
	return &Encoder{w, info, d.AllocBytes(EncodeBatch * info.FrameBytes()), device.NewMat(d, EncodeBatch*info.Patches, info.Dim)}
}

// Free releases the Encoder's buffers, but not its World.
func (e *Encoder) Free() {
	e.world.Device().Free(e.pixels)
	e.world.Device().Free(e.z.Buf)
}

// Into encodes n frames, n x Info.FrameBytes bytes, and writes their latents to dst,
// (n*P) x D, on the device. It stops between batches if ctx is cancelled.
func (e *Encoder) Into(ctx context.Context, dst device.Mat, frames []byte) error {
	return e.batches(ctx, frames, func(from, n int) {
		e.world.Encode(dst.RowRange(from*e.info.Patches, n*e.info.Patches), e.pixels, n)
	})
}

// Latents encodes n frames, n x Info.FrameBytes bytes, and writes their latents to
// dst, n x P*D numbers in host memory. It stops between batches if ctx is cancelled.
func (e *Encoder) Latents(ctx context.Context, dst []float32, frames []byte) error {
	width := e.info.Patches * e.info.Dim
	return e.batches(ctx, frames, func(from, n int) {
		z := e.z.RowRange(0, n*e.info.Patches)
		e.world.Encode(z, e.pixels, n)
		e.world.Device().Download(dst[from*width:(from+n)*width], z)
	})
}

// batches splits frames into batches, uploads each one to e.pixels and calls encode
// with the index of its first frame and its number of frames n. It returns the first
// error of ctx or of the device.
func (e *Encoder) batches(ctx context.Context, frames []byte, encode func(from, n int)) error {
	d, size := e.world.Device(), e.info.FrameBytes()
	all := len(frames) / size
	for from := 0; from < all; from += EncodeBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(EncodeBatch, all-from)
		d.UploadBytes(e.pixels, frames[from*size:(from+n)*size])
		encode(from, n)
		if err := d.Err(); err != nil {
			return err
		}
	}
	return nil
}
