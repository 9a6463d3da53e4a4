package hdf5

import (
	"encoding/binary"
	"errors"
)

// Messages of an object header that matter here.
const (
	msgSpace        = 0x01
	msgType         = 0x03
	msgFill         = 0x05
	msgLayout       = 0x08
	msgFilters      = 0x0b
	msgContinuation = 0x10
)

var errHeader = errors.New("the object header is damaged")

// block is a stretch of header messages in the file.
type block struct{ addr, size uint64 }

// header is an object header: the body of each message, by kind.
type header map[int][]byte

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
		return h, h.walk(c, first, func(b []byte, _ bool) ([]byte, int, error) { return b, 8, nil })
	}
	return nil, errIndex
}

// read2 reads a version 2 header, which has a size of variable width, shorter
// message prefixes and framed continuations.
func (h header) read2(c *cursor, addr uint64, flags byte) error {
	at := addr + 6
	if flags&0x20 != 0 {
		at += 16 // times
	}
	if flags&0x10 != 0 {
		at += 4 // attribute storage
	}
	width := uint64(1) << (flags & 3)
	b, err := c.read(at, width)
	if err != nil {
		return err
	}
	prefix := 4
	if flags&0x04 != 0 {
		prefix = 6
	}
	return h.walk(c, block{at + width, uint64LE(b)}, func(b []byte, continued bool) ([]byte, int, error) {
		if !continued {
			return b, prefix, nil
		}
		if len(b) < 8 || string(b[:4]) != "OCHK" {
			return nil, 0, errHeader
		}
		return b[4 : len(b)-4], prefix, nil
	})
}

// uint64LE reads a little-endian number of up to 8 bytes.
func uint64LE(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// walk goes through the messages of a header's blocks. open strips a block's
// frame and says how long a message's prefix is: 8 bytes in version 1 (kind and
// size of 2 bytes), less in version 2 (kind of 1 byte).
func (h header) walk(c *cursor, first block, open func(b []byte, continued bool) ([]byte, int, error)) error {
	todo := []block{first}
	for i := 0; i < len(todo); i++ {
		raw, err := c.read(todo[i].addr, todo[i].size)
		if err != nil {
			return err
		}
		b, prefix, err := open(raw, i > 0)
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
				h[kind] = body
			} else if len(body) < 16 {
				return errHeader
			} else {
				todo = append(todo, block{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])})
			}
		}
	}
	return nil
}
