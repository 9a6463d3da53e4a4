package convert

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/hdf5"
)

// element returns the bytes of an element from a fill value in JSON, or nil if there is
// none or it is not a number.
func (t numpyType) element(fill json.RawMessage) []byte {
	text := strings.Trim(string(fill), `"`)
	switch text {
	case "true":
		text = "1"
	case "false":
		text = "0"
	}
	var bits uint64
	var err error
	v, notFloat := strconv.ParseFloat(text, 64)
	// Integers are not rounded to 53 bits.
	if whole, hex := strings.CutPrefix(text, "0x"); hex {
		bits, err = strconv.ParseUint(whole, 16, 64)
	} else if i, notInt := strconv.ParseInt(text, 10, 64); t.name[0] != 'f' && notInt == nil {
		bits = uint64(i)
	} else if u, notUint := strconv.ParseUint(text, 10, 64); t.name[0] != 'f' && notUint == nil {
		bits = u
	} else if err = notFloat; t.name[0] != 'f' {
		bits = uint64(int64(v))
	} else {
		bits = t.floatBits(v)
	}
	if err != nil || text == "null" {
		return nil
	}
	b := binary.LittleEndian.AppendUint64(nil, bits)[:t.size]
	if t.bigEndian {
		slices.Reverse(b)
	}
	return b
}

// floatBits returns a number in the format of a type of floats.
func (t numpyType) floatBits(v float64) uint64 {
	switch t.size {
	case 8:
		return math.Float64bits(v)
	case 4:
		return uint64(math.Float32bits(float32(v)))
	}
	// Half precision has few numbers; the first that is not smaller is v itself, since
	// it was written from one.
	for h := range uint64(0x7c01) {
		if x := float64(hdf5.Float16(uint16(h))); x >= math.Abs(v) {
			return h | math.Float64bits(v)>>63<<15
		}
	}
	return 0x7e00 // NaN
}
