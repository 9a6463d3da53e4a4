package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A pickle is a program for a small stack machine, and in Python it can call any
// function. This machine only constructs values. It accepts the few names that a
// state dict refers to and returns an error for any other, so that a malicious pickle
// cannot do harm. The memory that it allocates is bounded by the length of the
// pickle, and it does not recurse.

// Values of a pickle are nil, bool, int64, float64, string, the following types, and the
// results of unpickler.call.
type (
	tuple      []any
	list       struct{ items []any } // used as *list, since the memo may refer to it
	dict       struct{ keys, values []any }
	global     string // "module.name"
	persistent struct{ id any }
	markType   struct{} // MARK, the beginning of a variable number of values
)

// errPickle is the error for pickles that are malformed or hold something else.
var errPickle = errors.New("the pickle is torn or not a state dict (hint: save model.state_dict() with torch.save)")

// unpickler is the state of the machine. known reports whether a name is accepted.
// call executes REDUCE.
type unpickler struct {
	r     *bytes.Reader
	stack []any
	memo  map[uint64]any
	known func(global) bool
	call  func(f global, args tuple) (any, error)
}

// run executes the pickle up to STOP and returns its value.
func (u *unpickler) run() (any, error) {
	u.memo = map[uint64]any{}
	for {
		op, err := u.r.ReadByte()
		if err != nil {
			return nil, errPickle
		}
		if op == '.' { // STOP
			return u.pop()
		}
		if err := u.do(op); err != nil {
			return nil, err
		}
	}
}

// push pushes v. It returns nil, so that opcodes can return its result.
func (u *unpickler) push(v any) error { u.stack = append(u.stack, v); return nil }

// pop removes the top value and returns it.
func (u *unpickler) pop() (any, error) {
	vs, err := u.popN(1)
	if err != nil {
		return nil, err
	}
	return vs[0], nil
}

// popN removes the top n values and returns them in the order in which they were
// pushed.
func (u *unpickler) popN(n int) ([]any, error) {
	at := len(u.stack) - n
	if at < 0 {
		return nil, errPickle
	}
	for _, v := range u.stack[at:] {
		if v == (markType{}) {
			return nil, errPickle
		}
	}
	return u.cut(at, at), nil
}

// popMark removes the values above the topmost mark, and the mark, and returns the
// values.
func (u *unpickler) popMark() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if u.stack[i] == (markType{}) {
			return u.cut(i+1, i), nil
		}
	}
	return nil, errPickle
}

// cut returns a copy of the stack from index from on, and truncates the stack to
// length to. The copy is necessary, since the stack's memory is overwritten later.
func (u *unpickler) cut(from, to int) []any {
	vs := append([]any(nil), u.stack[from:]...)
	u.stack = u.stack[:to]
	return vs
}

// top returns the top value, which stays on the stack.
func (u *unpickler) top() (any, error) {
	if len(u.stack) == 0 {
		return nil, errPickle
	}
	return u.stack[len(u.stack)-1], nil
}

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
// two shifts extend the sign from n bytes to 64 bits.
func (u *unpickler) long(n uint64) error {
	if n > 8 {
		return fmt.Errorf("an integer of %d bytes: %w", n, errPickle)
	}
	v, err := u.uint(int(n))
	shift := 64 - 8*n
	return u.pushIf(int64(v<<shift)>>shift, err)
}

// float reads a float64 and pushes it. It is the only big-endian number of the
// format.
func (u *unpickler) float() error {
	v, err := u.uint(8)
	return u.pushIf(math.Float64frombits(bits.ReverseBytes64(v)), err)
}

// name pushes a global, or returns an error if the name is not accepted.
func (u *unpickler) name(module, name string) error {
	g := global(module + "." + name)
	if !u.known(g) {
		return fmt.Errorf("the pickle refers to %.80q, which no state dict needs; nothing was run "+
			"(hint: the file holds more than tensors; save model.state_dict() with torch.save, or do not trust it)", string(g))
	}
	return u.push(g)
}

// put stores the value on top of the stack in the memo.
func (u *unpickler) put(key uint64) error {
	v, err := u.top()
	if err != nil {
		return err
	}
	u.memo[key] = v
	return nil
}

// get pushes a value from the memo.
func (u *unpickler) get(key uint64) error {
	v, ok := u.memo[key]
	if !ok {
		return errPickle
	}
	return u.push(v)
}
