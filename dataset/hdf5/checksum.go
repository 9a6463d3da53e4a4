package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// Since version 2 of the superblock, every structure of a file except raw data and
// the global heap ends with its own checksum. Everything this package reads of them
// goes through cursor.readChecked. verifyObject checks the structures that only libhdf5
// reads: links and attributes of an object. Damage is thus found before libhdf5
// parses it, and errors name the structure and its position.

// errChecksum is wrapped by errors about a structure with a wrong checksum.
var errChecksum = errors.New("does not match its checksum")

// structures has the names of structures by signature, for messages.
var structures = map[string]string{
	"OHDR": "object header", "OCHK": "continuation of an object header",
	"FRHP": "fractal heap", "FHDB": "direct block of a fractal heap", "FHIB": "indirect block of a fractal heap", "FSHD": "free space of a fractal heap",
	"BTHD": "B-tree", "BTIN": "inner node of a B-tree", "BTLF": "leaf of a B-tree",
	"FAHD": "fixed array", "FADB": "data block of a fixed array", "EAHD": "extensible array",
	"EAIB": "index block of an extensible array", "EASB": "super block of an extensible array", "EADB": "data block of an extensible array",
}

// readChecked reads a structure of n bytes that begins with a signature and ends with its
// checksum, and verifies both.
func (c *cursor) readChecked(addr, n uint64, sig string) ([]byte, error) {
	b, err := c.readSigned(addr, n, sig)
	if err != nil {
		return nil, err
	}
	return b, c.verify(b, addr, structures[sig])
}

// ignoreChecksums disables checksums. Only fuzz targets set it, since otherwise all their
// edits would be found by the checksum and nothing behind it would be tested.
var ignoreChecksums bool

// verify compares the bytes of a structure with the checksum at their end.
func (c *cursor) verify(b []byte, addr uint64, what string) error {
	if end := len(b) - 4; end < 0 || !ignoreChecksums && lookup3(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return fmt.Errorf("the %s at byte %d %w (hint: the file is damaged, fetch or make it again)", what, addr, errChecksum)
	}
	return nil
}

// lookup3 is Bob Jenkins' hash function of that name (hashlittle with initial value
// 0), the checksum of HDF5's metadata.
func lookup3(p []byte) uint32 {
	a := 0xdeadbeef + uint32(len(p))
	b, c := a, a
	for ; len(p) > 12; p = p[12:] {
		a += binary.LittleEndian.Uint32(p)
		b += binary.LittleEndian.Uint32(p[4:])
		c += binary.LittleEndian.Uint32(p[8:])
		a, c = (a-c)^bits.RotateLeft32(c, 4), c+b
		b, a = (b-a)^bits.RotateLeft32(a, 6), a+c
		c, b = (c-b)^bits.RotateLeft32(b, 8), b+a
		a, c = (a-c)^bits.RotateLeft32(c, 16), c+b
		b, a = (b-a)^bits.RotateLeft32(a, 19), a+c
		c, b = (c-b)^bits.RotateLeft32(b, 4), b+a
	}
	if len(p) == 0 {
		return c
	}
	var tail [12]byte
	copy(tail[:], p)
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:])
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}

// superblock is the first structure of a file, from which all others are reached.
type superblock struct {
	// base is the position of the superblock, after a user block. Addresses in the
	// file count from there.
	base int64
	// hasChecksums is set for version 2 and 3: metadata have checksums.
	hasChecksums bool
	// parsable is set if addresses and lengths have 8 bytes, which our parser requires.
	parsable bool
	// root is the address of the root group's header, if parsable is set.
	root uint64
}

// readSuperblock finds the superblock, which is at 0, 512, 1024, 2048, ..., and
// verifies it and the root group, which has the links to columns and the attributes.
// Files of versions before 2 have no checksums.
func readSuperblock(r io.ReaderAt, size int64) (superblock, error) {
	const sig = "\x89HDF\r\n\x1a\n"
	for base := int64(0); base+48 <= size; base = max(512, 2*base) {
		c := newCursor(io.NewSectionReader(r, base, size-base), size-base)
		b, err := c.read(0, 48)
		if err != nil {
			return superblock{}, err
		}
		if string(b[:8]) != sig {
			continue
		}
		if b[8] < 2 {
			return readOldSuperblock(c, b, base)
		}
		s := superblock{base: base, hasChecksums: true, parsable: b[9] == 8 && b[10] == 8, root: binary.LittleEndian.Uint64(b[36:])}
		if !s.parsable {
			return s, nil
		}
		if err := c.verify(b, 0, "superblock"); err != nil {
			return s, err
		}
		return s, verifyObject(c, s.root)
	}
	return superblock{}, errors.New("it has no signature of HDF5")
}

