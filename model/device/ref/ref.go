// Package ref implements device.Device in plain Go and float64. It is the reference
// with which all other backends are compared (device/devicetest), and the device on
// which gradients are checked by finite differences. Its loops read like the
// formulas; speed does not matter.
//
// All kernels run at once on the calling goroutine. Matrices are Go slices of
// float64, whatever element type was requested, so that nothing is rounded. Sums run
// in ascending order of their index. The meaning of each method is that of its
// namesake in package device; comments here add formulas where the code does not show
// them.
package ref

import "scalewm/model/device"

// engine implements device.Device on Go slices. It has no state.
type engine struct{}

// New returns a reference device. It never fails, and needs no Close.
func New() device.Device { return device.Checked(engine{}) }

// buffer implements device.Buffer. It reports Float32 for either element type: the
// checks of storage formats concern the other backends.
type buffer []float64

func (b buffer) Len() int          { return len(b) }
func (b buffer) Elem() device.Elem { return device.Float32 }

// ints implements device.Ints.
type ints []int32

func (b ints) Len() int { return len(b) }

// bytes implements device.Bytes.
type bytes []byte

func (b bytes) Len() int { return len(b) }

// Kind names the device in cells. Its results are those of any machine.
func (engine) Kind() device.Kind {
	return device.Kind{Backend: "ref", ISA: "plain", Precision: device.FP64}
}
func (engine) Traits() device.Traits { return device.Traits{RolloutRows: 1024, PlanRows: 4096} }

// Memory exhaustion panics in Go, so that a device without hardware has no errors.
func (engine) Err() error   { return nil }
func (engine) Sync()        {}
func (engine) Submit()      {}
func (engine) Close() error { return nil }

// row returns row r of m, to be read or written in place.
func row(m device.Mat, r int) []float64 {
	at := m.Off + r*m.Stride
	return m.Buf.(buffer)[at : at+m.Cols : at+m.Cols]
}

// set stores v as the only element of a 1x1 matrix.
func set(m device.Mat, v float64) { row(m, 0)[0] = v }

// scalar returns the only element of a 1x1 matrix.
func scalar(m device.Mat) float64 { return row(m, 0)[0] }

// The garbage collector frees memory, and nothing is cached that Freeze could allow.
func (engine) Alloc(n int, _ device.Elem) device.Buffer { return make(buffer, n) }
func (engine) Free(device.Block)                        {}
func (engine) Freeze(device.Buffer)                     {}

// Upload and Download convert between float32 and float64. Unlike other backends,
// Upload64 and Download64 lose no bits here.
func (engine) Upload(dst device.Mat, src []float32) {
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = float64(src[r*dst.Cols+c])
		}
	}
}

func (engine) Download(dst []float32, src device.Mat) {
	for r := range src.Rows {
		for c, v := range row(src, r) {
			dst[r*src.Cols+c] = float32(v)
		}
	}
}

func (engine) Upload64(dst device.Mat, src []float64) {
	for r := range dst.Rows {
		copy(row(dst, r), src[r*dst.Cols:])
	}
}

func (engine) Download64(dst []float64, src device.Mat) {
	for r := range src.Rows {
		copy(dst[r*src.Cols:], row(src, r))
	}
}

func (engine) AllocInts(n int) device.Ints               { return make(ints, n) }
func (engine) UploadInts(dst device.Ints, src []int32)   { copy(dst.(ints), src) }
func (engine) DownloadInts(dst []int32, src device.Ints) { copy(dst, src.(ints)) }
func (engine) AllocBytes(n int) device.Bytes             { return make(bytes, n) }
func (engine) UploadBytes(dst device.Bytes, src []byte)  { copy(dst.(bytes), src) }

// Device memory is host memory, so that SendBytes copies at once and there is nothing
// to wait for.
func (engine) FreeBytes() int                                 { return 0 }
func (engine) AllocHost(n int) []byte                         { return make([]byte, n) }
func (engine) FreeHost([]byte)                                {}
func (engine) SendBytes(dst device.Bytes, at int, src []byte) { copy(dst.(bytes)[at:], src) }
func (engine) WaitSent()                                      {}

func (engine) Fill(dst device.Mat, v float64) {
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = v
		}
	}
}

func (engine) Copy(dst, src device.Mat) {
	for r := range dst.Rows {
		copy(row(dst, r), row(src, r))
	}
}

// CopyBlocks copies row r of block i, for all blocks that both matrices hold.
func (engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	for i := range device.Blocks(dst, dstBlock, src, srcBlock, rows) {
		for r := range rows {
			out, in := row(dst, i*dstBlock+r), row(src, i*srcBlock+r)
			for c := range out {
				out[c] = put(out[c], in[c], add)
			}
		}
	}
}

// put returns v, or old+v if add.
func put(old, v float64, add bool) float64 {
	if add {
		return old + v
	}
	return v
}
