package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// describe reads the description of a data set from its object header, for data sets
// that the installed libhdf5 is too old to open: with libver="latest", h5py 3.16
// writes booleans and filters in the format of HDF5 2.0.
func describe(c *cursor, name string, addr uint64) (description, error) {
	d := description{name: name, header: addr, offset: undefAddr, id: -1}
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

// readType accepts integers, IEEE floats and enums of integers. Any other class has
// no dtype, and its column is skipped.
func (d *description) readType(b []byte) error {
	const enum, sequence = 8, 9
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
		// The bits of exponent and mantissa of binary16, 32 and 64.
		if want := map[int][2]byte{2: {5, 10}, 4: {8, 23}, 8: {11, 52}}[d.elem]; want != [2]byte{b[13], b[15]} {
			d.class = -1
		}
	case sequence:
		// Kind 0 is a sequence, 1 a string. Its base type follows.
		d.isBytes = b[1]&15 == 0 && len(b) >= 16 && int(b[8]&15) == classInteger && b[9]&8 == 0 && binary.LittleEndian.Uint32(b[12:]) == 1
	case enum:
		members := int(b[1]) | int(b[2])<<8
		elem := d.elem
		if err := d.readType(b[8:]); err != nil || d.elem != elem {
			return errHeader
		}
		// The names of the members, padded to 8 bytes in old versions, then their
		// values. h5py writes booleans as an enum of FALSE = 0 and TRUE = 1.
		names := strings.ReplaceAll(string(b[min(20, len(b)):]), "\x00", "")
		d.isBool = members == 2 && elem == 1 && names == "FALSETRUE\x01"
	}
	return nil
}

// fields reads the fields of a message one after another. Past the end it returns
// zeros and sets short, so that a parser needs to check for errors only once.
type fields struct {
	b     []byte
	short bool
}

// take returns the next n bytes.
func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.b, f.short = nil, true
		return make([]byte, n)
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

// num reads a little-endian number of n bytes.
func (f *fields) num(n int) uint64 { return uint64LE(f.take(n)) }

// err returns an error if the message was too short.
func (f *fields) err() error {
	if f.short {
		return errHeader
	}
	return nil
}

// readSpace reads the extents and, if they are present, the largest extents.
func (d *description) readSpace(b []byte) error {
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
	for i := 0; i < rank && flags&1 != 0; i++ {
		d.max[i] = f.num(8)
	}
	return f.err()
}

