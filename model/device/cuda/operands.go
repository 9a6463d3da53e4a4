package cuda

import "scalewm/model/device"

// Tensor-core kernels read operands that are stored as bf16, in rows that begin at
// multiples of 16 bytes, the unit of asynchronous copies. Other operands are rounded to
// a copy first. Copies of weights are cached until the weights change. Copies of
// activations and gradients are reused only by a GEMM that immediately follows.

const vectorBF16 = 8 // bf16 elements in 16 bytes

// weightCopies is the bf16 copies that GEMM has made of a buffer of weights. A part is
// either the rest of the buffer from one of its first eight elements on, chosen such
// that a matrix in it becomes aligned (most weights share the copy that starts at
// element 0), or a single matrix whose rows cannot be aligned that way.
type weightCopies struct {
	frozen bool // the elements do not change until the next Upload or AdamW
	byPart map[device.Mat]*roundedCopy
}

// invalidate marks all copies as out of date. frozen promises that the new elements stay.
func (c *weightCopies) invalidate(frozen bool) {
	c.frozen = frozen
	for _, r := range c.byPart {
		r.queued = 0
	}
}

// Freeze promises that the elements of b do not change until the next Upload, which
// permits caching bf16 copies.
func (e *engine) Freeze(b device.Buffer) {
	b.(*buffer).weights.frozen = true
}

// changed records that m has new elements; frozen promises that they stay, as with
// Freeze.
func changed(m device.Mat, frozen bool) {
	m.Buf.(*buffer).weights.invalidate(frozen)
}

// roundedCopy is memory for the bf16 copy of an operand.
type roundedCopy struct {
	block
	of     device.Mat // what was copied
	to     mat        // the copy
	queued int        // length of the queue when the copy was last known to be valid; 0: it is not
}

// validate records that the copy is valid when `launches` launches are queued, if a,
// the operand of the GEMM queued last, is this copy. If the GEMM had another operand,
// other launches may have changed what was copied.
func (r *roundedCopy) validate(a mat, launches int) {
	if r.queued = launches; r.to != a {
		r.queued = 0
	}
}

// aligned reports whether tensor-core kernels can read m as it is.
func aligned(m mat) bool { return m.bf16 != 0 && m.p%16 == 0 && m.stride%vectorBF16 == 0 }

// operands returns what a GEMM reads of a and b. In the backward pass the gradients of
// weights and of inputs follow each other and have the same a, the gradient of the
// output: it is rounded once.
func (e *engine) operands(a, b device.Mat) (left, right mat) {
	// The copy is valid only if nothing was queued since: a launch may have changed the
	// elements.
	if e.left.queued > 0 && e.left.queued == len(e.launches) && e.left.of == a {
		left = e.left.to
	} else {
		left = e.asBF16(&e.left, a)
	}
	if right, ok := e.frozenCopy(b); ok {
		return left, right
	}
	return left, e.asBF16(&e.right, b)
}

// frozenCopy returns the cached copy of a matrix of weights; false if m is not in a
// frozen float buffer.
func (e *engine) frozenCopy(m device.Mat) (mat, bool) {
	b := m.Buf.(*buffer)
	if !b.weights.frozen || b.elem != device.Float32 {
		return mat{}, false
	}
	if m.Stride%vectorBF16 != 0 {
		return e.cached(b, m).to, true
	}
	first := m.Off % vectorBF16
	v := e.cached(b, device.Mat{Buf: b, Off: first, Rows: 1, Cols: b.n - first, Stride: b.n - first}).to
	v.p += Pointer(2 * (m.Off - first))
	v.rows, v.cols, v.stride = int64(m.Rows), int64(m.Cols), int64(m.Stride)
	return v, true
}

// cached returns the copy of a part of b, made if it is not valid.
func (e *engine) cached(b *buffer, part device.Mat) *roundedCopy {
	r := b.weights.byPart[part]
	if r == nil {
		r = &roundedCopy{}
		if b.weights.byPart == nil {
			b.weights.byPart = map[device.Mat]*roundedCopy{}
		}
		b.weights.byPart[part] = r
	}
	if r.queued == 0 {
		e.asBF16(r, part)
		r.queued = 1
	}
	return r
}

// asBF16 returns m itself if it can be read as it is, else a copy in r.
func (e *engine) asBF16(r *roundedCopy, m device.Mat) mat {
	v := view(m)
	if aligned(v) {
		return v
	}
	to := e.reserveCopy(r, m)
	e.each(kCopy, []mat{to}, []mat{v})
	return to
}

// reserveCopy returns memory in r for a copy of m, with rows padded to multiples of 16
// bytes.
func (e *engine) reserveCopy(r *roundedCopy, m device.Mat) mat {
	to := mat{rows: int64(m.Rows), cols: int64(m.Cols), stride: int64(m.Cols+vectorBF16-1) / vectorBF16 * vectorBF16, bf16: 1}
	to.p = e.grow(&r.block, int(2*to.rows*to.stride))
	r.of, r.to, r.queued = m, to, 0
	return to
}

// roundedOutput returns where a kernel shall store its result m a second time, rounded,
// for the GEMM that reads it next. This saves the separate copy kernel. The matrix is
// empty if GEMM needs no copy of m. The caller calls markRounded after it has queued
// the kernel.
func (e *engine) roundedOutput(m device.Mat) mat {
	if e.prec != device.BF16 || aligned(view(m)) {
		return mat{}
	}
	return e.reserveCopy(&e.left, m)
}

// markRounded records that the kernel that writes the copy of m is queued.
func (e *engine) markRounded(m device.Mat) {
	if e.left.of == m {
		e.left.queued = len(e.launches)
	}
}
