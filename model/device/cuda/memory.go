package cuda

import (
	"slices"
	"unsafe"

	"scalewm/model/device"
)

// block is device memory for n elements. Releasing it clears the fields, so that
// releasing it twice is harmless.
type block struct {
	p    Pointer
	n    int
	size int // bytes as allocated
}

func (b *block) Len() int       { return b.n }
func (b *block) memory() *block { return b }

type (
	buffer struct {
		block
		elem    device.Elem
		weights weightCopies // if it holds weights: what GEMM reads of them
	}
	ints  struct{ block } // int32
	bytes struct{ block } // uint8
)

func (b *buffer) Elem() device.Elem { return b.elem }

// width returns the bytes of an element.
func width(e device.Elem) int {
	if e == device.BFloat16 {
		return 2
	}
	return 4
}

// pool keeps freed device memory for later requests of the same size. Asking the driver
// for memory takes a millisecond and waits for the GPU.
type pool struct {
	free map[int][]Pointer // by size
	all  map[Pointer]int   // sizes of everything allocated from the machine, free or not
	held int               // bytes of all
}

// reuse returns freed memory of a size, that of the lowest address. A caller that makes
// the same requests in the same order as before then gets the same addresses, whatever
// the order in which it freed them, and a graph of its launches needs no updates.
func (p *pool) reuse(size int) (Pointer, bool) {
	list := p.free[size]
	if len(list) == 0 {
		return 0, false
	}
	lowest := slices.Min(list)
	p.free[size] = slices.DeleteFunc(list, func(q Pointer) bool { return q == lowest })
	return lowest, true
}

// grain is the unit that sizes are rounded up to, in bytes.
const grain = 512

// take returns memory of at least n bytes, with undefined contents, and its size. When
// the machine has no more, take returns the pool's free memory to it and tries once
// again.
func (e *engine) take(n int) (Pointer, int) {
	size := max(grain, (n+grain-1)/grain*grain)
	if p, ok := e.pool.reuse(size); ok {
		return p, size
	}
	p, err := e.machine.Alloc(size)
	if err != nil && e.trim() {
		p, err = e.machine.Alloc(size)
	}
	if err != nil {
		e.fail(err)
		return 0, 0
	}
	e.pool.all[p] = size
	e.pool.held += size
	return p, size
}

// trim returns all free memory to the machine, after waiting for the kernels that may
// still use it. It reports whether there was any.
func (e *engine) trim() bool {
	e.Sync()
	any := false
	for size, list := range e.pool.free {
		for _, p := range list {
			e.machine.Free(p, size)
			delete(e.pool.all, p)
			e.pool.held -= size
			any = true
		}
	}
	clear(e.pool.free)
	return any
}

// alloc returns zeroed memory for n elements. It zeroes up to the rounded size, as
// floats.
func (e *engine) alloc(n, width int) block {
	b := e.reserve(n, width)
	if e.err == nil {
		e.fill(mat{p: b.p, rows: 1, cols: int64(b.size / 4), stride: int64(b.size / 4)}, 0)
	}
	return b
}

// reserve returns memory for n elements with undefined contents.
func (e *engine) reserve(n, width int) block {
	if e.err != nil {
		return block{n: n}
	}
	p, size := e.take(n * width)
	return block{p, n, size}
}

// Alloc and AllocInts zero the memory, as the contract demands; AllocBytes does not.
func (e *engine) Alloc(n int, elem device.Elem) device.Buffer {
	return &buffer{block: e.alloc(n, width(elem)), elem: elem}
}

func (e *engine) AllocInts(n int) device.Ints   { return &ints{e.alloc(n, 4)} }
func (e *engine) AllocBytes(n int) device.Bytes { return &bytes{e.reserve(n, 1)} }

// Free returns memory to the pool. It need not wait for kernels that use the memory:
// those of the next owner run after them.
func (e *engine) Free(b device.Block) {
	if b, numbers := b.(*buffer); numbers {
		for _, r := range b.weights.byPart {
			e.release(&r.block)
		}
	}
	e.release(b.(interface{ memory() *block }).memory())
}

// release returns a block's memory to the pool.
func (e *engine) release(b *block) {
	if b.p != 0 {
		e.pool.free[b.size] = append(e.pool.free[b.size], b.p)
	}
	*b = block{}
}

// scratch returns memory for n bytes in which a kernel leaves results for the following
// kernels of the same call. The next call of scratch returns the same memory.
func (e *engine) scratch(n int) Pointer { return e.grow(&e.work, n) }

// grow makes b memory for at least n bytes, with undefined contents.
func (e *engine) grow(b *block, n int) Pointer {
	if n > b.size {
		e.release(b)
		*b = e.reserve(n, 1)
	}
	return b.p
}

