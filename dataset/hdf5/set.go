package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Set is a data set of any type and shape in a Group.
type Set struct {
	description
	group *Group
	// fault is why it has no rows of numbers or bytes, or "".
	fault string
	// rows reads the set, once it was opened.
	rows *dset
}

// fault returns why a data set has no rows of numbers or of bytes, or "".
func (d *description) fault() string {
	size := uint64(d.elem)
	for i, n := range d.dims {
		if n > 1<<40 || i > 0 && n > maxChunk/max(size, 1) {
			return fmt.Sprintf("its shape %v is not plausible", d.dims)
		}
		if i > 0 {
			size *= n
		}
	}
	const text, sequence = 3, 9
	switch {
	case len(d.dims) == 0:
		return "it is a single value"
	case d.isBytes && len(d.dims) != 1:
		return "it is a table of byte strings"
	case d.dtype() != "" || d.isBytes:
		return ""
	// Strings of variable length are sequences of characters.
	case d.class == text || d.class == sequence:
		return "it is text or of variable length"
	}
	return "it does not have numbers"
}

// Fault returns why the set has no rows of numbers or bytes, or "" if it has.
func (s *Set) Fault() string { return s.fault }

// DType returns the type of the set's numbers as envs.Column names it, float16
// included, or "bytes" for rows that are byte strings of any length.
func (s *Set) DType() string {
	if s.isBytes {
		return "bytes"
	}
	return s.dtype()
}

// Shape returns the set's shape. Sets with a fault may have none.
func (s *Set) Shape() []int {
	if s.fault != "" {
		return nil
	}
	shape := make([]int, len(s.dims))
	for i, n := range s.dims {
		shape[i] = int(n)
	}
	return shape
}

// RowBytes returns the size of a row of numbers.
func (s *Set) RowBytes() int {
	n := s.elem
	for _, edge := range s.Shape()[1:] {
		n *= edge
	}
	return n
}

// Read returns the numbers of the rows [from, to), row-major and little-endian.
// Booleans have one byte. What the rows need must be possible for a file of this size.
func (s *Set) Read(from, to int) ([]byte, error) {
	switch {
	case s.fault != "":
		return nil, errors.New(s.fault)
	case s.isBytes:
		return nil, errors.New("it has byte strings in place of numbers")
	}
	return s.read(from, to)
}

// read is Read for any type of elements.
func (s *Set) read(from, to int) ([]byte, error) {
	if s.rows == nil {
		t := s.group.tree
		rows, err := newDset(s.description, t.in, t.size, s.group.list.parsable, &s.group.cache)
		if err != nil {
			return nil, hinted(err, damaged)
		}
		s.rows = rows
	}
	// Deflate produces at most 1032 bytes from one (https://zlib.net/zlib_tech.html).
	// Other filters may do better on a part of a file, but not on all of it.
	if most := uint64(1<<20 + 1032*s.group.tree.size); to > from && uint64(to-from) > most/uint64(max(s.rows.rowBytes, 1)) {
		return nil, fmt.Errorf("its rows %d to %d of %d bytes cannot be in a file of this size (hint: the file is damaged or made to exhaust memory)", from, to, s.rows.rowBytes)
	}
	raw, err := s.rows.raw(from, to)
	if err != nil {
		err = hinted(err, damaged)
	}
	return raw, err
}

// ReadBytes returns the byte strings of the rows [from, to). They share memory.
func (s *Set) ReadBytes(from, to int) ([][]byte, error) {
	if !s.isBytes || s.fault != "" {
		return nil, errors.New("it does not have byte strings")
	}
	if !s.group.list.parsable {
		return nil, errors.New("its addresses do not have 8 bytes (hint: rewrite it with h5repack)")
	}
	refs, err := s.read(from, to)
	if err != nil {
		return nil, err
	}
	h := heap{newCursor(s.group.tree.in, s.group.tree.size), map[uint64]map[uint32][]byte{}}
	out := make([][]byte, 0, to-from)
	// Each reference is a length, the address of a collection, and the number of an
	// object in it.
	for ; len(refs) >= 16; refs = refs[16:] {
		n, addr, object := binary.LittleEndian.Uint32(refs), binary.LittleEndian.Uint64(refs[4:]), binary.LittleEndian.Uint32(refs[12:])
		var b []byte
		if n > 0 {
			if b, err = h.object(addr, object); err == nil && uint64(n) > uint64(len(b)) {
				err = fmt.Errorf("object %d of the global heap at byte %d has %d bytes, not %d", object, addr, len(b), n)
			}
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", from+len(out), hinted(err, damaged))
			}
		}
		out = append(out, b[:n])
	}
	return out, nil
}
