package hdf5

import (
	"encoding/binary"
	"fmt"
	"math"
)

// dtype names the element type as envs.Column does; booleans, which are
// enums in some files, are uint8. "" is a type without numbers.
func (d *described) dtype() string {
	switch {
	case d.isBool && d.elem == 1:
		return "uint8"
	case d.class == classFloat && (d.elem == 2 || d.elem == 4 || d.elem == 8):
		return fmt.Sprintf("float%d", 8*d.elem)
	case d.class == classInteger && (d.elem == 1 || d.elem == 2 || d.elem == 4 || d.elem == 8):
		if d.signed {
			return fmt.Sprintf("int%d", 8*d.elem)
		}
		return fmt.Sprintf("uint%d", 8*d.elem)
	}
	return ""
}

// widen turns stored elements into float64; integers beyond 2^53 lose their
// last bits, everything else is exact.
func (d *described) widen(dst []float64, src []byte) {
	var order binary.ByteOrder = binary.LittleEndian
	if d.bigEndian {
		order = binary.BigEndian
	}
	dt := d.dtype()
	for i := range dst {
		b := src[i*d.elem : (i+1)*d.elem]
		switch dt {
		case "float16":
			dst[i] = half(order.Uint16(b))
		case "float32":
			dst[i] = float64(math.Float32frombits(order.Uint32(b)))
		case "float64":
			dst[i] = math.Float64frombits(order.Uint64(b))
		case "int8":
			dst[i] = float64(int8(b[0]))
		case "uint8":
			dst[i] = float64(b[0])
		case "int16":
			dst[i] = float64(int16(order.Uint16(b)))
		case "uint16":
			dst[i] = float64(order.Uint16(b))
		case "int32":
			dst[i] = float64(int32(order.Uint32(b)))
		case "uint32":
			dst[i] = float64(order.Uint32(b))
		case "int64":
			dst[i] = float64(int64(order.Uint64(b)))
		case "uint64":
			dst[i] = float64(order.Uint64(b))
		}
	}
}

// half widens an IEEE binary16.
func half(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// writable maps the types our files use to their width; float16 columns are
// written as float32, which holds them exactly.
var writable = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4,
	"uint64": 8, "int64": 8, "float32": 4, "float64": 8}

// narrow appends v in a writable type. It reports a value the type cannot hold,
// so that no column changes silently.
func narrow(dst []byte, dtype string, v float64) ([]byte, error) {
	le := binary.LittleEndian
	if dtype == "float64" {
		return le.AppendUint64(dst, math.Float64bits(v)), nil
	}
	if dtype == "float32" {
		return le.AppendUint32(dst, math.Float32bits(float32(v))), nil
	}
	bits := 8 * writable[dtype]
	lo, hi := 0.0, math.Ldexp(1, bits)
	if dtype[0] == 'i' {
		lo, hi = -hi/2, hi/2
	}
	if v != math.Trunc(v) || v < lo || v >= hi {
		return nil, fmt.Errorf("%v is not a value of type %s", v, dtype)
	}
	u := uint64(v)
	if v < 0 {
		u = uint64(int64(v))
	}
	for i := range bits / 8 {
		dst = append(dst, byte(u>>(8*i)))
	}
	return dst, nil
}
