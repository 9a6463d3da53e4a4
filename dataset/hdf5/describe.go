package hdf5

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// describe reads what libhdf5 would say of a data set, for files that the
// installed library is too old to open: h5py 3.16 writes booleans and filters in
// the format of HDF5 2.0 when it is asked for the latest one.
func describe(c *cursor, name string, addr uint64) (described, error) {
	d := described{name: name, header: addr, offset: undefAddr, id: -1}
	h, err := readHeader(c, addr)
	if err != nil {
		return d, err
	}
	for _, part := range []struct {
		kind int
		read func([]byte) error
	}{{msgType, d.readType}, {msgSpace, d.readSpace}, {msgFilters, d.readFilters}, {msgFill, d.readFill}, {msgLayout, d.readLayout}} {
		body, ok := h[part.kind]
		if !ok && (part.kind == msgFilters || part.kind == msgFill) {
			continue
		}
		if err := part.read(body); err != nil {
			return d, err
		}
	}
	return d, nil
}

// readType takes integers, IEEE floats and enums of integers; any other class is
// left without a dtype.
func (d *described) readType(b []byte) error {
	const enum = 8
	if len(b) < 8 {
		return errHeader
	}
	d.class, d.elem = int(b[0]&15), int(binary.LittleEndian.Uint32(b[4:]))
	d.fill = make([]byte, min(d.elem, 64))
	switch d.class {
	case classInteger:
		d.bigEndian, d.signed = b[1]&1 != 0, b[1]&8 != 0
	case classFloat:
		if len(b) < 20 {
			return errHeader
		}
		d.bigEndian = b[1]&1 != 0
		// exponent and mantissa bits of binary16, 32 and 64
		if want := map[int][2]byte{2: {5, 10}, 4: {8, 23}, 8: {11, 52}}[d.elem]; want != [2]byte{b[13], b[15]} {
			d.class = -1
		}
	case enum:
		members := int(b[1]) | int(b[2])<<8
		elem := d.elem
		if err := d.readType(b[8:]); err != nil || d.elem != elem {
			return errHeader
		}
		// The names, padded to 8 bytes in old versions, and the values.
		names := strings.ReplaceAll(string(b[min(20, len(b)):]), "\x00", "")
		d.isBool = members == 2 && elem == 1 && names == "FALSETRUE\x01"
	}
	return nil
}

func (d *described) readSpace(b []byte) error {
	if len(b) < 4 || b[0] < 1 || b[0] > 2 || b[1] > 32 {
		return errHeader
	}
	rank, grows := int(b[1]), b[2]&1 != 0
	at := 4
	if b[0] == 1 {
		at = 8
	}
	want := 8 * rank
	if grows {
		want *= 2
	}
	if len(b) < at+want {
		return errHeader
	}
	for i := range rank {
		d.dims = append(d.dims, binary.LittleEndian.Uint64(b[at+8*i:]))
		d.max = append(d.max, d.dims[i])
		if grows {
			d.max[i] = binary.LittleEndian.Uint64(b[at+8*(rank+i):])
		}
	}
	return nil
}

func (d *described) readFilters(b []byte) error {
	if len(b) < 2 || b[0] < 1 || b[0] > 2 {
		return errHeader
	}
	old, n := b[0] == 1, int(b[1])
	b = b[2:]
	if old {
		b = b[min(6, len(b)):]
	}
	for range n {
		if len(b) < 4 {
			return errHeader
		}
		f := filterInfo{id: int(binary.LittleEndian.Uint16(b))}
		name := 0
		b = b[2:]
		if old || f.id >= 256 {
			name = int(binary.LittleEndian.Uint16(b))
			b = b[2:]
		}
		if len(b) < 4 {
			return errHeader
		}
		params := int(binary.LittleEndian.Uint16(b[2:]))
		b = b[4:]
		if old {
			name = (name + 7) / 8 * 8
		}
		size := name + 4*params
		if old && params%2 == 1 {
			size += 4
		}
		if len(b) < name+4*params {
			return errHeader
		}
		for i := range params {
			f.params = append(f.params, binary.LittleEndian.Uint32(b[name+4*i:]))
		}
		d.filters = append(d.filters, f)
		b = b[min(size, len(b)):]
	}
	return nil
}

// readFill keeps zeros unless a value of the element's size is stored.
func (d *described) readFill(b []byte) error {
	if len(b) < 2 {
		return errHeader
	}
	at, stored := 4, false
	switch b[0] {
	case 1, 2:
		stored = len(b) >= 8 && b[3] != 0
	case 3:
		at, stored = 2, b[1]&0x20 != 0
	default:
		return fmt.Errorf("%w: fill value of version %d", errHeader, b[0])
	}
	if !stored || len(b) < at+4 {
		return nil
	}
	if n := binary.LittleEndian.Uint32(b[at:]); int(n) == len(d.fill) && len(b) >= at+4+int(n) {
		copy(d.fill, b[at+4:])
	}
	return nil
}

func (d *described) readLayout(b []byte) error {
	l, err := parseLayout(b)
	if err != nil {
		return err
	}
	d.layout = l.class
	switch l.class {
	case layoutContig:
		d.offset = l.addr
	case layoutCompact:
		d.compact = l.data
	case layoutChunked:
		if len(l.chunk) != len(d.dims)+1 {
			return errHeader
		}
		d.chunk = l.chunk[:len(d.dims)]
	}
	return nil
}
