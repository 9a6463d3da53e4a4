package hdf5

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// readBTree1 fills refs from a version 1 B-tree (files of the earliest format).
func readBTree1(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	return btree1Node(c, addr, g, refs, -1)
}

// btree1Node reads one node; level -1 is the root, whose level is not known yet.
func btree1Node(c *cursor, addr uint64, g chunkGrid, refs []chunkRef, level int) error {
	const chunkNode = 1
	head, err := c.signed(addr, 24, "TREE")
	if err != nil {
		return err
	}
	if head[4] != chunkNode || (level >= 0 && int(head[5]) != level) {
		return fmt.Errorf("the chunk index is damaged: node at %d", addr)
	}
	level = int(head[5])
	used := uint64(binary.LittleEndian.Uint16(head[6:]))
	key := 8 + 8*uint64(len(g.dims)+1)
	b, err := c.read(addr+24, used*(key+8))
	if err != nil {
		return err
	}
	counts := g.counts()
	for ; len(b) > 0; b = b[key+8:] {
		child := binary.LittleEndian.Uint64(b[key:])
		if level > 0 {
			if err := btree1Node(c, child, g, refs, level-1); err != nil {
				return err
			}
			continue
		}
		r := chunkRef{child, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
		if r.size > maxChunk {
			return fmt.Errorf("the chunk index is damaged: a chunk of %d bytes", r.size)
		}
		if i, ok := g.linear(b[8:], counts); ok {
			refs[i] = r
		}
	}
	return nil
}

// linear is the row-major number of the chunk whose first element's position b
// holds; chunks outside the present extent are not ours.
func (g chunkGrid) linear(b []byte, counts []uint64) (uint64, bool) {
	i := uint64(0)
	for d, n := range counts {
		at := binary.LittleEndian.Uint64(b[8*d:]) / g.chunk[d]
		if at >= n {
			return 0, false
		}
		i = i*n + at
	}
	return i, true
}

// readFixedArray fills refs from a fixed array (rows that cannot grow).
func readFixedArray(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	h, err := c.signed(addr, 28, "FAHD")
	if err != nil {
		return err
	}
	e, err := newEntries(h[5], h[6], g)
	if err != nil {
		return err
	}
	pageBits, n := h[7], binary.LittleEndian.Uint64(h[8:])
	at := binary.LittleEndian.Uint64(h[16:])
	if pageBits > 32 {
		return errHeader
	}
	if at == undefAddr {
		return nil
	}
	const prefix = 4 + 1 + 1 + 8
	if _, err := c.signed(at, prefix, "FADB"); err != nil {
		return err
	}
	at += prefix
	n = min(n, uint64(len(refs)))
	page := uint64(1) << pageBits
	if total := binary.LittleEndian.Uint64(h[8:]); total <= page {
		b, err := c.read(at, n*e.size)
		if err != nil {
			return err
		}
		return e.decode(refs[:n], b)
	} else {
		bitmap := ((total+page-1)/page + 7) / 8
		used, err := c.read(at, bitmap)
		if err != nil {
			return err
		}
		return readPages(c, at+bitmap+4, page, refs[:n], e, func(p uint64) bool { return bit(used, p) })
	}
}

// readPages decodes consecutive pages of page elements, each followed by a checksum.
func readPages(c *cursor, at, page uint64, refs []chunkRef, e entries, used func(p uint64) bool) error {
	for p := uint64(0); len(refs) > 0; p++ {
		n := min(page, uint64(len(refs)))
		if used(p) {
			b, err := c.read(at, n*e.size)
			if err != nil {
				return err
			}
			if err := e.decode(refs[:n], b); err != nil {
				return err
			}
		}
		refs = refs[n:]
		at += page*e.size + 4
	}
	return nil
}

// bit reads a bitmap whose first bit is the highest of the first byte.
func bit(b []byte, i uint64) bool {
	return i/8 < uint64(len(b)) && b[i/8]&(0x80>>(i%8)) != 0
}

// extensible is the geometry of an extensible array: an index block holds the
// first elements and the addresses of data blocks and super blocks, whose sizes
// double every other super block.
type extensible struct {
	c         *cursor
	e         entries
	offBytes  uint64 // width of a block offset
	indexElem uint64
	minElem   uint64
	minPtrs   uint64
	page      uint64
	nsuper    uint64
}

// readExtensibleArray fills refs from an extensible array (rows that can grow).
func readExtensibleArray(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	h, err := c.signed(addr, 12+48+8, "EAHD")
	if err != nil {
		return err
	}
	a := extensible{c: c, indexElem: uint64(h[8]), minElem: uint64(h[9]), minPtrs: uint64(h[10])}
	if a.e, err = newEntries(h[5], h[6], g); err != nil {
		return err
	}
	maxBits := uint64(h[7])
	if maxBits == 0 || maxBits > 64 || h[11] > 32 || !pow2(a.minElem) || !pow2(a.minPtrs) || uint64(bits.Len64(a.minElem)-1) > maxBits {
		return errHeader
	}
	a.offBytes, a.page = (maxBits+7)/8, uint64(1)<<h[11]
	a.nsuper = 1 + maxBits - uint64(bits.Len64(a.minElem)-1)
	index := binary.LittleEndian.Uint64(h[60:])
	if index == undefAddr {
		return nil
	}
	return a.readIndexBlock(index, refs)
}

func pow2(v uint64) bool { return v != 0 && v&(v-1) == 0 }

func (a *extensible) readIndexBlock(addr uint64, refs []chunkRef) error {
	direct := uint64(2 * (bits.Len64(a.minPtrs) - 1)) // super blocks whose data blocks the index block lists itself
	ndata := 2 * (a.minPtrs - 1)
	if direct > a.nsuper {
		return errHeader
	}
	elems := a.indexElem * a.e.size
	b, err := a.c.signed(addr, 14+elems+8*(ndata+a.nsuper-direct), "EAIB")
	if err != nil {
		return err
	}
	n := min(a.indexElem, uint64(len(refs)))
	if err := a.e.decode(refs[:n], b[14:14+elems]); err != nil {
		return err
	}
	refs, b = refs[n:], b[14+elems:]
	for s := uint64(0); s < a.nsuper && len(refs) > 0; s++ {
		blocks, each := uint64(1)<<(s/2), a.minElem<<((s+1)/2)
		if s >= direct {
			super := binary.LittleEndian.Uint64(b)
			b = b[8:]
			n := len(refs)
			if each < uint64(n)/blocks+1 {
				n = int(blocks * each)
			}
			if err := a.readSuperBlock(super, blocks, each, refs[:n]); err != nil {
				return err
			}
			refs = refs[n:]
			continue
		}
		for range blocks {
			n := min(each, uint64(len(refs)))
			if err := a.readDataBlock(binary.LittleEndian.Uint64(b), each, refs[:n], nil, 0); err != nil {
				return err
			}
			refs, b = refs[n:], b[8:]
		}
	}
	return nil
}

func (a *extensible) readSuperBlock(addr, blocks, each uint64, refs []chunkRef) error {
	if addr == undefAddr {
		return nil
	}
	// Only as many data blocks as the extent needs are looked at.
	need := (uint64(len(refs)) + each - 1) / each
	prefix, bitmap, pages := 14+a.offBytes, uint64(0), uint64(0)
	if each > a.page {
		pages = each / a.page
		bitmap = blocks * ((pages + 7) / 8)
	}
	b, err := a.c.signed(addr, prefix+bitmap+8*need, "EASB")
	if err != nil {
		return err
	}
	used, ptrs := b[prefix:prefix+bitmap], b[prefix+bitmap:]
	for i := range need {
		n := min(each, uint64(len(refs)))
		if err := a.readDataBlock(binary.LittleEndian.Uint64(ptrs[8*i:]), each, refs[:n], used, i*pages); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

func (a *extensible) readDataBlock(addr, each uint64, refs []chunkRef, used []byte, firstPage uint64) error {
	if addr == undefAddr || len(refs) == 0 {
		return nil
	}
	prefix := 14 + a.offBytes
	if _, err := a.c.signed(addr, prefix, "EADB"); err != nil {
		return err
	}
	if each <= a.page {
		b, err := a.c.read(addr+prefix, uint64(len(refs))*a.e.size)
		if err != nil {
			return err
		}
		return a.e.decode(refs, b)
	}
	return readPages(a.c, addr+prefix+4, a.page, refs, a.e, func(p uint64) bool { return bit(used, firstPage+p) })
}
