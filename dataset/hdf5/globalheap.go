package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// verifyStrings verifies that attributes are inside their messages, and that their
// strings of variable length exist in the global heap. No checksum covers the global
// heap, and libhdf5 does not check either: 1.10 reads outside its memory for
// attributes that are longer than their messages and for object numbers that do not
// exist, and all versions including 2.0 loop for ever on a collection with an object
// of size 0.
func verifyStrings(c *cursor, attributes [][]byte) error {
	const variableLength = 9
	h := heap{c, map[uint64]map[uint32][]byte{}}
	for _, b := range attributes {
		typ, data, err := attributeParts(b)
		if err != nil {
			return err
		}
		if len(typ) == 0 || typ[0]&15 != variableLength {
			continue
		}
		// Each string is its length, the address of a collection, and the number of
		// an object in it.
		for ; len(data) >= 16; data = data[16:] {
			addr, object := binary.LittleEndian.Uint64(data[4:]), binary.LittleEndian.Uint32(data[12:])
			if binary.LittleEndian.Uint32(data) == 0 {
				continue
			}
			if _, err := h.object(addr, object); err != nil {
				return fmt.Errorf("a string of its attributes, object %d of the global heap at byte %d: %w (hint: the file is damaged, fetch or make it again)", object, addr, err)
			}
		}
	}
	return nil
}

// attributeParts returns the datatype and the value of an attribute message of
// version 1 to 3. Only version 1 pads its parts to 8 bytes.
func attributeParts(b []byte) (typ, data []byte, err error) {
	if len(b) < 9 {
		return nil, nil, errHeader
	}
	version, at := b[0], 8
	// ends has the ends of name, datatype and dataspace.
	var ends [3]int
	if version == 3 {
		// Version 3 has a byte for the character set of the name.
		at = 9
	}
	for i := range ends {
		n := int(binary.LittleEndian.Uint16(b[2+2*i:]))
		if version == 1 {
			n = (n + 7) / 8 * 8
		}
		at += n
		ends[i] = at
	}
	if at > len(b) {
		return nil, nil, fmt.Errorf("%w: an attribute extends past the end of its message", errHeader)
	}
	return b[ends[0]:ends[1]], b[ends[2]:], nil
}

// heap has the collections of the global heap that were read so far, by address: their
// objects by number.
type heap struct {
	c    *cursor
	read map[uint64]map[uint32][]byte
}

// object returns an object of a collection.
func (h heap) object(addr uint64, number uint32) ([]byte, error) {
	objects, ok := h.read[addr]
	if !ok {
		var err error
		if objects, err = readCollection(h.c, addr); err != nil {
			return nil, err
		}
		h.read[addr] = objects
	}
	b, ok := objects[number]
	if !ok {
		return nil, errors.New("it does not exist")
	}
	return b, nil
}

// readCollection reads a collection and checks all its objects. An object is a header
// of 16 bytes and its value, padded to 8 bytes. Number 0 is the free space, whose size
// includes its header, and is not returned.
func readCollection(c *cursor, addr uint64) (map[uint32][]byte, error) {
	head, err := c.readSigned(addr, 16, "GCOL")
	if err != nil {
		return nil, err
	}
	b, err := c.read(addr, binary.LittleEndian.Uint64(head[8:]))
	if err != nil {
		return nil, err
	}
	objects := map[uint32][]byte{}
	for b = b[min(16, len(b)):]; len(b) >= 16; {
		number, size := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint64(b[8:])
		n := size
		if number != 0 && size <= c.size {
			n = 16 + (size+7)/8*8
		}
		if n < 16 || n > uint64(len(b)) {
			return nil, errors.New("an object extends past the end of the heap")
		}
		if number != 0 {
			objects[uint32(number)] = b[16 : 16+size]
		}
		b = b[n:]
	}
	return objects, nil
}
