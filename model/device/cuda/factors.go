package cuda

import "scalewm/model/device"

// Tensor cores read factors that are stored as bf16 in rows which begin at
// multiples of 16 bytes. Others are rounded to a copy first: weights once in
// every life of their numbers, anything else for the products that follow one another.

const lanes = 8 // bf16 numbers in 16 bytes

// copies are a buffer of weights as bf16. One is for the matrices that begin at a
// multiple of 8 numbers, one for those that begin one number later, and so on:
// each leaves out as many numbers as bring its matrices to multiples of 16 bytes.
type copies struct {
	kept  bool // the numbers stay until Upload or AdamW
	at    [lanes]block
	fresh [lanes]bool
}

// keep says that the numbers are new, and whether they stay.
func (c *copies) keep(stay bool) {
	c.kept = stay
	c.fresh = [lanes]bool{}
}

// Freeze promises that the numbers of b stay until they are uploaded anew.
func (e *engine) Freeze(b device.Buffer) {
	if b, whole := b.(*buffer); whole {
		b.weights.kept = true
	}
}

// changed: other numbers were uploaded to m.
func changed(m device.Mat, stay bool) {
	if b, whole := m.Buf.(*buffer); whole {
		b.weights.keep(stay)
	}
}

// rounding is memory for the copy of a factor that is no weights.
type rounding struct {
	block
	of     device.Mat
	to     mat
	queued int // launches up to the end of the product that it was made for; 0: it holds nothing
}

// keep says how many launches were queued after the product of a; what is a copy of
// something else may be out of date.
func (r *rounding) keep(a mat, launches int) {
	if r.queued = launches; r.to != a {
		r.queued = 0
	}
}

// aligned says whether tensor cores can read m as it is.
func aligned(m mat) bool { return m.half != 0 && m.p%16 == 0 && m.stride%lanes == 0 }

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

// kept is a matrix of weights in the copy of its buffer.
func (e *engine) kept(m device.Mat) (mat, bool) {
	b, whole := m.Buf.(*buffer)
	if !whole || !b.weights.kept || m.Stride%lanes != 0 {
		return mat{}, false
	}
	first := m.Off % lanes
	at, n := &b.weights.at[first], int64(b.n-first)
	if at.p == 0 {
		*at = e.reserve(b.n, 2)
	}
	if !b.weights.fresh[first] {
		b.weights.fresh[first] = true
		e.each(kCopy, []mat{{p: at.p, rows: 1, cols: n, stride: n, half: 1}}, []mat{{p: b.p + Pointer(4*first), rows: 1, cols: n, stride: n}})
	}
	return mat{p: at.p + Pointer(2*(m.Off-first)), rows: int64(m.Rows), cols: int64(m.Cols), stride: int64(m.Stride), half: 1}, true
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
	to := mat{rows: int64(m.Rows), cols: int64(m.Cols), stride: int64(m.Cols+lanes-1) / lanes * lanes, half: 1}
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
