package hdf5

import (
	"encoding/binary"
	"fmt"
)

// Kinds of chunk index, numbered as in the version 4 layout message; the B-tree
// of version 3 has no number there.
const (
	indexBTree1     = 0
	indexSingle     = 1
	indexImplicit   = 2
	indexFixed      = 3
	indexExtensible = 4
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
	if len(b) < 2 {
		return layoutMsg{}, errHeader
	}
	version, l := b[0], layoutMsg{class: int(b[1])}
	if version < 3 || version > 5 {
		return l, errIndex
	}
	b = b[2:]
	switch l.class {
	case layoutCompact:
		if len(b) < 2 || len(b)-2 < int(binary.LittleEndian.Uint16(b)) {
			return l, errHeader
		}
		l.data = b[2 : 2+binary.LittleEndian.Uint16(b)]
	case layoutContig:
		if len(b) < 8 {
			return l, errHeader
		}
		l.addr = binary.LittleEndian.Uint64(b)
	case layoutChunked:
		if version == 3 {
			return l, l.parseBTree(b)
		}
		return l, l.parseIndexed(b)
	default:
		return l, errIndex
	}
	return l, nil
}

func (l *layoutMsg) parseBTree(b []byte) error {
	if len(b) < 9 || len(b) < 9+4*int(b[0]) {
		return errHeader
	}
	l.kind, l.addr = indexBTree1, binary.LittleEndian.Uint64(b[1:])
	for i := range int(b[0]) {
		l.chunk = append(l.chunk, uint64(binary.LittleEndian.Uint32(b[9+4*i:])))
	}
	return nil
}

func (l *layoutMsg) parseIndexed(b []byte) error {
	const partialEdge, singleFiltered = 1, 2
	if len(b) < 3 || b[2] > 8 || len(b) < 4+int(b[1])*int(b[2]) {
		return errHeader
	}
	flags, rank, width := b[0], int(b[1]), int(b[2])
	if flags&partialEdge != 0 {
		return errIndex // edge chunks without filters
	}
	for i := range rank {
		l.chunk = append(l.chunk, uint64LE(b[3+i*width:][:width]))
	}
	b = b[3+rank*width:]
	l.kind = int(b[0])
	b = b[1:]
	skip := 0 // parameters that the index's own header repeats
	switch l.kind {
	case indexSingle:
		if flags&singleFiltered != 0 {
			if len(b) < 12 {
				return errHeader
			}
			l.filtered, l.size, l.mask = true, binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
			if l.size > maxChunk {
				return fmt.Errorf("%w: a chunk of %d bytes", errHeader, l.size)
			}
			skip = 12
		}
	case indexImplicit:
	case indexFixed:
		skip = 1
	case indexExtensible:
		skip = 5
	default:
		return errIndex
	}
	if len(b) < skip+8 {
		return errHeader
	}
	l.addr = binary.LittleEndian.Uint64(b[skip:])
	return nil
}
