package tensorfile

import (
	"fmt"
	"strconv"
)

// do executes one opcode of pickle protocols 0 to 5, as Python 3 writes them. It returns
// an error for the others: codes of the registry of extensions, buffers outside the
// pickle, and instances of Python 2. The comments have the names in Python's
// pickletools.
func (u *unpickler) do(op byte) error {
	switch op {
	// The protocol's version does not matter, nor do frames, which only help buffering.
	case 0x80: // PROTO
		return u.skip(1)
	case 0x95: // FRAME
		return u.skip(8)
	case '0': // POP, which may remove a mark
		if len(u.stack) == 0 {
			return errPickle
		}
		u.cut(len(u.stack)-1, len(u.stack)-1)
		return nil
	case '1': // POP_MARK
		_, err := u.popMark()
		return err
	case 'p': // PUT
		return u.key(u.put)
	case 'q': // BINPUT
		return u.sized(1, u.put)
	case 'r': // LONG_BINPUT
		return u.sized(4, u.put)
	case 0x94: // MEMOIZE
		return u.put(uint64(len(u.memo)))
	case 'g': // GET
		return u.key(u.get)
	case 'h': // BINGET
		return u.sized(1, u.get)
	case 'j': // LONG_BINGET
		return u.sized(4, u.get)
	case 'c': // GLOBAL
		return u.global()
	case 0x93: // STACK_GLOBAL
		return u.stackGlobal()
	case 'R': // REDUCE
		return u.reduce()
	case 0x81, 0x92: // NEWOBJ; NEWOBJ_EX, with keyword arguments
		vs, err := u.popN(map[byte]int{0x81: 2, 0x92: 3}[op])
		if err != nil {
			return err
		}
		return u.construct(vs[0])
	case 'P': // PERSID
		id, err := u.line()
		return u.pushIf(persistent{id}, err)
	case 'Q': // BINPERSID: the value on top is the id of an object outside the pickle, here of a storage
		id, err := u.pop()
		return u.pushIf(persistent{id}, err)
	case 'b': // BUILD
		return u.build()
	}
	return u.doValue(op)
}

// doValue executes an opcode that pushes a plain value.
func (u *unpickler) doValue(op byte) error {
	switch op {
	case '(': // MARK
		return u.push(markType{})
	case 'N': // NONE
		return u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return u.push(op == 0x88)
	case 'K': // BININT1
		return u.sized(1, u.integer)
	case 'M': // BININT2
		return u.sized(2, u.integer)
	case 'J': // BININT
		return u.long(4)
	case 0x8a: // LONG1
		return u.sized(1, u.long)
	case 0x8b: // LONG4
		return u.sized(4, u.long)
	case 'I', 'L', 'F': // INT, LONG, FLOAT
		return u.decimal()
	case 'G': // BINFLOAT
		return u.float()
	case 'U', 0x8c: // SHORT_BINSTRING, SHORT_BINUNICODE
		return u.sized(1, u.text)
	case 'T', 'X': // BINSTRING, BINUNICODE
		return u.sized(4, u.text)
	case 0x8d: // BINUNICODE8
		return u.sized(8, u.text)
	case 'V': // UNICODE, whose escapes no name of a tensor needs
		text, err := u.line()
		return u.pushIf(text, err)
	case 'S': // STRING, in quotes
		_, err := u.line()
		return u.pushIf(object{class: "str"}, err)
	case 'C': // SHORT_BINBYTES
		return u.sized(1, u.opaque("bytes"))
	case 'B': // BINBYTES
		return u.sized(4, u.opaque("bytes"))
	case 0x8e: // BINBYTES8
		return u.sized(8, u.opaque("bytes"))
	case 0x96: // BYTEARRAY8
		return u.sized(8, u.opaque("bytearray"))
	}
	return u.doContainer(op)
}

// doContainer executes an opcode that pushes or fills a container.
func (u *unpickler) doContainer(op byte) error {
	switch op {
	case ')': // EMPTY_TUPLE
		return u.push(tuple{})
	case ']': // EMPTY_LIST
		return u.push(&list{})
	case '}': // EMPTY_DICT
		return u.push(&dict{})
	case 0x8f: // EMPTY_SET
		return u.push(object{class: "set"})
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		vs, err := u.popN(int(op - 0x84))
		return u.pushIf(tuple(vs), err)
	case 'a', 's': // APPEND, SETITEM
		vs, err := u.popN(map[byte]int{'a': 1, 's': 2}[op])
		return u.fill(vs, err)
	case 't', 'l', 'd', 'e', 'u', 0x90, 0x91: // those that take the values above a mark
		vs, err := u.popMark()
		switch op {
		case 't': // TUPLE
			return u.pushIf(tuple(vs), err)
		case 'l': // LIST
			return u.pushIf(&list{vs}, err)
		case 0x91: // FROZENSET
			return u.pushIf(object{class: "frozenset"}, err)
		case 'd': // DICT
			u.push(&dict{})
		}
		return u.fill(vs, err) // APPENDS, SETITEMS, ADDITEMS
	}
	return fmt.Errorf("opcode %#02x is not one that torch.save writes: %w", op, errPickle)
}

// key reads a number on a line of its own and calls do with it.
func (u *unpickler) key(do func(uint64) error) error {
	text, err := u.line()
	if err != nil {
		return err
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errPickle
	}
	return do(v)
}

// sized reads the next n bytes as a little-endian number and calls do with it.
func (u *unpickler) sized(n int, do func(uint64) error) error {
	v, err := u.uint(n)
	if err != nil {
		return err
	}
	return do(v)
}

// skip ignores the next n bytes, at most 8.
func (u *unpickler) skip(n int) error { _, err := u.uint(n); return err }

// integer pushes a number that was stored without a sign.
func (u *unpickler) integer(v uint64) error { return u.push(int64(v)) }

// pushIf pushes v unless err is set.
func (u *unpickler) pushIf(v any, err error) error {
	if err != nil {
		return err
	}
	return u.push(v)
}

// fill appends vs to the list on top of the stack, or adds them as alternating keys
// and values to the dict there. The items of an inert object are dropped.
func (u *unpickler) fill(vs []any, err error) error {
	if err != nil {
		return err
	}
	switch c := u.top().(type) {
	case *list:
		c.items = append(c.items, vs...)
		return nil
	case *dict:
		if len(vs)%2 != 0 {
			return errPickle
		}
		for i := 0; i < len(vs); i += 2 {
			c.keys, c.values = append(c.keys, vs[i]), append(c.values, vs[i+1])
		}
		return nil
	case object:
		return nil
	}
	return errPickle
}

// global executes GLOBAL, whose module and name are two lines.
func (u *unpickler) global() error {
	module, err := u.line()
	if err != nil {
		return err
	}
	name, err := u.line()
	if err != nil {
		return err
	}
	return u.name(module, name)
}

// stackGlobal executes STACK_GLOBAL, which takes module and name from the stack.
func (u *unpickler) stackGlobal() error {
	vs, err := u.popN(2)
	if err != nil {
		return err
	}
	module, ok := vs[0].(string)
	name, also := vs[1].(string)
	if !ok || !also {
		return errPickle
	}
	return u.name(module, name)
}

// reduce executes REDUCE: it calls the value below the top with the tuple on top.
func (u *unpickler) reduce() error {
	vs, err := u.popN(2)
	if err != nil {
		return err
	}
	args, ok := vs[1].(tuple)
	if !ok {
		return errPickle
	}
	return u.call(vs[0], args)
}
