package device

import "fmt"

// Elem is the storage format of a buffer's numbers. A device reads and writes bf16
// only where a kernel allows it (see [Arguments]); it computes in its own format.
type Elem uint8

const (
	Float32 Elem = iota // on ref: float64
	BFloat16
)

// Block is device memory of any kind: a Buffer, Ints or Bytes.
type Block interface{ Len() int }

// Buffer is device memory, with Len counted in numbers. It is opaque: only the device
// that allocated it knows its concrete type.
type Buffer interface {
	Block
	Elem() Elem
}

// Ints is device memory of 32-bit integers (pairs, elite indices).
type Ints interface{ Block }

// Bytes is device memory of uint8 (frames).
type Bytes interface{ Block }

// Mat is a row-major view of Rows x Cols numbers of a Buffer: row r begins at number
// Off + r*Stride. A Mat is a small value; copying it does not copy numbers. The zero
// Mat stands for an optional matrix that is not given.
//
// Views select parts of a matrix without copying. With rows counted as b*T+t, frame t
// of every clip is Every(t, T); a slice of a packed q|k|v is Columns(j, n).
type Mat struct {
	Buf                     Buffer
	Off, Rows, Cols, Stride int
}

// IsSet reports whether m is not the zero Mat.
func (m Mat) IsSet() bool { return m.Buf != nil }

// BF16 reports whether m is given and stored as bf16.
func (m Mat) BF16() bool { return m.IsSet() && m.Buf.Elem() == BFloat16 }

// Len returns the number of elements.
func (m Mat) Len() int { return m.Rows * m.Cols }

// Dense reports whether the rows follow one another without gaps.
func (m Mat) Dense() bool { return m.Stride == m.Cols || m.Rows <= 1 }

// RowRange returns the view of rows [i, i+n). It panics if they are not in m.
func (m Mat) RowRange(i, n int) Mat {
	if i < 0 || n < 0 || i+n > m.Rows {
		panic(fmt.Sprintf("device: rows [%d,%d) of %s", i, i+n, m))
	}
	m.Off += i * m.Stride
	m.Rows = n
	return m
}

// Columns returns the view of columns [j, j+n). It panics if they are not in m.
func (m Mat) Columns(j, n int) Mat {
	if j < 0 || n < 0 || j+n > m.Cols {
		panic(fmt.Sprintf("device: columns [%d,%d) of %s", j, j+n, m))
	}
	m.Off += j
	m.Cols = n
	return m
}

// Every returns the view of rows start, start+step, start+2*step, ...
func (m Mat) Every(start, step int) Mat {
	if start < 0 || step < 1 || start >= m.Rows {
		panic(fmt.Sprintf("device: every %d from %d of %s", step, start, m))
	}
	m.Off += start * m.Stride
	m.Rows = (m.Rows - start + step - 1) / step
	m.Stride *= step
	return m
}

// Repeated returns a view of n rows, each of which is the only row of m (Stride 0).
// Kernels accept it only where their comment says so.
func (m Mat) Repeated(n int) Mat {
	if m.Rows != 1 {
		panic(fmt.Sprintf("device: %s as one row, repeated", m))
	}
	m.Rows, m.Stride = n, 0
	return m
}

// Reshape returns the same elements as rows x cols. m must be dense.
func (m Mat) Reshape(rows, cols int) Mat {
	if !m.Dense() || rows*cols != m.Len() {
		panic(fmt.Sprintf("device: %s seen as %dx%d", m, rows, cols))
	}
	m.Rows, m.Cols, m.Stride = rows, cols, cols
	return m
}

// String returns the shape and storage of m, for error messages.
func (m Mat) String() string {
	if !m.IsSet() {
		return "none"
	}
	kind := ""
	if m.BF16() {
		kind = " bf16"
	}
	return fmt.Sprintf("%dx%d(stride %d)%s", m.Rows, m.Cols, m.Stride, kind)
}

// NewMat allocates a zeroed dense matrix of Float32. Release it by d.Free(m.Buf).
func NewMat(d Device, rows, cols int) Mat { return newMat(d, rows, cols, Float32) }

// NewActivations allocates a zeroed dense matrix in the device's storage format for
// activations.
func NewActivations(d Device, rows, cols int) Mat {
	return newMat(d, rows, cols, d.Traits().Activations)
}

func newMat(d Device, rows, cols int, e Elem) Mat {
	return Mat{Buf: d.Alloc(rows*cols, e), Rows: rows, Cols: cols, Stride: cols}
}

// NewInts allocates device memory that holds src.
func NewInts(d Device, src []int32) Ints {
	dst := d.AllocInts(len(src))
	d.UploadInts(dst, src)
	return dst
}

// Arena allocates the scratch matrices of a step. Reset makes all of them available
// again: a step that requests the same shapes in the same order gets the same memory.
// Steps therefore do not allocate after the first, and a GPU can capture them as
// graphs, whose kernels must see the same addresses each time.
//
// There is one stack for each element type, since a buffer's type is fixed.
type Arena struct {
	dev    Device
	stacks [BFloat16 + 1]stack
}

// stack holds the buffers of one element type. The first `next` of them are in use.
type stack struct {
	bufs []Buffer
	next int
}

// Mark is a state of an arena: how many buffers of each stack are in use.
type Mark [BFloat16 + 1]int

// NewArena returns an empty arena on d.
func NewArena(d Device) *Arena { return &Arena{dev: d} }

// Reset releases all matrices of the arena. Their memory is reused, not freed.
func (a *Arena) Reset() { a.Release(Mark{}) }

// Mark returns the current state, to be passed to Release.
func (a *Arena) Mark() (m Mark) {
	for e := range a.stacks {
		m[e] = a.stacks[e].next
	}
	return m
}

// Release releases all matrices that were allocated since Mark returned m.
func (a *Arena) Release(m Mark) {
	for e := range a.stacks {
		a.stacks[e].next = m[e]
	}
}

// Mat returns a dense matrix of Float32 with undefined contents. It is valid until
// Reset, or until Release of an earlier mark.
func (a *Arena) Mat(rows, cols int) Mat { return a.mat(rows, cols, Float32) }

// Activations is Mat in the device's storage format for activations.
func (a *Arena) Activations(rows, cols int) Mat { return a.mat(rows, cols, a.dev.Traits().Activations) }

// mat returns the next buffer of the stack, or replaces it if it is too small.
// Buffers may be larger than the request, since a step's shapes can shrink and grow
// again.
func (a *Arena) mat(rows, cols int, e Elem) Mat {
	s, n := &a.stacks[e], rows*cols
	if s.next < len(s.bufs) && s.bufs[s.next].Len() < n {
		a.dev.Free(s.bufs[s.next])
		s.bufs[s.next] = a.dev.Alloc(n, e)
	}
	if s.next == len(s.bufs) {
		s.bufs = append(s.bufs, a.dev.Alloc(n, e))
	}
	m := Mat{Buf: s.bufs[s.next], Rows: rows, Cols: cols, Stride: cols}
	s.next++
	return m
}

// Zero is Mat filled with zeros.
func (a *Arena) Zero(rows, cols int) Mat {
	m := a.Mat(rows, cols)
	a.dev.Fill(m, 0)
	return m
}

// Free releases the memory to the device.
func (a *Arena) Free() {
	for _, s := range a.stacks {
		for _, b := range s.bufs {
			a.dev.Free(b)
		}
	}
	a.stacks = [BFloat16 + 1]stack{}
}