// readFilters reads the filter pipeline. Version 1 has a name for each filter and
// pads it, and odd numbers of parameters, to 8 bytes. Version 2 has names only for
// filters with ids from 256, which others than the HDF Group registered.
func (d *description) readFilters(b []byte) error {
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

// readFill reads the fill value. It stays zero unless a value of the element's size
// is stored.
func (d *description) readFill(b []byte) error {
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

// readLayout reads where the data are. The last number of a chunk's shape is the
// element size.
func (d *description) readLayout(b []byte) error {
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

// Kinds of header messages that are read here.
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

// errHeader is wrapped by errors about metadata that contradict the format.
var errHeader = errors.New("the object header is damaged")

// block is a range of the file with header messages.
type block struct{ addr, size uint64 }

// header is an object header: the bodies of its messages by kind.
type header map[int][][]byte

// last returns the message of a kind that occurs once, or nil.
func (h header) last(kind int) []byte {
	if n := len(h[kind]); n > 0 {
		return h[kind][n-1]
	}
	return nil
}

// readHeader reads an object header of version 1 or 2, with its continuations.
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

// read2 reads a version 2 header. It has a size of variable width and shorter message
// prefixes, and each of its blocks begins with a signature and ends with a checksum.
func (h header) read2(c *cursor, addr uint64, flags byte) error {
	at := addr + 6
	if flags&0x20 != 0 {
		// Four times of 4 bytes.
		at += 16
	}
	if flags&0x10 != 0 {
		// Limits of the storage of attributes.
		at += 4
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
		raw, err := c.readChecked(b.addr, b.size, sig)
		if err != nil {
			return nil, err
		}
		return raw[skip : b.size-4], nil
	})
}

// uint64LE returns a little-endian number of up to 8 bytes.
func uint64LE(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// walk collects the messages of a header's blocks, including continuations. read
// returns a block without its signature and checksum. A message begins with a prefix
// of 8 bytes in version 1 (kind and size of 2 bytes each); in version 2 the prefix is
// shorter and the kind has 1 byte. Cycles of continuations end with the cursor's
// budget.
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

// Kinds of chunk index, with the numbers of the version 4 layout message. The B-tree
// of version 3 has no number there.
const (
	indexBTree1     = 0
	indexSingle     = 1
	indexImplicit   = 2
	indexFixed      = 3
	indexExtensible = 4
	indexBTree2     = 5
)

// layoutMsg is a data layout message.
type layoutMsg struct {
	// class is layoutCompact, layoutContig or layoutChunked.
	class int
	// kind is that of the chunk index.
	kind int
	addr uint64
	// chunk is the shape of a chunk, with the element size as its last number.
	chunk []uint64
	// filtered, size and mask describe a single chunk with filters.
	filtered bool
	// size is that of a single chunk with filters, or of compact data.
	size uint64
	mask uint32
	// data is that of a compact data set.
	data []byte
}

// parseLayout parses a layout message of version 3, 4 or 5. Version 5 differs from 4
// only in the width of sizes in the index.
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

// parseIndexed parses the rest of a version 4 or 5 message about chunks. Parameters
// that the index repeats in its own header are skipped.
func (l *layoutMsg) parseIndexed(f fields) error {
	const partialEdge, singleFiltered = 1, 2
	flags, rank, width := f.num(1), int(f.num(1)), int(f.num(1))
	if width > 8 {
		return errHeader
	}
	if flags&partialEdge != 0 {
		// Chunks at the edge are stored without filters.
		return errIndex
	}
	for range rank {
		l.chunk = append(l.chunk, f.num(width))
	}
	switch l.kind = int(f.num(1)); l.kind {
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

// dtype returns the element type as envs.Column names it, or "" for a type that is
// not numeric. Booleans, which are enums in some files, are uint8.
func (d *description) dtype() string {
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

// widen converts little-endian elements to float64. It returns the index of the first
// integer that float64 cannot represent, and that was rounded, or -1.
func (d *description) widen(dst []float64, src []byte) (inexact int) {
	order, dt, unused := binary.LittleEndian, d.dtype(), 64-8*d.elem
	inexact = -1
	for i := range dst {
		b := src[i*d.elem : (i+1)*d.elem]
		// An integer is exact if it converts back to itself. The largest ones round
		// up to 2^63 or 2^64, whose conversion would overflow, so these are excluded
		// first.
		exact := true
		switch {
		case dt == "float16":
			dst[i] = Float16(order.Uint16(b))
		case dt == "float32":
			dst[i] = float64(math.Float32frombits(order.Uint32(b)))
		case dt == "float64":
			dst[i] = math.Float64frombits(order.Uint64(b))
		case d.signed && !d.isBool:
			// Shifting left and back extends the sign.
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

// Float16 converts an IEEE binary16, subnormal numbers included.
func Float16(h uint16) float64 {
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

// writable has the types that we write, with their widths in bytes. float16 columns
// are written as float32, which holds them exactly.
var writable = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4,
	"uint64": 8, "int64": 8, "float32": 4, "float64": 8}

// SizeOf returns the width in bytes of a type that a Writer stores as it is, 0 for others.
func SizeOf(dtype string) int { return writable[dtype] }

// narrow appends v in a writable type. It returns an error if the type cannot
// represent the value, so that no integer column changes silently; float32 rounds.
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
