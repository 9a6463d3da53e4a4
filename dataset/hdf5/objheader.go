package hdf5

import (
	"encoding/binary"
	"errors"
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

const (
	msgLayout       = 0x08
	msgContinuation = 0x10
)

// layoutMsg is what the data layout message says of a chunked data set.
type layoutMsg struct {
	kind     int
	addr     uint64
	filtered bool // single chunk: size and mask follow
	size     uint64
	mask     uint32
}

// block is a stretch of header messages in the file.
type block struct{ addr, size uint64 }

// findLayout reads the layout message of an object header of version 1 or 2.
func findLayout(c *cursor, addr uint64) (layoutMsg, error) {
	head, err := c.read(addr, 16)
	if err != nil {
		return layoutMsg{}, err
	}
	if string(head[:4]) == "OHDR" {
		return findLayout2(c, addr)
	}
	if head[0] != 1 {
		return layoutMsg{}, errIndex
	}
	todo := []block{{addr + 16, uint64(binary.LittleEndian.Uint32(head[8:]))}}
	for len(todo) > 0 {
		b, err := c.read(todo[0].addr, todo[0].size)
		if err != nil {
			return layoutMsg{}, err
		}
		todo = todo[1:]
		for len(b) >= 8 {
			kind, size := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
			if 8+size > len(b) {
				return layoutMsg{}, errHeader
			}
			body := b[8 : 8+size]
			b = b[8+size:]
			switch kind {
			case msgLayout:
				return parseLayout(body)
			case msgContinuation:
				if len(body) < 16 {
					return layoutMsg{}, errHeader
				}
				todo = append(todo, block{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])})
			}
		}
	}
	return layoutMsg{}, errHeader
}

var errHeader = errors.New("the object header is damaged")

func findLayout2(c *cursor, addr uint64) (layoutMsg, error) {
	head, err := c.read(addr, 6)
	if err != nil {
		return layoutMsg{}, err
	}
	flags, at := head[5], addr+6
	if head[4] != 2 {
		return layoutMsg{}, errIndex
	}
	if flags&0x20 != 0 {
		at += 16 // times
	}
	if flags&0x10 != 0 {
		at += 4 // attribute storage
	}
	width := uint64(1) << (flags & 3)
	b, err := c.read(at, width)
	if err != nil {
		return layoutMsg{}, err
	}
	var size uint64
	for i := range b {
		size |= uint64(b[i]) << (8 * i)
	}
	prefix := 4 // of a message
	if flags&0x04 != 0 {
		prefix = 6
	}
	return walk2(c, block{at + width, size}, prefix)
}

// walk2 goes through the messages of a version 2 header and its continuations.
func walk2(c *cursor, first block, prefix int) (layoutMsg, error) {
	todo := []block{first}
	for i := 0; i < len(todo); i++ {
		b, err := c.read(todo[i].addr, todo[i].size)
		if err != nil {
			return layoutMsg{}, err
		}
		if i > 0 { // a continuation: signature before, checksum after
			if len(b) < 8 || string(b[:4]) != "OCHK" {
				return layoutMsg{}, errHeader
			}
			b = b[4 : len(b)-4]
		}
		for len(b) >= prefix {
			kind, size := b[0], int(binary.LittleEndian.Uint16(b[1:]))
			if prefix+size > len(b) {
				return layoutMsg{}, errHeader
			}
			body := b[prefix : prefix+size]
			b = b[prefix+size:]
			switch kind {
			case msgLayout:
				return parseLayout(body)
			case msgContinuation:
				if len(body) < 16 {
					return layoutMsg{}, errHeader
				}
				todo = append(todo, block{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])})
			}
		}
	}
	return layoutMsg{}, errHeader
}

// parseLayout reads a layout message of version 3 or 4.
func parseLayout(b []byte) (layoutMsg, error) {
	const chunked = 2
	if len(b) < 3 {
		return layoutMsg{}, errHeader
	}
	if b[1] != chunked {
		return layoutMsg{}, fmt.Errorf("%w: not a chunked layout", errHeader)
	}
	switch b[0] {
	case 3:
		if len(b) < 11 {
			return layoutMsg{}, errHeader
		}
		return layoutMsg{kind: indexBTree1, addr: binary.LittleEndian.Uint64(b[3:])}, nil
	case 4:
		return parseLayout4(b[2:])
	}
	return layoutMsg{}, errIndex
}

func parseLayout4(b []byte) (layoutMsg, error) {
	const partialEdge, singleFiltered = 1, 2
	if len(b) < 3 {
		return layoutMsg{}, errHeader
	}
	flags, skip := b[0], 3+int(b[1])*int(b[2])
	if flags&partialEdge != 0 {
		return layoutMsg{}, errIndex // edge chunks without filters
	}
	if len(b) < skip+1 {
		return layoutMsg{}, errHeader
	}
	l := layoutMsg{kind: int(b[skip])}
	b = b[skip+1:]
	switch l.kind {
	case indexSingle:
		if flags&singleFiltered != 0 {
			if len(b) < 12 {
				return layoutMsg{}, errHeader
			}
			l.filtered, l.size, l.mask = true, binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
			if l.size > maxChunk {
				return layoutMsg{}, errHeader
			}
			b = b[12:]
		}
	case indexImplicit:
	case indexFixed:
		b = b[min(1, len(b)):]
	case indexExtensible:
		b = b[min(5, len(b)):]
	default:
		return layoutMsg{}, errIndex
	}
	if len(b) < 8 {
		return layoutMsg{}, errHeader
	}
	l.addr = binary.LittleEndian.Uint64(b)
	return l, nil
}