// readOldSuperblock reads a superblock of version 0 or 1. The address of the root
// group follows four other addresses and the name of the group.
func readOldSuperblock(c *cursor, b []byte, base int64) (superblock, error) {
	s := superblock{base: base, parsable: b[13] == 8 && b[14] == 8}
	if !s.parsable {
		return s, nil
	}
	root, err := c.read(64+4*uint64(b[8]), 8)
	if err != nil {
		return s, err
	}
	s.root = binary.LittleEndian.Uint64(root)
	h, err := readHeader(c, s.root)
	if err != nil {
		// libhdf5 reports what is wrong with the root group.
		return s, nil
	}
	return s, verifyStrings(c, h[msgAttribute])
}

// verifyObject verifies the header of an object and, if its links or attributes are
// too many for the header, the fractal heap and B-trees that have them instead.
func verifyObject(c *cursor, addr uint64) error {
	h, err := readHeader(c, addr)
	if err != nil {
		return err
	}
	return errors.Join(verifyDense(c, h.last(msgLinkInfo), 8), verifyDense(c, h.last(msgAttributeInfo), 2), verifyStrings(c, h[msgAttribute]))
}

// verifyDense verifies the structures that a link info or attribute info message
// points to. order is the width of the largest creation order in that message. A
// B-tree by name always exists, one by creation order only if that is indexed.
func verifyDense(c *cursor, body []byte, order int) error {
	if body == nil {
		return nil
	}
	if len(body) < 2 {
		return errHeader
	}
	// Flags: the order of creation is stored, and has an index.
	const tracked, indexed = 1, 2
	flags, at := body[1], 2
	if flags&tracked != 0 {
		at += order
	}
	trees := 1
	if flags&indexed != 0 {
		trees = 2
	}
	if len(body) < at+8*(1+trees) {
		return errHeader
	}
	heap := binary.LittleEndian.Uint64(body[at:])
	if heap == undefAddr {
		// All links or attributes are in the header.
		return nil
	}
	if err := verifyHeap(c, heap); err != nil {
		return err
	}
	for i := range trees {
		if err := walkBTree2(c, binary.LittleEndian.Uint64(body[at+8*(i+1):]), func([]byte) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// fractalHeap is the geometry of a fractal heap. Its blocks form a table with rows of
// width blocks; block sizes are equal in the first two rows and double with each
// further row. Rows before direct have data blocks, later rows have indirect blocks
// with tables of their own.
type fractalHeap struct {
	c *cursor
	// start is the size of the blocks in the first two rows.
	start  uint64
	width  uint64
	direct uint64
	// offBytes is the width of a block's offset.
	offBytes uint64
	// sums is set if direct blocks have checksums.
	sums bool
}

// verifyHeap verifies a fractal heap, except its huge objects, which have no
// checksums.
func verifyHeap(c *cursor, addr uint64) error {
	head, err := c.read(addr, 16)
	if err != nil {
		return err
	}
	filters := uint64(binary.LittleEndian.Uint16(head[7:]))
	n := uint64(146)
	if filters > 0 {
		n += 12 + filters
	}
	b, err := c.readChecked(addr, n, "FRHP")
	if err != nil {
		return err
	}
	if filters > 0 {
		// The blocks are compressed and their checksums inside, so libhdf5 verifies
		// them.
		return nil
	}
	if huge := binary.LittleEndian.Uint64(b[22:]); huge != undefAddr {
		if err := walkBTree2(c, huge, func([]byte) error { return nil }); err != nil {
			return err
		}
	}
	// libhdf5 reads the header of the heap's free space even when a file is only
	// read.
	if free := binary.LittleEndian.Uint64(b[38:]); free != undefAddr {
		if _, err := c.readChecked(free, 82, "FSHD"); err != nil {
			return err
		}
	}
	// A flag of the heap: its direct blocks have checksums.
	const dblockSums = 2
	maxDirect := binary.LittleEndian.Uint64(b[120:])
	h := fractalHeap{c: c, start: binary.LittleEndian.Uint64(b[112:]), width: uint64(binary.LittleEndian.Uint16(b[110:])), sums: b[9]&dblockSums != 0}
	if !pow2(h.start) || !pow2(h.width) || !pow2(maxDirect) || maxDirect < h.start {
		return errHeader
	}
	h.offBytes = (uint64(binary.LittleEndian.Uint16(b[128:])) + 7) / 8
	h.direct = uint64(bits.Len64(maxDirect)-bits.Len64(h.start)) + 2
	root, rows := binary.LittleEndian.Uint64(b[132:]), uint64(binary.LittleEndian.Uint16(b[140:]))
	if rows == 0 {
		return h.block(root, h.start)
	}
	return h.indirect(root, rows)
}

// block verifies a direct block. Its checksum is in its header and was computed with
// zeros in its place.
func (h fractalHeap) block(addr, size uint64) error {
	if addr == undefAddr || !h.sums {
		return nil
	}
	b, err := h.c.readSigned(addr, size, "FHDB")
	if err != nil {
		return err
	}
	at := 13 + h.offBytes
	if size < at+4 {
		return errHeader
	}
	sum := slices.Clone(b[at : at+4])
	clear(b[at : at+4])
	return h.c.verify(append(b, sum...), addr, structures["FHDB"])
}

// indirect verifies an indirect block with rows rows, and everything below it. The
// recursion ends because the tables of child blocks must have fewer rows.
func (h fractalHeap) indirect(addr, rows uint64) error {
	if addr == undefAddr {
		return nil
	}
	prefix := 13 + h.offBytes
	b, err := h.c.readChecked(addr, prefix+rows*h.width*8+4, "FHIB")
	if err != nil {
		return err
	}
	for row := range rows {
		size := h.start << max(row, 1) >> 1
		for i := range h.width {
			child := binary.LittleEndian.Uint64(b[prefix+8*(row*h.width+i):])
			if row < h.direct {
				err = h.block(child, size)
			} else if below := uint64(bits.Len64(size)-bits.Len64(h.start*h.width)) + 1; below < rows {
				err = h.indirect(child, below)
			} else {
				err = errHeader
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// btree2 is the geometry of a version 2 B-tree.
type btree2 struct {
	c            *cursor
	node, record uint64
	// below has the widths of pointers to children of depth 0, 1, ...
	below []btree2Level
	visit func(record []byte) error
}

// btree2Level has the widths of two numbers in a pointer to a child: the records of
// the child, and all records below it. The address before them has 8 bytes. The
// widths are not stored; they follow from the largest possible numbers.
type btree2Level struct{ count, total uint64 }

// walkBTree2 calls visit for every record of a version 2 B-tree. It visits the
// records of a node before those of its children, so they are not in key order.
func walkBTree2(c *cursor, addr uint64, visit func(record []byte) error) error {
	if addr == undefAddr {
		return nil
	}
	b, err := c.readChecked(addr, 38, "BTHD")
	if err != nil {
		return err
	}
	t := btree2{c: c, visit: visit, node: uint64(binary.LittleEndian.Uint32(b[6:])), record: uint64(binary.LittleEndian.Uint16(b[10:]))}
	depth, root, n := int(binary.LittleEndian.Uint16(b[12:])), binary.LittleEndian.Uint64(b[16:]), uint64(binary.LittleEndian.Uint16(b[24:]))
	// Bytes of a node besides its records: signature, version, type and checksum.
	const frame = 10 // signature, version, type and checksum
	if t.record == 0 || t.node < frame+t.record || t.node > c.size || depth > 16 {
		return errHeader
	}
	if root == undefAddr {
		return nil
	}
	// The largest number of records in a node, and in the tree below it, level by
	// level from the leaves.
	most := (t.node - frame) / t.record
	count, all := encoded(most), most
	t.below = []btree2Level{{count: count}}
	for range depth {
		pointer := 8 + count + t.below[len(t.below)-1].total
		if t.node < frame+pointer {
			return errHeader
		}
		most = (t.node - frame - pointer) / (t.record + pointer)
		all = min((most+1)*all+most, 1<<56)
		t.below = append(t.below, btree2Level{count: count, total: encoded(all)})
	}
	return t.walk(root, n, depth)
}

// encoded returns the number of bytes that can hold all numbers up to most.
func encoded(most uint64) uint64 { return uint64(bits.Len64(most)+7) / 8 }

// walk visits the n records of the node at addr and, for depth > 0, its children.
func (t btree2) walk(addr, n uint64, depth int) error {
	sig, pointer := "BTLF", uint64(0)
	if depth > 0 {
		l := t.below[depth-1]
		sig, pointer = "BTIN", 8+l.count+l.total
	}
	size := 6 + n*t.record + 4
	if depth > 0 {
		size += (n + 1) * pointer
	}
	if size > t.node {
		return errHeader
	}
	b, err := t.c.readChecked(addr, size, sig)
	if err != nil {
		return err
	}
	for b = b[6:]; n > 0 && err == nil; n-- {
		err, b = t.visit(b[:t.record]), b[t.record:]
	}
	for ; depth > 0 && err == nil && len(b) > 4; b = b[pointer:] {
		err = t.walk(binary.LittleEndian.Uint64(b), uint64LE(b[8:8+t.below[depth-1].count]), depth-1)
	}
	return err
}
