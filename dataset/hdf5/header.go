package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
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
		body := h.last(part.kind)
		if body == nil && (part.kind == msgFilters || part.kind == msgFill) {
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

// fields reads the fields of a message one by one, as zeros beyond its end.
type fields struct {
	b     []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.b, f.short = nil, true
		return make([]byte, n)
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

// num is a little-endian number of n bytes.
func (f *fields) num(n int) uint64 { return uint64LE(f.take(n)) }

func (f *fields) err() error {
	if f.short {
		return errHeader
	}
	return nil
}

func (d *described) readSpace(b []byte) error {
	f := fields{b: b}
	version, rank, flags := f.num(1), int(f.num(1)), f.num(1)
	if version < 1 || version > 2 || rank > 32 {
		return errHeader
	}
	f.take(1)
	if version == 1 {
		f.take(4)
	}
	for range rank {
		d.dims = append(d.dims, f.num(8))
	}
	d.max = slices.Clone(d.dims)
	for i := 0; i < rank && flags&1 != 0; i++ { // rows may grow
		d.max[i] = f.num(8)
	}
	return f.err()
}

func (d *described) readFilters(b []byte) error {
	f := fields{b: b}
	version, n := f.num(1), int(f.num(1))
	if version < 1 || version > 2 {
		return errHeader
	}
	old := version == 1
	if old {
		f.take(6)
	}
	for i := 0; i < n && !f.short; i++ {
		filter, name := filterInfo{id: int(f.num(2))}, 0
		if old || filter.id >= 256 {
			name = int(f.num(2))
		}
		f.take(2) // flags
		params := int(f.num(2))
		if old {
			name = (name + 7) / 8 * 8
		}
		f.take(name)
		for k := 0; k < params && !f.short; k++ {
			filter.params = append(filter.params, uint32(f.num(4)))
		}
		if old && params%2 == 1 {
			f.b = f.b[min(4, len(f.b)):]
		}
		d.filters = append(d.filters, filter)
	}
	return f.err()
}

// readFill keeps zeros unless a value of the element's size is stored.
func (d *described) readFill(b []byte) error {
	f, stored := fields{b: b}, false
	switch version := f.num(1); version {
	case 1, 2:
		f.take(2)
		stored = f.num(1) != 0
	case 3:
		stored = f.num(1)&0x20 != 0
	default:
		return fmt.Errorf("%w: fill value of version %d", errHeader, version)
	}
	if stored && int(f.num(4)) == len(d.fill) {
		copy(d.fill, f.take(len(d.fill)))
	}
	return f.err()
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

// Messages of an object header that matter here.
const (
	msgSpace         = 0x01
	msgLinkInfo      = 0x02
	msgType          = 0x03
	msgFill          = 0x05
	msgLayout        = 0x08
	msgFilters       = 0x0b
	msgAttribute     = 0x0c
	msgContinuation  = 0x10
	msgAttributeInfo = 0x15
)

var errHeader = errors.New("the object header is damaged")

// block is a stretch of header messages in the file.
type block struct{ addr, size uint64 }

// header is an object header: the bodies of its messages, by kind.
type header map[int][][]byte

// last is the message of a kind of which a header has one, nil where it has none.
func (h header) last(kind int) []byte {
	if n := len(h[kind]); n > 0 {
		return h[kind][n-1]
	}
	return nil
}

// readHeader reads an object header of version 1 or 2 with its continuations.
func readHeader(c *cursor, addr uint64) (header, error) {
	head, err := c.read(addr, 16)
	if err != nil {
		return nil, err
	}
	h := header{}
	switch {
	case string(head[:4]) == "OHDR" && head[4] == 2:
		return h, h.read2(c, addr, head[5])
	case head[0] == 1:
		first := block{addr + 16, uint64(binary.LittleEndian.Uint32(head[8:]))}
		return h, h.walk(8, first, func(b block, _ bool) ([]byte, error) { return c.read(b.addr, b.size) })
	}
	return nil, errIndex
}

// read2 reads a version 2 header, which has a size of variable width, shorter
// message prefixes, and blocks that are framed by a signature and a checksum.
func (h header) read2(c *cursor, addr uint64, flags byte) error {
	at := addr + 6
	if flags&0x20 != 0 {
		at += 16 // times
	}
	if flags&0x10 != 0 {
		at += 4 // attribute storage
	}
	width := uint64(1) << (flags & 3)
	size, err := c.read(at, width)
	if err != nil {
		return err
	}
	prefix := 4
	if flags&0x04 != 0 {
		prefix = 6
	}
	frame := at + width - addr
	return h.walk(prefix, block{addr, frame + uint64LE(size) + 4}, func(b block, continued bool) ([]byte, error) {
		sig, skip := "OHDR", frame
		if continued {
			sig, skip = "OCHK", 4
		}
		if b.size < skip+4 {
			return nil, errHeader
		}
		raw, err := c.sealed(b.addr, b.size, sig)
		if err != nil {
			return nil, err
		}
		return raw[skip : b.size-4], nil
	})
}

// uint64LE reads a little-endian number of up to 8 bytes.
func uint64LE(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// walk goes through the messages of a header's blocks, which read hands out
// without their frames. A message's prefix is 8 bytes long in version 1 (kind and
// size of 2 bytes), less in version 2 (kind of 1 byte).
func (h header) walk(prefix int, first block, read func(b block, continued bool) ([]byte, error)) error {
	todo := []block{first}
	for i := 0; i < len(todo); i++ {
		b, err := read(todo[i], i > 0)
		if err != nil {
			return err
		}
		for len(b) >= prefix {
			kind, size := int(b[0]), int(binary.LittleEndian.Uint16(b[1:]))
			if prefix == 8 {
				kind, size = int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
			}
			if prefix+size > len(b) {
				return errHeader
			}
			body := b[prefix : prefix+size]
			b = b[prefix+size:]
			if kind != msgContinuation {
				h[kind] = append(h[kind], body)
			} else if len(body) < 16 {
				return errHeader
			} else {
				todo = append(todo, block{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])})
			}
		}
	}
	return nil
}

// Kinds of chunk index, numbered as in the version 4 layout message; the B-tree
// of version 3 has no number there.
const (
	indexBTree1     = 0
	indexSingle     = 1
	indexImplicit   = 2
	indexFixed      = 3
	indexExtensible = 4
	indexBTree2     = 5
)

// layoutMsg is what the data layout message says.
type layoutMsg struct {
	class    int // layoutCompact, layoutContig or layoutChunked
	kind     int // of the chunk index
	addr     uint64
	chunk    []uint64 // with the element's size as last entry
	filtered bool     // single chunk: size and mask follow
	size     uint64   // single chunk, or bytes of a compact data set
	mask     uint32
	data     []byte // of a compact data set
}

// parseLayout reads a layout message of version 3, 4 or 5 (as 4, with wider
// sizes in the index).
func parseLayout(b []byte) (layoutMsg, error) {
	f := fields{b: b}
	version, l := f.num(1), layoutMsg{class: int(f.num(1))}
	if f.short {
		return l, errHeader
	}
	if version < 3 || version > 5 {
		return l, errIndex
	}
	switch l.class {
	case layoutCompact:
		l.data = f.take(int(f.num(2)))
	case layoutContig:
		l.addr = f.num(8)
	case layoutChunked:
		if version > 3 {
			return l, l.parseIndexed(f)
		}
		rank := int(f.num(1))
		l.kind, l.addr = indexBTree1, f.num(8)
		for range rank {
			l.chunk = append(l.chunk, f.num(4))
		}
	default:
		return l, errIndex
	}
	return l, f.err()
}

func (l *layoutMsg) parseIndexed(f fields) error {
	const partialEdge, singleFiltered = 1, 2
	flags, rank, width := f.num(1), int(f.num(1)), int(f.num(1))
	if width > 8 {
		return errHeader
	}
	if flags&partialEdge != 0 {
		return errIndex // edge chunks without filters
	}
	for range rank {
		l.chunk = append(l.chunk, f.num(width))
	}
	switch l.kind = int(f.num(1)); l.kind { // with parameters that the index's own header repeats
	case indexSingle:
		if flags&singleFiltered != 0 {
			if l.filtered, l.size, l.mask = true, f.num(8), uint32(f.num(4)); l.size > maxChunk {
				return fmt.Errorf("%w: a chunk of %d bytes", errHeader, l.size)
			}
		}
	case indexImplicit:
	case indexFixed:
		f.take(1)
	case indexExtensible:
		f.take(5)
	case indexBTree2:
		f.take(6)
	default:
		return errIndex
	}
	l.addr = f.num(8)
	return f.err()
}

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

// widen turns little-endian elements into float64. It returns the index of the first
// integer that float64 cannot hold, which is rounded, or -1.
func (d *described) widen(dst []float64, src []byte) (inexact int) {
	order, dt, unused := binary.LittleEndian, d.dtype(), 64-8*d.elem
	inexact = -1
	for i := range dst {
		b := src[i*d.elem : (i+1)*d.elem]
		exact := true // near 2^64 a float64 may be too large to convert back
		switch {
		case dt == "float16":
			dst[i] = half(order.Uint16(b))
		case dt == "float32":
			dst[i] = float64(math.Float32frombits(order.Uint32(b)))
		case dt == "float64":
			dst[i] = math.Float64frombits(order.Uint64(b))
		case d.signed && !d.isBool:
			n := int64(uint64LE(b)) << unused >> unused
			dst[i] = float64(n)
			exact = dst[i] != 1<<63 && int64(dst[i]) == n
		default:
			v := uint64LE(b)
			dst[i] = float64(v)
			exact = dst[i] != 1<<64 && uint64(dst[i]) == v
		}
		if inexact < 0 && !exact {
			inexact = i
		}
	}
	return inexact
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
