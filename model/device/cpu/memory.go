package cpu

// #include "engine.h"
import "C"

import (
	"unsafe"

	"scalewm/model/device"
)

// block is C memory of n elements. Memory of the Go heap would do as well, but
// large blocks are faster on huge pages, and kernels get plain C pointers.
type block struct {
	p unsafe.Pointer
	n int
}

func (b *block) Len() int { return b.n }

type (
	buffer struct{ block } // float32
	ints   struct{ block } // int32
	bytes  struct{ block } // uint8
)

func (b *buffer) slice() []float32 { return unsafe.Slice((*float32)(b.p), b.n) }
func (b *ints) slice() []int32     { return unsafe.Slice((*int32)(b.p), b.n) }
func (b *bytes) slice() []byte     { return unsafe.Slice((*byte)(b.p), b.n) }

func (e *engine) alloc(n, size int) block {
	p := C.engine_alloc(C.size_t(n * size))
	if p == nil {
		e.fail("no memory for %d bytes (hint: a smaller batch or model)", n*size)
		return block{n: n}
	}
	e.owned[p] = struct{}{}
	return block{p, n}
}

func (e *engine) Alloc(n int) device.Buffer     { return &buffer{e.alloc(n, 4)} }
func (e *engine) AllocInts(n int) device.Ints   { return &ints{e.alloc(n, 4)} }
func (e *engine) AllocBytes(n int) device.Bytes { return &bytes{e.alloc(n, 1)} }

func (e *engine) Free(b device.Buffer) {
	m := b.(*buffer)
	if _, mine := e.owned[m.p]; !mine {
		return
	}
	delete(e.owned, m.p)
	C.engine_free(m.p)
	m.p, m.n = nil, 0
}

// row is row r of m as a slice.
func row(m device.Mat, r int) []float32 {
	at := m.Off + r*m.Stride
	return m.Buf.(*buffer).slice()[at : at+m.Cols]
}

// rows calls f with each row of m and the same elements' place in a dense copy.
func (e *engine) rows(m device.Mat, f func(row []float32, at int)) {
	if e.err != nil || m.Len() == 0 {
		return
	}
	for r := range m.Rows {
		f(row(m, r), r*m.Cols)
	}
}

func (e *engine) Upload(dst device.Mat, src []float32) {
	e.rows(dst, func(row []float32, at int) { copy(row, src[at:]) })
}

func (e *engine) Download(dst []float32, src device.Mat) {
	e.rows(src, func(row []float32, at int) { copy(dst[at:], row) })
}

func (e *engine) Upload64(dst device.Mat, src []float64) {
	e.rows(dst, func(row []float32, at int) {
		for i := range row {
			row[i] = float32(src[at+i])
		}
	})
}

func (e *engine) Download64(dst []float64, src device.Mat) {
	e.rows(src, func(row []float32, at int) {
		for i, v := range row {
			dst[at+i] = float64(v)
		}
	})
}

func (e *engine) NewInts(src []int32) device.Ints {
	dst := e.AllocInts(len(src))
	e.UploadInts(dst, src)
	return dst
}

func (e *engine) UploadInts(dst device.Ints, src []int32) {
	if e.err == nil {
		copy(dst.(*ints).slice(), src)
	}
}

func (e *engine) DownloadInts(dst []int32, src device.Ints) {
	if e.err == nil {
		copy(dst, src.(*ints).slice())
	}
}

func (e *engine) UploadBytes(dst device.Bytes, src []byte) {
	if e.err == nil {
		copy(dst.(*bytes).slice(), src)
	}
}

// mat is m as C sees it; without a pointer where m is not given.
func mat(m device.Mat) C.Mat {
	if !m.Given() {
		return C.Mat{}
	}
	return C.Mat{
		p:    (*C.float)(unsafe.Add(m.Buf.(*buffer).p, 4*m.Off)),
		rows: C.i64(m.Rows), cols: C.i64(m.Cols), stride: C.i64(m.Stride),
	}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
