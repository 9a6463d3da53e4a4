package tensorfile

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// The methods in this file read the arguments of opcodes: numbers, texts and lines.

// take reads n bytes. It compares n with the remaining bytes before it allocates.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(u.r.Len()) {
		return nil, errPickle
	}
	b := make([]byte, n)
	u.r.Read(b) // cannot be short: n is at most u.r.Len()
	return b, nil
}

// uint reads n bytes, at most 8, as a little-endian number.
func (u *unpickler) uint(n int) (uint64, error) {
	b, err := u.take(uint64(n))
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(append(b, make([]byte, 8-n)...)), nil
}

// text reads a string of n bytes and pushes it.
func (u *unpickler) text(n uint64) error {
	b, err := u.take(n)
	return u.pushIf(string(b), err)
}

// line reads up to the next newline.
func (u *unpickler) line() (string, error) {
	var b []byte
	for {
		c, err := u.r.ReadByte()
		if err != nil {
			return "", errPickle
		}
		if c == '\n' {
			return string(b), nil
		}
		b = append(b, c)
	}
}

// long reads n bytes as a two's complement number and pushes it. No bytes mean 0. The
// two shifts extend the sign from n bytes to 64 bits. A longer number is an inert object.
func (u *unpickler) long(n uint64) error {
	if n > 8 {
		return u.opaque("int")(n)
	}
	v, err := u.uint(int(n))
	shift := 64 - 8*n
	return u.pushIf(int64(v<<shift)>>shift, err)
}

// opaque returns a function that skips n bytes and pushes an inert object of a class of
// Python's builtins.
func (u *unpickler) opaque(class string) func(n uint64) error {
	return func(n uint64) error {
		if n > uint64(u.r.Len()) {
			return errPickle
		}
		u.r.Seek(int64(n), io.SeekCurrent) // cannot fail: n is at most u.r.Len()
		return u.push(object{class: class})
	}
}

// decimal reads a number on a line of its own and pushes it: an integer, of which
// protocols 0 and 1 write 00 and 01 for the two truth values and add an L for long, or
// a float.
func (u *unpickler) decimal() error {
	text, err := u.line()
	if err != nil {
		return err
	}
	if text == "00" || text == "01" {
		return u.push(text == "01")
	}
	if v, err := strconv.ParseInt(strings.TrimSuffix(text, "L"), 10, 64); err == nil {
		return u.push(v)
	} else if errors.Is(err, strconv.ErrRange) {
		return u.push(object{class: "int"})
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return errPickle
	}
	return u.push(v)
}

// float reads a float64 and pushes it. It is the only big-endian number of the
// format.
func (u *unpickler) float() error {
	v, err := u.uint(8)
	return u.pushIf(math.Float64frombits(bits.ReverseBytes64(v)), err)
}
