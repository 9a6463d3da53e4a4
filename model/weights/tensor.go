// Package weights reads and writes tensors of models in files: safetensors,
// the state dicts that torch.save writes, and the JSON sidecar that says what
// they are. It knows names, shapes and bytes, no model.
package weights

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Tensor is a named array of a file. Exactly one of F32, F64 and I64 is set,
// and holds as many numbers as Shape says, row-major.
type Tensor struct {
	Name  string
	Shape []int // empty: a scalar
	F32   []float32
	F64   []float64
	I64   []int64
}

// layout is the tensor's dtype as safetensors names it, the bytes of a number
// and their count, which must fit the shape.
func (t Tensor) layout() (dtype string, size, n int) {
	switch {
	case t.F64 != nil:
		dtype, size, n = "F64", 8, len(t.F64)
	case t.I64 != nil:
		dtype, size, n = "I64", 8, len(t.I64)
	default:
		dtype, size, n = "F32", 4, len(t.F32)
	}
	if want, ok := elements(t.Shape); !ok || want != n {
		panic(fmt.Sprintf("weights: tensor %s has %d numbers for shape %v", t.Name, n, t.Shape))
	}
	return dtype, size, n
}

// Float64 is the tensor's numbers, widened exactly.
func (t Tensor) Float64() []float64 {
	if t.F64 != nil {
		return t.F64
	}
	v := make([]float64, 0, max(len(t.F32), len(t.I64)))
	for _, x := range t.F32 {
		v = append(v, float64(x))
	}
	for _, x := range t.I64 {
		v = append(v, float64(x))
	}
	return v
}

// write writes the numbers, little-endian.
func (t Tensor) write(w io.Writer) error {
	const batch = 1 << 16
	_, size, n := t.layout()
	b := make([]byte, 0, min(n, batch)*size)
	for i := range n {
		switch {
		case t.F64 != nil:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(t.F64[i]))
		case t.I64 != nil:
			b = binary.LittleEndian.AppendUint64(b, uint64(t.I64[i]))
		default:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(t.F32[i]))
		}
		if len(b) == cap(b) || i == n-1 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// elements is the product of a shape, unless it is negative or overflows.
func elements(shape []int) (int, bool) {
	n := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > math.MaxInt64/16/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// dtype is how numbers of a kind lie in a file.
type dtype struct {
	size int
	read func([]byte) float64 // nil: not a kind that weights have
}

// dtypes by their names in safetensors.
var dtypes = map[string]dtype{
	"F64": {8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	"F32": {4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	"BF16": {2, func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}},
	"F16":  {2, func(b []byte) float64 { return half(binary.LittleEndian.Uint16(b)) }},
	"I64":  {8, func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) }},
	"I32":  {size: 4},
	"I16":  {size: 2},
	"U8":   {size: 1},
	"I8":   {size: 1},
	"BOOL": {size: 1},
}

// half widens an IEEE float16.
func half(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
