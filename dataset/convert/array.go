package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset/hdf5"
)

// array is an array of numbers, with rows along its first axis.
type array struct {
	// dtype is a type of data sets; NumPy's booleans are uint8.
	dtype string
	shape []int
	// data is row-major and little-endian.
	data []byte
}

// dtypes has the types that are read, by their names in NumPy, with the types in which
// they are held; widths has the sizes of the latter in bytes.
var (
	dtypes = map[string]string{"b1": "uint8", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
		"u8": "uint64", "i8": "int64", "f2": "float32", "f4": "float32", "f8": "float64"}
	widths = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float32": 4, "float64": 8}
)

// errNotNumeric is wrapped by errors about values that cannot be a column. Such arrays
// are left out where the others can still be converted.
var errNotNumeric = errors.New("its values are not of a numeric type that data sets can hold")

// numpyType is the type of the numbers in a file, by its name in NumPy, such as "<f4".
type numpyType struct {
	// name has no byte order, and size is that of a number in bytes.
	name      string
	size      int
	bigEndian bool
}

// parseNumpyType parses a name such as "<f4" or "|u1". The error wraps errNotNumeric.
func parseNumpyType(descr string) (t numpyType, err error) {
	if len(descr) < 2 || dtypes[descr[1:]] == "" {
		return t, fmt.Errorf("it is of the type %q: %w", descr, errNotNumeric)
	}
	// All types have a size of one digit.
	return numpyType{descr[1:], int(descr[2] - '0'), descr[0] == '>'}, nil
}

// array returns an array of the given shape from the bytes of its numbers, which it
// may change. Half precision becomes float32, which is exact. fortran says that the
// first index varies fastest.
func (t numpyType) array(shape []int, data []byte, fortran bool) array {
	if t.bigEndian && t.size > 1 {
		for i := 0; i < len(data); i += t.size {
			slices.Reverse(data[i : i+t.size])
		}
	}
	if t.name == "f2" {
		wide := make([]byte, 0, 2*len(data))
		for i := 0; i < len(data); i += 2 {
			wide = binary.LittleEndian.AppendUint32(wide, math.Float32bits(float32(hdf5.Float16(binary.LittleEndian.Uint16(data[i:])))))
		}
		data = wide
	}
	a := array{dtype: dtypes[t.name], shape: shape, data: data}
	if fortran && len(shape) > 1 {
		a.data = a.rowMajor()
	}
	return a
}

// rowMajor returns the numbers of an array whose data are in Fortran's order in
// row-major order.
func (a array) rowMajor() []byte {
	size := widths[a.dtype]
	out := make([]byte, 0, len(a.data))
	index := make([]int, len(a.shape))
	for range len(a.data) / size {
		at := 0
		for d := len(index) - 1; d >= 0; d-- {
			at = at*a.shape[d] + index[d]
		}
		out = append(out, a.data[at*size:(at+1)*size]...)
		for d := len(index) - 1; d >= 0; d-- {
			if index[d]++; index[d] < a.shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}

// isPicture reports whether the rows of an array can only be pictures.
func (a array) isPicture() bool { return a.dtype == "uint8" && len(a.shape) > 2 }

// isCamera reports whether the rows of an array are pictures of one or three colours,
// with the colours first or last.
func (a array) isCamera() bool {
	colours := func(n int) bool { return n == 1 || n == 3 }
	return a.isPicture() && len(a.shape) == 4 && (colours(a.shape[1]) || colours(a.shape[3]))
}

// slice returns the rows [from, to).
func (a array) slice(from, to int) array {
	row := len(a.data) / max(a.rows(), 1)
	return array{dtype: a.dtype, shape: append([]int{to - from}, a.shape[1:]...), data: a.data[from*row : to*row]}
}

// joined returns the rows of a and then those of b.
func (a array) joined(b array) (array, error) {
	if a.dtype != b.dtype || !slices.Equal(a.shape[1:], b.shape[1:]) {
		return a, fmt.Errorf("it is %s %v, and before it was %s %v (hint: are they of one run?)", b.dtype, b.shape, a.dtype, a.shape)
	}
	a.shape = append([]int{a.rows() + b.rows()}, a.shape[1:]...)
	a.data = slices.Concat(a.data, b.data)
	return a, nil
}

// advanced returns the array with the row t+1 as row t, and without a last row, which
// is NaN.
func (a array) advanced() (array, error) {
	return a.slice(1, a.rows()).padded()
}

// padded returns the array with one more row, of NaN.
func (a array) padded() (array, error) {
	row, bits := a.width(), []byte{0, 0, 0xc0, 0x7f}
	switch a.dtype {
	case "float32":
	case "float64":
		bits = []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}
	default:
		return a, fmt.Errorf("its type is %s, and the last row of an episode has no number, which needs NaN (hint: write the episodes as .npz with x.astype(\"float32\"), or np.eye(n, dtype=\"float32\")[x] for n discrete actions, and NaN in the last row)", a.dtype)
	}
	a.shape = append([]int{a.rows() + 1}, a.shape[1:]...)
	a.data = append(slices.Clip(a.data), bytes.Repeat(bits, row)...)
	return a, nil
}

// rows returns the length of the first axis; a single number has no rows.
func (a array) rows() int {
	if len(a.shape) == 0 {
		return 0
	}
	return a.shape[0]
}

// width returns the number of values in a row.
func (a array) width() int {
	n := 1
	for _, edge := range a.shape[1:] {
		n *= edge
	}
	return n
}

// integers returns the values of an array of whole numbers of at most 2^53.
func (a array) integers() ([]int, error) {
	out := make([]int, len(a.data)/widths[a.dtype])
	for i := range out {
		v := a.number(i)
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, fmt.Errorf("it is %s, with integers beyond 2^53 or other numbers (hint: x.astype(\"int32\") in Python)", a.dtype)
		}
		out[i] = int(v)
	}
	return out, nil
}

// number returns value i of an array.
func (a array) number(i int) float64 {
	le, size := binary.LittleEndian, widths[a.dtype]
	// Put the number into the highest bytes and shift it down, which extends the sign.
	b := append(make([]byte, 8-size, 8), a.data[i*size:(i+1)*size]...)
	bits, shift := le.Uint64(b), 8*(8-size)
	switch {
	case a.dtype == "float32":
		return float64(math.Float32frombits(uint32(bits >> 32)))
	case a.dtype == "float64":
		return math.Float64frombits(bits)
	case a.dtype[0] == 'u':
		return float64(bits >> shift)
	}
	return float64(int64(bits) >> shift)
}
