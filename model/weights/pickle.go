package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A pickle is a program for a small stack machine, and in Python it can call
// anything. This machine only builds values: it knows the few names that a
// state dict is made of and refuses every other, so that a hostile pickle can
// do nothing but be refused. What it allocates is bounded by the pickle's own
// length, and it never recurses.

// Values of a pickle: nil, bool, int64, float64, string, these, and what call
// makes of them.
type (
	tuple      []any
	list       struct{ items []any }
	dict       struct{ keys, values []any }
	global     string // "module.name"
	persistent struct{ id any }
	markType   struct{}
)

var errPickle = errors.New("the pickle is torn or not a state dict (hint: save model.state_dict() with torch.save)")

// unpickler is the machine's state. known says which names there may be, call
// is what REDUCE does.
type unpickler struct {
	r     *bytes.Reader
	stack []any
	memo  map[uint64]any
	known func(global) bool
	call  func(f global, args tuple) (any, error)
}

// run runs the pickle to its end and returns its value.
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

func (u *unpickler) push(v any) error { u.stack = append(u.stack, v); return nil }

func (u *unpickler) pop() (any, error) {
	vs, err := u.popN(1)
	if err != nil {
		return nil, err
	}
	return vs[0], nil
}

// popN takes the top n values, in the order they were pushed.
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

// popMark takes everything above the topmost mark, and the mark.
func (u *unpickler) popMark() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if u.stack[i] == (markType{}) {
			return u.cut(i+1, i), nil
		}
	}
	return nil, errPickle
}

// cut copies the stack from from on and shortens it to to.
func (u *unpickler) cut(from, to int) []any {
	vs := append([]any(nil), u.stack[from:]...)
	u.stack = u.stack[:to]
	return vs
}

func (u *unpickler) top() (any, error) {
	if len(u.stack) == 0 {
		return nil, errPickle
	}
	return u.stack[len(u.stack)-1], nil
}

// take reads n bytes; n is checked before they are allocated.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(u.r.Len()) {
		return nil, errPickle
	}
	b := make([]byte, n)
	u.r.Read(b) // as many as there are
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

// long reads n bytes as a number in two's complement; none means 0.
func (u *unpickler) long(n uint64) error {
	if n > 8 {
		return fmt.Errorf("an integer of %d bytes: %w", n, errPickle)
	}
	v, err := u.uint(int(n))
	shift := 64 - 8*n
	return u.pushIf(int64(v<<shift)>>shift, err)
}

func (u *unpickler) float() error {
	v, err := u.uint(8)
	return u.pushIf(math.Float64frombits(bits.ReverseBytes64(v)), err) // the one big-endian number of the format
}

// name pushes a global.
func (u *unpickler) name(module, name string) error {
	g := global(module + "." + name)
	if !u.known(g) {
		return fmt.Errorf("the pickle asks for %.80q, which no state dict needs; nothing was run "+
			"(hint: the file holds more than tensors; save model.state_dict() with torch.save, or do not trust it)", string(g))
	}
	return u.push(g)
}

func (u *unpickler) put(key uint64) error {
	v, err := u.top()
	if err != nil {
		return err
	}
	u.memo[key] = v
	return nil
}

func (u *unpickler) get(key uint64) error {
	v, ok := u.memo[key]
	if !ok {
		return errPickle
	}
	return u.push(v)
}
