package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// verifyTexts verifies that attributes lie inside their messages, which libhdf5 1.10
// takes for granted, and where their texts lie in the global heap. That carries no
// checksum: libhdf5, 2.0 included, never comes back from a collection with an object
// of no size, and 1.10 looks for an object of any number in its memory.
func verifyTexts(c *cursor, attributes [][]byte) error {
	const variableLength = 9
	for _, b := range attributes {
		typ, data, err := attributeParts(b)
		if err != nil {
			return err
		}
		if len(typ) == 0 || typ[0]&15 != variableLength {
			continue
		}
		for ; len(data) >= 16; data = data[16:] { // a length, the address of a collection, the number of an object in it
			addr, object := binary.LittleEndian.Uint64(data[4:]), binary.LittleEndian.Uint32(data[12:])
			if binary.LittleEndian.Uint32(data) == 0 {
				continue
			}
			if err := findText(c, addr, object); err != nil {
				return fmt.Errorf("a text of its attributes, object %d of the global heap at byte %d: %w (hint: the file is damaged, fetch or make it again)", object, addr, err)
			}
		}
	}
	return nil
}

// attributeParts are the datatype and the value of an attribute message of version
// 1 to 3; only version 1 pads its parts to 8 bytes.
func attributeParts(b []byte) (typ, data []byte, err error) {
	if len(b) < 9 {
		return nil, nil, errHeader
	}
	version, at := b[0], 8
	var ends [3]int // of name, datatype and dataspace
	if version == 3 {
		at = 9 // the name's character set
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
		return nil, nil, fmt.Errorf("%w: an attribute leaves it", errHeader)
	}
	return b[ends[0]:ends[1]], b[ends[2]:], nil
}

// findText goes through the objects of a collection for one of them. An object is
// a header of 16 bytes and its value, padded; the free space is number 0, whose
// size counts its header.
func findText(c *cursor, addr uint64, object uint32) error {
	head, err := c.signed(addr, 16, "GCOL")
	if err != nil {
		return err
	}
	b, err := c.read(addr, binary.LittleEndian.Uint64(head[8:]))
	if err != nil {
		return err
	}
	found := false
	for b = b[min(16, len(b)):]; len(b) >= 16; {
		number, n := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint64(b[8:])
		if number != 0 && n <= c.size {
			n = 16 + (n+7)/8*8
		}
		if n < 16 || n > uint64(len(b)) {
			return errors.New("an object leaves the heap")
		}
		found = found || uint32(number) == object
		b = b[n:]
	}
	if !found || object == 0 {
		return errors.New("there is none")
	}
	return nil
}
