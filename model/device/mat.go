package device

import "fmt"

// Elem is how numbers are stored.
type Elem uint8

const (
	Float32 Elem = iota // float64 on ref
	BFloat16
)

// Block is memory of a device of any kind: a Buffer, Ints or Bytes.
type Block interface{ Len() int }

// Buffer is memory of a device, counted in numbers. Only the device that made it
// looks inside.
type Buffer interface {
	Block
	Elem() Elem
}

// Ints is device memory of 32-bit integers (pairs, elite indices).
type Ints interface{ Block }

// Bytes is device memory of uint8 (frames).
type Bytes interface{ Block }

// Mat is a row-major view of Rows x Cols numbers of a Buffer: row r begins at
// Off + r*Stride. The zero Mat stands for "not given".
//
// Views keep shapes in one hand: with rows counted as b*T+t, the frames t of
// every clip are Every(t, T), a slice of a packed q|k|v is Columns(j, n).
type Mat struct {
	Buf                     Buffer
	Off, Rows, Cols, Stride int
}

// Given says whether m is not the zero Mat.
func (m Mat) Given() bool { return m.Buf != nil }

// BF16 says whether m is given and stored as bf16.
func (m Mat) BF16() bool { return m.Given() && m.Buf.Elem() == BFloat16 }

// Len is the count of elements.
func (m Mat) Len() int { return m.Rows * m.Cols }

// Dense says whether the rows follow one another without gaps.
func (m Mat) Dense() bool { return m.Stride == m.Cols || m.Rows <= 1 }

// RowRange is the view of rows [i, i+n).
func (m Mat) RowRange(i, n int) Mat {
	if i < 0 || n < 0 || i+n > m.Rows {
		panic(fmt.Sprintf("device: rows [%d,%d) of %s", i, i+n, m))
	}
	m.Off += i * m.Stride
	m.Rows = n
	return m
}

// Columns is the view of columns [j, j+n).
func (m Mat) Columns(j, n int) Mat {
	if j < 0 || n < 0 || j+n > m.Cols {
		panic(fmt.Sprintf("device: columns [%d,%d) of %s", j, j+n, m))
	}
	m.Off += j
	m.Cols = n
	return m
}

// Every is the view of rows start, start+step, start+2*step, ...
func (m Mat) Every(start, step int) Mat {
	if start < 0 || step < 1 || start >= m.Rows {
		panic(fmt.Sprintf("device: every %d from %d of %s", step, start, m))
	}
	m.Off += start * m.Stride
	m.Rows = (m.Rows - start + step - 1) / step
	m.Stride *= step
	return m
}

// Repeated is the view in which the only row of m is every one of n rows. A kernel
// takes it where it says so.
func (m Mat) Repeated(n int) Mat {
	if m.Rows != 1 {
		panic(fmt.Sprintf("device: %s as one row, repeated", m))
	}
	m.Rows, m.Stride = n, 0
	return m
}

// Reshape is the same dense elements seen as rows x cols.
func (m Mat) Reshape(rows, cols int) Mat {
	if !m.Dense() || rows*cols != m.Len() {
		panic(fmt.Sprintf("device: %s seen as %dx%d", m, rows, cols))
	}
	m.Rows, m.Cols, m.Stride = rows, cols, cols
	return m
}

func (m Mat) String() string {
	if !m.Given() {
		return "none"
	}
	kind := ""
	if m.BF16() {
		kind = " bf16"
	}
	return fmt.Sprintf("%dx%d(stride %d)%s", m.Rows, m.Cols, m.Stride, kind)
}

// NewMat allocates a zeroed dense matrix of Float32.
func NewMat(d Device, rows, cols int) Mat { return newMat(d, rows, cols, Float32) }

// NewActivations allocates a zeroed dense matrix of what the device stores
// activations as.
func NewActivations(d Device, rows, cols int) Mat {
	return newMat(d, rows, cols, d.Traits().Activations)
}

func newMat(d Device, rows, cols int, e Elem) Mat {
	return Mat{Buf: d.Alloc(rows*cols, e), Rows: rows, Cols: cols, Stride: cols}
}

// NewInts allocates the integers src.
func NewInts(d Device, src []int32) Ints {
	dst := d.AllocInts(len(src))
	d.UploadInts(dst, src)
	return dst
}

// Arena hands out the scratch of a step. Reset makes all of it available
// again: a step that asks for the same shapes in the same order gets the same
// memory, so that steps do not allocate and a GPU can capture them.
type Arena struct {
	dev    Device
	stacks [BFloat16 + 1]stack
}

// stack is memory of one element type, handed out in order.
type stack struct {
	bufs []Buffer
	next int
}

// Mark is a moment in the life of an arena.
type Mark [BFloat16 + 1]int

// NewArena makes an empty arena on d.
func NewArena(d Device) *Arena { return &Arena{dev: d} }

// Reset takes back everything handed out.
func (a *Arena) Reset() { a.Release(Mark{}) }

// Mark and Release bracket scratch that may be taken back early.
func (a *Arena) Mark() (m Mark) {
	for e := range a.stacks {
		m[e] = a.stacks[e].next
	}
	return m
}

func (a *Arena) Release(m Mark) {
	for e := range a.stacks {
		a.stacks[e].next = m[e]
	}
}

// Mat is a dense matrix of Float32 with undefined contents, valid until Reset.
func (a *Arena) Mat(rows, cols int) Mat { return a.mat(rows, cols, Float32) }

// Activations is Mat in what the device stores activations as.
func (a *Arena) Activations(rows, cols int) Mat { return a.mat(rows, cols, a.dev.Traits().Activations) }

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

// Free gives the memory back to the device.
func (a *Arena) Free() {
	for _, s := range a.stacks {
		for _, b := range s.bufs {
			a.dev.Free(b)
		}
	}
	a.stacks = [BFloat16 + 1]stack{}
}
