package cpu

// #include "engine.h"
import "C"

import (
	"math"
	"unsafe"

	"scalewm/model/device"
)

// block is C memory of n elements, aligned to cache lines. Go memory would also work, but
// kernels are faster on huge pages (see engine_alloc), and their arguments may then hold
// plain C pointers, which cgo's pointer checks allow.
type block struct {
	p unsafe.Pointer
	n int
}

func (b *block) Len() int       { return b.n }
func (b *block) memory() *block { return b }

type (
	buffer struct {
		block
		elem   device.Elem
		frozen bool
		packed map[factor]unsafe.Pointer // packed forms of views of a frozen buffer
	}
	ints  struct{ block } // int32
	bytes struct{ block } // uint8
)

func (b *buffer) Elem() device.Elem { return b.elem }

// width returns the size of a number in bytes.
func width(e device.Elem) int {
	if e == device.BFloat16 {
		return 2
	}
	return 4
}

// factor is the right-hand factor of a GEMM. It is the key under which a frozen
// buffer caches packed forms: the layout depends on the view and on the
// transposition.
type factor struct {
	b  device.Mat
	op device.Op
}

// slice returns the memory as a Go slice. It is valid until Free.
func (b *buffer) slice() []float32 { return unsafe.Slice((*float32)(b.p), b.n) }
func (b *ints) slice() []int32     { return unsafe.Slice((*int32)(b.p), b.n) }
func (b *bytes) slice() []byte     { return unsafe.Slice((*byte)(b.p), b.n) }

// A heap hands out blocks of memory on huge pages. A model has hundreds of buffers that are
// smaller than a huge page, and on small pages a virtual machine spends a tenth of a plan
// translating addresses. So blocks are cut from slabs, each of a quarter of what there is
// already, within 2 to 32 MB. A block that is freed is used again for one of its size.
type heap struct {
	own   map[unsafe.Pointer]int   // what engine_alloc gave: slabs and large blocks
	cut   map[unsafe.Pointer]int   // blocks of slabs, with their size
	spare map[int][]unsafe.Pointer // freed ones, by size
	rest  []byte                   // what is left of the last slab
	total int                      // bytes of own
}

func newHeap() heap {
	return heap{own: map[unsafe.Pointer]int{}, cut: map[unsafe.Pointer]int{}, spare: map[int][]unsafe.Pointer{}}
}

// take returns zeroed memory, or nil if there is none.
func (h *heap) take(size int) unsafe.Pointer {
	size = max(size+63, 64) &^ 63
	if n := len(h.spare[size]); n > 0 {
		p := h.spare[size][n-1]
		h.spare[size] = h.spare[size][:n-1]
		clear(unsafe.Slice((*byte)(p), size))
		h.cut[p] = size
		return p
	}
	slab := min(max(h.total/4, C.SLAB), 16*C.SLAB) &^ (C.SLAB - 1)
	if size > slab/2 {
		return h.grow(size)
	}
	if size > len(h.rest) {
		p := h.grow(slab)
		if p == nil {
			return nil
		}
		h.rest = unsafe.Slice((*byte)(p), slab)
	}
	p := unsafe.Pointer(&h.rest[0])
	h.rest = h.rest[size:]
	h.cut[p] = size
	return p
}

func (h *heap) grow(size int) unsafe.Pointer {
	p := C.engine_alloc(C.size_t(size))
	if p != nil {
		h.own[p] = size
		h.total += size
	}
	return p
}

// release takes back what take returned. Other pointers (nil, after a failed take) are
// ignored.
func (h *heap) release(p unsafe.Pointer) {
	if size, ok := h.cut[p]; ok {
		delete(h.cut, p)
		h.spare[size] = append(h.spare[size], p)
	} else if size, ok := h.own[p]; ok {
		delete(h.own, p)
		h.total -= size
		C.engine_free(p)
	}
}

// free gives everything back to the system.
func (h *heap) free() {
	for p := range h.own {
		C.engine_free(p)
	}
	*h = newHeap()
}

// alloc returns zeroed memory for n elements of the given size. If there is none, the
// device fails, and the block has a nil pointer that no kernel will see.
func (e *engine) alloc(n, size int) block {
	p := e.heap.take(n * size)
	if p == nil {
		e.fail("no memory for %d bytes (hint: a smaller batch or model)", n*size)
		return block{n: n}
	}
	return block{p, n}
}

func (e *engine) Alloc(n int, elem device.Elem) device.Buffer {
	return &buffer{block: e.alloc(n, width(elem)), elem: elem}
}

func (e *engine) AllocInts(n int) device.Ints   { return &ints{e.alloc(n, 4)} }
func (e *engine) AllocBytes(n int) device.Bytes { return &bytes{e.alloc(n, 1)} }

