// Package tensorfile reads and writes files of tensors: safetensors, and what
// torch.save writes.
//
// Open, Parse and ParsePT read one file of named tensors and return a File, whose
// methods select a state dict and look up, rename and convert tensors. ParseArray and
// ParsePickledInts read files of one tensor and of a list. Write and WritePT write
// files.
//
// Files may come from anywhere: parsing checks every size and offset before use,
// allocates no more than a small multiple of the file's size, and executes no code of
// a pickle.
//
// The package depends on names, shapes and bytes only, not on models.
package tensorfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Tensor is a named array of a file. Exactly one of F32, F64 and I64 is set. It holds
// the elements in row-major order.
type Tensor struct {
	Name  string
	Shape []int // empty for a scalar
	F32   []float32
	F64   []float64
	I64   []int64
}

// layout returns the tensor's data type by its name in safetensors, the bytes per
// element and the number of elements. It panics if that number does not fit the
// shape.
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

// Float64 returns the tensor's numbers as float64. The result may share the memory of
// t.
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

// write writes the numbers, little-endian, in batches that bound the memory.
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

// elements returns the product of a shape. It returns false if a length is negative
// or the product is so large that its size in bytes could overflow: the factor 16
// exceeds the size of any element.
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

// dtype describes how the numbers of a data type are stored.
type dtype struct {
	size int
	read func([]byte) float64 // nil for types that weights do not have
}

// dtypes maps the names in safetensors to data types.
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

// half converts an IEEE 754 binary16 number.
func half(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&1023)
	// Exponent 0 marks subnormal numbers, without the implicit leading 1, and 31 marks
	// infinities and NaN. The bias is 15, and the fraction has 10 bits.
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
