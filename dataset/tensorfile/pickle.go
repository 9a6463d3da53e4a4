package tensorfile

import (
	"bytes"
	"errors"
	"slices"
)

// A pickle is a program for a small stack machine, and in Python it can call any
// function. This machine only constructs values: plain ones, descriptions of tensors
// for the few calls that a state dict needs, and an inert object for every other call.
// It never looks a name up, so that a malicious pickle cannot do harm. The memory that
// it allocates is bounded by the length of the pickle, and it does not recurse.

// Values of a pickle are nil, bool, int64, float64, string and the following types.
type (
	tuple      []any
	list       struct{ items []any } // used as *list, since the memo may refer to it
	dict       struct{ keys, values []any }
	global     string // "module.name"
	persistent struct{ id any }
	markType   struct{} // MARK, the beginning of a variable number of values
	tensor     tuple    // the arguments of a call of rebuildTensor, as yet unchecked
	// object takes the place of any other value. Its contents are dropped.
	object struct {
		class  string
		module bool // it has the attributes of a torch.nn.Module
	}
)

// The names that a state dict refers to, besides the classes of storages.
const (
	orderedDict      = "collections.OrderedDict"
	rebuildTensor    = "torch._utils._rebuild_tensor_v2"
	rebuildParameter = "torch._utils._rebuild_parameter"
)

// errPickle is the error for pickles that are malformed or hold something else.
var errPickle = errors.New("the pickle is torn or not a state dict (hint: save model.state_dict() with torch.save)")

// unpickler is the state of the machine.
type unpickler struct {
	r     *bytes.Reader
	stack []any
	memo  map[uint64]any
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

// top returns the top value, which stays on the stack; a mark if the stack is empty.
func (u *unpickler) top() any {
	if len(u.stack) == 0 {
		return markType{}
	}
	return u.stack[len(u.stack)-1]
}

// maxGlobal bounds the length of a global's name. A few bytes of a pickle can refer to a
// long module name again and again, and each global is a new string.
const maxGlobal = 512

// name pushes a global.
func (u *unpickler) name(module, name string) error {
	if len(module)+len(name) > maxGlobal {
		return errPickle
	}
	return u.push(global(module + "." + name))
}

// call pushes the result of calling f: a dict, the description of a tensor, or an inert
// object.
func (u *unpickler) call(f any, args tuple) error {
	switch f {
	case global(orderedDict):
		if len(args) == 0 {
			return u.push(&dict{})
		}
	case global(rebuildTensor):
		if len(args) >= 4 { // storage, offset, shape, strides; the rest is for autograd
			return u.push(tensor(args))
		}
	case global(rebuildParameter):
		if len(args) >= 1 {
			if t, ok := args[0].(tensor); ok {
				return u.push(t)
			}
		}
	}
	return u.construct(f)
}

// build executes BUILD, which sets the attributes of the value below the top. They are
// dropped, but show whether an object is a module.
func (u *unpickler) build() error {
	attributes, err := u.pop()
	if err != nil {
		return err
	}
	o, isObject := u.top().(object)
	d, isDict := attributes.(*dict)
	const first = 16 // attributes of a module, of which _parameters is the second
	if isObject && isDict && slices.Contains(d.keys[:min(first, len(d.keys))], any("_parameters")) {
		o.module = true
		u.stack[len(u.stack)-1] = o
	}
	return nil
}

// construct pushes an inert object of the class f, or of the class of the object f.
func (u *unpickler) construct(f any) error {
	switch f := f.(type) {
	case global:
		return u.push(object{class: string(f)})
	case object:
		return u.push(f)
	}
	return errPickle
}

// put stores the value on top of the stack in the memo.
func (u *unpickler) put(key uint64) error {
	v := u.top()
	if v == any(markType{}) {
		return errPickle
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