// Freeze allows Gemm to cache packed forms of b until the next upload.
func (e *engine) Freeze(b device.Buffer) { b.(*buffer).frozen = true }

// thaw drops the cached packed forms of a buffer whose numbers change.
func (e *engine) thaw(b *buffer) {
	for _, p := range b.packed {
		e.heap.release(p)
	}
	b.frozen, b.packed = false, nil
}

// packed returns the packed form of a GEMM's right-hand factor, or nil if its buffer
// is not frozen or the operation packs within its tasks (TN). The first call for a
// factor packs it.
func (e *engine) packed(f factor, g C.GemmArgs) unsafe.Pointer {
	b := f.b.Buf.(*buffer)
	if !b.frozen || f.op == device.TN || e.err != nil {
		return nil
	}
	if p, ok := b.packed[f]; ok {
		return p
	}
	// The first call, without dst, only computes the size.
	args := C.PackArgs{g: g}
	call(e, C.K_PACK, &args)
	p := e.alloc(int(args.size), 1).p
	args.dst = (*C.char)(p)
	call(e, C.K_PACK, &args)
	if b.packed == nil {
		b.packed = map[factor]unsafe.Pointer{}
	}
	b.packed[f] = p
	return p
}

func (e *engine) Free(b device.Block) {
	if b, ok := b.(*buffer); ok {
		e.thaw(b)
	}
	m := b.(interface{ memory() *block }).memory()
	e.heap.release(m.p)
	*m = block{}
}

// rows calls f with each row of m as a Go slice of float32, and with the position of
// the row's first element in a dense copy of m. f may read and write the row.
func (e *engine) rows(m device.Mat, f func(row []float32, at int)) {
	if e.err != nil || m.Len() == 0 {
		return
	}
	b := m.Buf.(*buffer)
	if b.elem == device.BFloat16 {
		b.rowsBF16(m, f)
		return
	}
	all := b.slice()
	for r := range m.Rows {
		at := m.Off + r*m.Stride
		f(all[at:at+m.Cols], r*m.Cols)
	}
}

// rowsBF16 is rows for bf16 storage: it converts each row to float32 before f and
// back after it. Rows that f only reads are written back with their old bits, since
// every bf16 number survives the round trip.
func (b *buffer) rowsBF16(m device.Mat, f func(row []float32, at int)) {
	all := unsafe.Slice((*uint16)(b.p), b.n)
	row := make([]float32, m.Cols)
	for r := range m.Rows {
		stored := all[m.Off+r*m.Stride:][:m.Cols]
		for c, v := range stored {
			row[c] = math.Float32frombits(uint32(v) << 16)
		}
		f(row, r*m.Cols)
		for c, v := range row {
			stored[c] = toBF16(v)
		}
	}
}

// toBF16 rounds to the nearest bf16, ties to even. Adding 0x7fff, plus 1 if the last
// kept bit is odd, carries into the upper half exactly when the lower half rounds up.
// NaN is handled first: the carry could turn it into an infinity or zero.
func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// invalidate drops the cached packed forms of a buffer that is uploaded to.
func (e *engine) invalidate(m device.Mat) {
	if b := m.Buf.(*buffer); b.frozen {
		e.thaw(b)
	}
}

func (e *engine) Upload(dst device.Mat, src []float32) {
	e.invalidate(dst)
	e.rows(dst, func(row []float32, at int) { copy(row, src[at:]) })
}

func (e *engine) Download(dst []float32, src device.Mat) {
	e.rows(src, func(row []float32, at int) { copy(dst[at:], row) })
}

func (e *engine) Upload64(dst device.Mat, src []float64) {
	e.invalidate(dst)
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

func (e *engine) UploadBytes(dst device.Bytes, src []byte) { e.SendBytes(dst, 0, src) }

// Device memory is host memory here, so FrameTransfer needs no second stream: SendBytes copies
// at once, and there is no memory on the device in which to cache frames.

func (e *engine) FreeBytes() int         { return 0 }
func (e *engine) AllocHost(n int) []byte { return make([]byte, n) }
func (e *engine) FreeHost([]byte)        {}
func (e *engine) WaitSent()              {}

func (e *engine) SendBytes(dst device.Bytes, at int, src []byte) {
	if e.err == nil {
		copy(dst.(*bytes).slice()[at:], src)
	}
}

// mat converts m to its C form, with a null pointer if m is not given.
func mat(m device.Mat) C.Mat {
	if !m.IsSet() {
		return C.Mat{}
	}
	b := m.Buf.(*buffer)
	return C.Mat{p: (*C.float)(unsafe.Add(b.p, width(b.elem)*m.Off)), rows: C.i64(m.Rows), cols: C.i64(m.Cols),
		stride: C.i64(m.Stride), bf16: flag(b.elem == device.BFloat16)}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
