package weights

import "fmt"

// do executes one opcode of pickle protocols 2 to 5, as far as torch.save uses them
// for dicts of tensors and plain values. The comments have the names in Python's
// pickletools.
func (u *unpickler) do(op byte) error {
	switch op {
	// The protocol's version does not matter, nor do frames, which only help buffering.
	case 0x80: // PROTO
		return u.skip(1)
	case 0x95: // FRAME
		return u.skip(8)
	case '0': // POP
		_, err := u.pop()
		return err
	case 'q': // BINPUT
		return u.sized(1, u.put)
	case 'r': // LONG_BINPUT
		return u.sized(4, u.put)
	case 0x94: // MEMOIZE
		return u.put(uint64(len(u.memo)))
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
	case 'Q': // BINPERSID
		return u.persistent()
	case 'b': // BUILD: attributes of an OrderedDict, which are ignored
		_, err := u.popN(1)
		return err
	}
	return u.doValue(op)
}

// doValue executes an opcode that pushes a plain value or fills a container.
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
	case 'G': // BINFLOAT
		return u.float()
	case 'X': // BINUNICODE
		return u.sized(4, u.text)
	case 0x8c: // SHORT_BINUNICODE
		return u.sized(1, u.text)
	case ')': // EMPTY_TUPLE
		return u.push(tuple{})
	case 't': // TUPLE
		vs, err := u.popMark()
		return u.pushIf(tuple(vs), err)
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		vs, err := u.popN(int(op - 0x84))
		return u.pushIf(tuple(vs), err)
	case ']': // EMPTY_LIST
		return u.push(&list{})
	case '}': // EMPTY_DICT
		return u.push(&dict{})
	case 'a', 's': // APPEND, SETITEM
		vs, err := u.popN(map[byte]int{'a': 1, 's': 2}[op])
		return u.fill(vs, err)
	case 'e', 'u': // APPENDS, SETITEMS
		vs, err := u.popMark()
		return u.fill(vs, err)
	}
	return fmt.Errorf("opcode %#02x is not allowed in a state dict: %w", op, errPickle)
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
// and values to the dict there.
func (u *unpickler) fill(vs []any, err error) error {
	if err != nil {
		return err
	}
	top, err := u.top()
	if err != nil {
		return err
	}
	switch c := top.(type) {
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

// reduce executes REDUCE: it calls the global below the top with the tuple on top.
func (u *unpickler) reduce() error {
	vs, err := u.popN(2)
	if err != nil {
		return err
	}
	f, ok := vs[0].(global)
	args, also := vs[1].(tuple)
	if !ok || !also {
		return errPickle
	}
	v, err := u.call(f, args)
	return u.pushIf(v, err)
}

// persistent executes BINPERSID: the value on top is the id of an object outside the
// pickle, here of a storage.
func (u *unpickler) persistent() error {
	vs, err := u.popN(1)
	if err != nil {
		return err
	}
	return u.push(persistent{vs[0]})
}