// dense returns m and true if its elements are contiguous floats; else scratch memory
// for a contiguous float copy of the same shape, and false.
func (e *engine) dense(m device.Mat) (mat, bool) {
	v := view(m)
	if m.Dense() && v.bf16 == 0 {
		return v, true
	}
	return mat{p: e.scratch(4 * m.Len()), rows: v.rows, cols: v.cols, stride: v.cols}, false
}

// Upload and Download transfer contiguous floats; other matrices pass through a copy
// kernel and scratch memory.
func (e *engine) Upload(dst device.Mat, src []float32) {
	if dst.Len() == 0 {
		return
	}
	changed(dst, false)
	to, direct := e.dense(dst)
	e.write(to.p, unsafe.Pointer(unsafe.SliceData(src)), 4*len(src))
	if !direct {
		e.each(kCopy, []mat{view(dst)}, []mat{to})
	}
}

func (e *engine) Download(dst []float32, src device.Mat) {
	if src.Len() == 0 {
		return
	}
	from, direct := e.dense(src)
	if !direct {
		e.each(kCopy, []mat{from}, []mat{view(src)})
	}
	e.read(unsafe.Pointer(unsafe.SliceData(dst)), from.p, 4*len(dst))
}

// hostStage returns a buffer of n floats on the host, valid until the next call.
func (e *engine) hostStage(n int) []float32 {
	if cap(e.stage) < n {
		e.stage = make([]float32, n)
	}
	return e.stage[:n]
}

// Upload64 and Download64 convert on the host.
func (e *engine) Upload64(dst device.Mat, src []float64) {
	narrow := e.hostStage(len(src))
	for i, v := range src {
		narrow[i] = float32(v)
	}
	e.Upload(dst, narrow)
}

func (e *engine) Download64(dst []float64, src device.Mat) {
	narrow := e.hostStage(len(dst))
	e.Download(narrow, src)
	for i, v := range narrow {
		dst[i] = float64(v)
	}
}

func (e *engine) UploadInts(dst device.Ints, src []int32) {
	e.write(dst.(*ints).p, unsafe.Pointer(unsafe.SliceData(src)), 4*len(src))
}

func (e *engine) DownloadInts(dst []int32, src device.Ints) {
	e.read(unsafe.Pointer(unsafe.SliceData(dst)), src.(*ints).p, 4*len(dst))
}

func (e *engine) UploadBytes(dst device.Bytes, src []byte) {
	e.write(dst.(*bytes).p, unsafe.Pointer(unsafe.SliceData(src)), len(src))
}

// view returns m as kernels see it, without an address if m is not given.
func view(m device.Mat) mat {
	if !m.IsSet() {
		return mat{}
	}
	b := m.Buf.(*buffer)
	return mat{b.p + Pointer(width(b.elem)*m.Off), int64(m.Rows), int64(m.Cols), int64(m.Stride), flag(b.elem == device.BFloat16)}
}

// flag returns 1 if b is true, else 0: booleans in arguments are int64.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// FreeBytes counts the pool's free memory as free.
func (e *engine) FreeBytes() int {
	if e.err != nil {
		return 0
	}
	free, err := e.machine.FreeBytes()
	e.fail(err)
	for size, list := range e.pool.free {
		free += size * len(list)
	}
	return free
}

// AllocHost returns ordinary memory after a failure, so that callers may continue until
// they check Err.
func (e *engine) AllocHost(n int) []byte {
	if n == 0 || e.err != nil {
		return make([]byte, n)
	}
	p, err := e.machine.AllocHost(n)
	if err != nil {
		e.fail(err)
		return make([]byte, n)
	}
	e.pinned[p] = n
	return unsafe.Slice((*byte)(p), n)
}

// FreeHost ignores memory that is not page-locked, which AllocHost returns after a
// failure.
func (e *engine) FreeHost(b []byte) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if n, ours := e.pinned[p]; ours {
		delete(e.pinned, p)
		e.fail(e.machine.FreeHost(p, n))
	}
}

// SendBytes submits the queue first: the copy must follow the launches so far, which
// may read dst.
func (e *engine) SendBytes(dst device.Bytes, at int, src []byte) {
	e.Submit()
	if len(src) > 0 && e.err == nil {
		e.fail(e.machine.Send(dst.(*bytes).p+Pointer(at), unsafe.Pointer(unsafe.SliceData(src)), len(src)))
	}
}

// WaitSent submits the queue first, since only later launches shall wait.
func (e *engine) WaitSent() {
	e.Submit()
	if e.err == nil {
		e.fail(e.machine.Await())
	}
}
