package weights

import "fmt"

// do runs one opcode of pickle protocols 2 to 5 (named as in Python's
// pickletools), as far as torch.save uses them for dicts of tensors and plain
// values.
func (u *unpickler) do(op byte) error {
	switch op {
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
	case 'b': // BUILD: an OrderedDict's attributes, which nobody needs
		_, err := u.popN(1)
		return err
	}
	return u.doValue(op)
}

// doValue runs an opcode that pushes a plain value or fills a container.
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
	return fmt.Errorf("opcode %#02x has no place in a state dict: %w", op, errPickle)
}

// sized hands the next n bytes, read as a number, to do.
func (u *unpickler) sized(n int, do func(uint64) error) error {
	v, err := u.uint(n)
	if err != nil {
		return err
	}
	return do(v)
}

func (u *unpickler) skip(n int) error { _, err := u.uint(n); return err }

func (u *unpickler) integer(v uint64) error { return u.push(int64(v)) }

func (u *unpickler) pushIf(v any, err error) error {
	if err != nil {
		return err
	}
	return u.push(v)
}

// fill adds items to the list, or keys and values to the dict, on top.
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

func (u *unpickler) persistent() error {
	vs, err := u.popN(1)
	if err != nil {
		return err
	}
	return u.push(persistent{vs[0]})
}
