package export

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go"
)

// sizes has the bytes of a value of each type of exported columns.
var sizes = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float32": 4, "float64": 8}

// descr returns NumPy's name of a type, such as "<f4".
func descr(dtype string) string {
	order := "<"
	if sizes[dtype] == 1 {
		order = "|"
	}
	return fmt.Sprintf("%s%c%d", order, dtype[0], sizes[dtype])
}

// word returns the first value of little-endian data in 64 bits; signed integers are
// extended, and other types have leading zeros.
func word(dtype string, data []byte) uint64 {
	n := sizes[dtype]
	var b [8]byte
	copy(b[8-n:], data[:n])
	w, shift := binary.LittleEndian.Uint64(b[:]), 64-8*n
	if dtype[0] == 'i' {
		return uint64(int64(w) >> shift)
	}
	return w >> shift
}

// numbers returns the values of a column as float64, to which 64-bit integers may be
// rounded.
func numbers(dtype string, data []byte) []float64 {
	out := make([]float64, len(data)/sizes[dtype])
	for i := range out {
		w := word(dtype, data[i*sizes[dtype]:])
		switch {
		case dtype == "float32":
			out[i] = float64(math.Float32frombits(uint32(w)))
		case dtype == "float64":
			out[i] = math.Float64frombits(w)
		case dtype[0] == 'u':
			out[i] = float64(w)
		default:
			out[i] = float64(int64(w))
		}
	}
	return out
}

// cells returns the values of a column as Parquet stores them.
func cells(dtype string, data []byte) []parquet.Value {
	out := make([]parquet.Value, len(data)/sizes[dtype])
	for i := range out {
		out[i] = value(dtype, data[i*sizes[dtype]:])
	}
	return out
}

// text returns a text as Parquet stores it.
func text(s string) []parquet.Value {
	return []parquet.Value{parquet.ByteArrayValue([]byte(s))}
}

// value returns the first value of little-endian data as Parquet stores it: integers
// of fewer than 32 bits in 32.
func value(dtype string, data []byte) parquet.Value {
	w := word(dtype, data)
	switch {
	case dtype == "float32":
		return parquet.FloatValue(math.Float32frombits(uint32(w)))
	case dtype == "float64":
		return parquet.DoubleValue(math.Float64frombits(w))
	case sizes[dtype] == 8:
		return parquet.Int64Value(int64(w))
	}
	return parquet.Int32Value(int32(w))
}

// leaf returns the type of a column in Parquet.
func leaf(dtype string) parquet.Node {
	switch {
	case dtype == "float32":
		return parquet.Leaf(parquet.FloatType)
	case dtype == "float64":
		return parquet.Leaf(parquet.DoubleType)
	case dtype[0] == 'u':
		return parquet.Uint(8 * sizes[dtype])
	}
	return parquet.Int(8 * sizes[dtype])
}
