package libscalewm

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// sizeOf returns the size in bytes of a number of a column's type, 0 for an unknown type.
func sizeOf(dtype string) int {
	switch dtype {
	case "float64", "int64":
		return 8
	case "float32", "int32":
		return 4
	case "uint8":
		return 1
	}
	return 0
}

// store converts src to a column's type and writes it to dst in native byte order. dst need
// not be aligned.
func store(dst []byte, dtype string, src []float64) {
	order := binary.NativeEndian
	for i, v := range src {
		switch dtype {
		case "float64":
			order.PutUint64(dst[8*i:], math.Float64bits(v))
		case "float32":
			order.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		case "int64":
			order.PutUint64(dst[8*i:], uint64(int64(v)))
		case "int32":
			order.PutUint32(dst[4*i:], uint32(int32(v)))
		case "uint8":
			dst[i] = uint8(v)
		}
	}
}

// load converts src, float32 or float64 numbers in native byte order, to dst.
func load(dst []float64, dtype string, src []byte) {
	for i := range dst {
		if dtype == "float32" {
			dst[i] = float64(math.Float32frombits(binary.NativeEndian.Uint32(src[4*i:])))
		} else {
			dst[i] = math.Float64frombits(binary.NativeEndian.Uint64(src[8*i:]))
		}
	}
}

// bytesOf returns the memory of v.
func bytesOf[T float32 | int32 | int64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

// floats and ints return a buffer as n float64 or int64 numbers. what names it in errors.
func floats(b []byte, n int, what string) ([]float64, error) { return typed[float64](b, n, what) }
func ints(b []byte, n int, what string) ([]int64, error)     { return typed[int64](b, n, what) }

// typed returns a buffer as n numbers, without a copy. It checks length and alignment: an
// unaligned access through a Go pointer is undefined.
func typed[T float64 | float32 | int64](b []byte, n int, what string) ([]T, error) {
	// The size of T.
	var one T
	size := int(unsafe.Sizeof(one))
	if err := fits(b, size*n, what); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	if uintptr(unsafe.Pointer(&b[0]))%uintptr(size) != 0 {
		return nil, fmt.Errorf("%s: the memory is not aligned to %d bytes", what, size)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), nil
}

// fits returns an error unless a buffer has the given length.
func fits(b []byte, bytes int, what string) error {
	if len(b) != bytes {
		return fmt.Errorf("%s: a buffer of %d bytes, not %d", what, len(b), bytes)
	}
	return nil
}
