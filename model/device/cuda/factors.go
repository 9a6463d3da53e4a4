package cuda

import "scalewm/model/device"

// Tensor cores read factors that are stored as bf16 in rows which begin at
// multiples of 16 bytes. Others are rounded to a copy first: weights once in
// every life of their numbers, anything else for the products that follow one another.

const lanes = 8 // bf16 numbers in 16 bytes

// copies are what products read of a buffer of weights, by what was copied: the
// whole buffer, from its first number on or from as many numbers later as bring a
// matrix to a multiple of 16 bytes; or one matrix whose rows begin anywhere.
type copies struct {
	kept bool // the numbers stay until Upload or AdamW
	made map[device.Mat]*rounding
}

// keep says that the numbers are new, and whether they stay.
func (c *copies) keep(stay bool) {
	c.kept = stay
	for _, r := range c.made {
		r.queued = 0
	}
}

// Freeze promises that the numbers of b stay until they are uploaded anew.
func (e *engine) Freeze(b device.Buffer) {
	b.(*buffer).weights.kept = true
}

// changed: other numbers are in m; stay promises that they do, as with Freeze.
func changed(m device.Mat, stay bool) {
	m.Buf.(*buffer).weights.keep(stay)
}

// rounding is memory for the copy of a factor.
type rounding struct {
	block
	of     device.Mat
	to     mat
	queued int // launches when it was last known to be up to date; 0: it is not
}

// keep says how many launches were queued after the product of a; what is a copy of
// something else may be out of date.
func (r *rounding) keep(a mat, launches int) {
	if r.queued = launches; r.to != a {
		r.queued = 0
	}
}

// aligned says whether tensor cores can read m as it is.
func aligned(m mat) bool { return m.bf16 != 0 && m.p%16 == 0 && m.stride%lanes == 0 }

// factors are what a product reads of a and b. The gradients of weights and of
// inputs have the same a, and follow one another: it is rounded once.
func (e *engine) factors(a, b device.Mat) (left, right mat) {
	// A launch since the product before this one may have changed the numbers.
	if e.left.queued > 0 && e.left.queued == len(e.launches) && e.left.of == a {
		left = e.left.to
	} else {
		left = e.rounded(&e.left, a)
	}
	if right, kept := e.kept(b); kept {
		return left, right
	}
	return left, e.rounded(&e.right, b)
}

// kept is a matrix of weights in a copy that is made once.
func (e *engine) kept(m device.Mat) (mat, bool) {
	b := m.Buf.(*buffer)
	if !b.weights.kept || b.elem != device.Float32 {
		return mat{}, false
	}
	if m.Stride%lanes != 0 {
		return e.once(b, m).to, true
	}
	first := m.Off % lanes
	v := e.once(b, device.Mat{Buf: b, Off: first, Rows: 1, Cols: b.n - first, Stride: b.n - first}).to
	v.p += Pointer(2 * (m.Off - first))
	v.rows, v.cols, v.stride = int64(m.Rows), int64(m.Cols), int64(m.Stride)
	return v, true
}

// once is the copy of a part of b.
func (e *engine) once(b *buffer, part device.Mat) *rounding {
	r := b.weights.made[part]
	if r == nil {
		r = &rounding{}
		if b.weights.made == nil {
			b.weights.made = map[device.Mat]*rounding{}
		}
		b.weights.made[part] = r
	}
	if r.queued == 0 {
		e.rounded(r, part)
		r.queued = 1
	}
	return r
}

// rounded is m itself where it can be read as it is, else a copy in r.
func (e *engine) rounded(r *rounding, m device.Mat) mat {
	v := view(m)
	if aligned(v) {
		return v
	}
	to := e.room(r, m)
	e.each(kCopy, []mat{to}, []mat{v})
	return to
}

// room is memory in r for a copy of m.
func (e *engine) room(r *rounding, m device.Mat) mat {
	to := mat{rows: int64(m.Rows), cols: int64(m.Cols), stride: int64(m.Cols+lanes-1) / lanes * lanes, bf16: 1}
	to.p = e.grow(&r.block, int(2*to.rows*to.stride))
	r.of, r.to, r.queued = m, to, 0
	return to
}

// next is where a kernel leaves its result m rounded as well, for products that read
// it next; left says that the kernel is queued. It is no memory where they need no copy.
func (e *engine) next(m device.Mat) mat {
	if e.prec != device.BF16 || aligned(view(m)) {
		return mat{}
	}
	return e.room(&e.left, m)
}

func (e *engine) leftRounded(m device.Mat) {
	if e.left.of == m {
		e.left.queued = len(e.launches)
	}
}
