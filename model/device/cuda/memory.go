package cuda

import (
	"slices"
	"unsafe"

	"scalewm/model/device"
)

// block is device memory for n elements. It keeps its address when it is given
// back, until the pool hands the memory to somebody else.
type block struct {
	p    Pointer
	n    int
	size int // bytes in the pool
}

func (b *block) Len() int       { return b.n }
func (b *block) memory() *block { return b }

type (
	buffer struct {
		block
		elem    device.Elem
		weights copies
	}
	ints  struct{ block } // int32
	bytes struct{ block } // uint8
)

func (b *buffer) Elem() device.Elem { return b.elem }

// width is the bytes of a number.
func width(e device.Elem) int {
	if e == device.BFloat16 {
		return 2
	}
	return 4
}

// pool keeps freed memory for the next who asks for as much: queries the driver
// takes a millisecond and waits for the GPU.
type pool struct {
	free map[int][]Pointer
	all  map[Pointer]int
	held int // bytes
}

// again takes freed memory, that of the lowest address: who asks for the same
// again, in the same order, gets the same, so that graphs need no updates.
func (p *pool) again(size int) (Pointer, bool) {
	list := p.free[size]
	if len(list) == 0 {
		return 0, false
	}
	lowest := slices.Min(list)
	p.free[size] = slices.DeleteFunc(list, func(q Pointer) bool { return q == lowest })
	return lowest, true
}

// grain is what sizes are rounded up to.
const grain = 512

// take gets memory of at least n bytes, with any contents. When the machine has
// no more, what is free here is given back to it once.
func (e *engine) take(n int) (Pointer, int) {
	size := max(grain, (n+grain-1)/grain*grain)
	if p, ok := e.pool.again(size); ok {
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

// trim gives free memory back to the machine, once nothing uses it any more.
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

// alloc is zeros, as many floats as the memory has.
func (e *engine) alloc(n, width int) block {
	b := e.reserve(n, width)
	if e.err == nil {
		e.fill(mat{p: b.p, rows: 1, cols: int64(b.size / 4), stride: int64(b.size / 4)}, 0)
	}
	return b
}

// reserve is memory with any contents.
func (e *engine) reserve(n, width int) block {
	if e.err != nil {
		return block{n: n}
	}
	p, size := e.take(n * width)
	return block{p, n, size}
}

func (e *engine) Alloc(n int, elem device.Elem) device.Buffer {
	return &buffer{block: e.alloc(n, width(elem)), elem: elem}
}

func (e *engine) AllocInts(n int) device.Ints   { return &ints{e.alloc(n, 4)} }
func (e *engine) AllocBytes(n int) device.Bytes { return &bytes{e.reserve(n, 1)} }

// Free returns memory to the pool. Kernels that still use it run before those of its next owner.
func (e *engine) Free(b device.Block) {
	if b, numbers := b.(*buffer); numbers {
		for _, r := range b.weights.made {
			e.giveBack(&r.block)
		}
	}
	e.giveBack(b.(interface{ memory() *block }).memory())
}

func (e *engine) giveBack(b *block) {
	if b.p != 0 {
		e.pool.free[b.size] = append(e.pool.free[b.size], b.p)
	}
	*b = block{}
}

// scratch is memory for n bytes that a kernel leaves to the next ones of the same call.
func (e *engine) scratch(n int) Pointer { return e.grow(&e.work, n) }

// grow makes b memory for at least n bytes, with any contents.
func (e *engine) grow(b *block, n int) Pointer {
	if n > b.size {
		e.giveBack(b)
		*b = e.reserve(n, 1)
	}
	return b.p
}

// dense is m if it is floats whose rows follow one another, else a dense
// stand-in of the same shape.
func (e *engine) dense(m device.Mat) (mat, bool) {
	v := view(m)
	if m.Dense() && v.bf16 == 0 {
		return v, true
	}
	return mat{p: e.scratch(4 * m.Len()), rows: v.rows, cols: v.cols, stride: v.cols}, false
}

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

// host is a buffer of n floats on the host.
func (e *engine) host(n int) []float32 {
	if cap(e.stage) < n {
		e.stage = make([]float32, n)
	}
	return e.stage[:n]
}

func (e *engine) Upload64(dst device.Mat, src []float64) {
	narrow := e.host(len(src))
	for i, v := range src {
		narrow[i] = float32(v)
	}
	e.Upload(dst, narrow)
}

func (e *engine) Download64(dst []float64, src device.Mat) {
	narrow := e.host(len(dst))
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

// view is m as kernels see it; without an address where m is not given.
func view(m device.Mat) mat {
	if !m.Given() {
		return mat{}
	}
	b := m.Buf.(*buffer)
	return mat{b.p + Pointer(width(b.elem)*m.Off), int64(m.Rows), int64(m.Cols), int64(m.Stride), flag(b.elem == device.BFloat16)}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Room counts what the pool would give back as free.
func (e *engine) Room() int {
	if e.err != nil {
		return 0
	}
	free, err := e.machine.Room()
	e.fail(err)
	for size, list := range e.pool.free {
		free += size * len(list)
	}
	return free
}

// AllocHost is memory of Go after a failure, so that callers may go on until they ask for Err.
func (e *engine) AllocHost(n int) []byte {
	if n == 0 || e.err != nil {
		return make([]byte, n)
	}
	p, err := e.machine.AllocHost(n)
	if err != nil {
		e.fail(err)
		return make([]byte, n)
	}
	e.locked[p] = n
	return unsafe.Slice((*byte)(p), n)
}

func (e *engine) FreeHost(b []byte) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if n, ours := e.locked[p]; ours {
		delete(e.locked, p)
		e.fail(e.machine.FreeHost(p, n))
	}
}

func (e *engine) SendBytes(dst device.Bytes, at int, src []byte) {
	e.Submit()
	if len(src) > 0 && e.err == nil {
		e.fail(e.machine.Send(dst.(*bytes).p+Pointer(at), unsafe.Pointer(unsafe.SliceData(src)), len(src)))
	}
}

func (e *engine) AwaitSent() {
	e.Submit()
	if e.err == nil {
		e.fail(e.machine.Await())
	}
}
