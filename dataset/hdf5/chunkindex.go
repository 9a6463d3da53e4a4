package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// errIndex means that a chunk index is of a kind that this parser leaves to libhdf5.
var errIndex = errors.New("hdf5: chunk index left to the library")

// chunkRef is the place of one stored chunk.
type chunkRef struct {
	// addr is undefAddr if the chunk was never written.
	addr uint64
	// size is the number of stored bytes.
	size uint32
	// mask has bit i set if filter i of the pipeline was skipped.
	mask uint32
}

// chunkGrid is the geometry of a chunked data set: extents, largest extents and chunk
// shape in elements.
type chunkGrid struct {
	dims, max, chunk []uint64
	elem             uint64
	filtered         bool
}

// counts returns the number of chunks along each axis.
func (g chunkGrid) counts() []uint64 {
	n := make([]uint64, len(g.dims))
	for i := range n {
		n[i] = (g.dims[i] + g.chunk[i] - 1) / g.chunk[i]
	}
	return n
}

// bytes returns the size of a decoded chunk.
func (g chunkGrid) bytes() uint64 {
	b := g.elem
	for _, c := range g.chunk {
		b *= c
	}
	return b
}

// cursor reads pieces of a file. It never reads outside the file, and in total never
// more than a small multiple of its size: a malicious index whose structures refer to
// each other in a cycle exhausts the budget instead of running for ever.
type cursor struct {
	r      io.ReaderAt
	size   uint64
	budget uint64
}

// newCursor returns a cursor over a file of size bytes. The budget is more than the
// size, because parts of intact structures are read twice, such as the beginning of a
// header to find its length.
func newCursor(r io.ReaderAt, size int64) *cursor {
	return &cursor{r: r, size: uint64(size), budget: 4*uint64(size) + 1<<20}
}

// read returns n bytes from addr on and charges them to the budget.
func (c *cursor) read(addr, n uint64) ([]byte, error) {
	if addr > c.size || n > c.size-addr {
		return nil, fmt.Errorf("it points outside the file (%d bytes at %d of %d)", n, addr, c.size)
	}
	if n > c.budget {
		return nil, errors.New("its metadata refer to themselves")
	}
	c.budget -= n
	b := make([]byte, n)
	if _, err := c.r.ReadAt(b, int64(addr)); err != nil {
		return nil, fmt.Errorf("reading its metadata: %w", err)
	}
	return b, nil
}

// readSigned reads n bytes that must begin with a four-letter signature.
func (c *cursor) readSigned(addr, n uint64, sig string) ([]byte, error) {
	b, err := c.read(addr, n)
	if err == nil && (n < 4 || string(b[:4]) != sig) {
		err = fmt.Errorf("there is no %s at byte %d (hint: the file is damaged, fetch or make it again)", structures[sig], addr)
	}
	return b, err
}

// maxChunks bounds the table of chunks, which is allocated before the index is read.
// A file cannot have more written chunks than bytes; up to a million unwritten ones
// are allowed.
func (c *cursor) maxChunks() uint64 { return max(c.size, 1<<20) }

// parseIndex returns the chunks of the data set whose object header is at header, in
// row-major order of the grid. Unwritten chunks have the address undefAddr.
func parseIndex(c *cursor, header uint64, g chunkGrid) ([]chunkRef, error) {
	total := uint64(1)
	for _, n := range g.counts() {
		if n != 0 && total > c.maxChunks()/n {
			return nil, fmt.Errorf("the data set claims more chunks than the file has bytes")
		}
		total *= n
	}
	refs := make([]chunkRef, total)
	for i := range refs {
		refs[i].addr = undefAddr
	}
	h, err := readHeader(c, header)
	if err != nil {
		return nil, err
	}
	lay, err := parseLayout(h.last(msgLayout))
	if err != nil {
		return nil, err
	}
	if total == 0 || lay.addr == undefAddr {
		return refs, nil
	}
	// Arrays and implicit indexes number chunks within the largest extents. That is
	// our numbering only if no axis but the first can grow.
	if lay.kind == indexFixed || lay.kind == indexExtensible || lay.kind == indexImplicit {
		for i := 1; i < len(g.dims); i++ {
			if g.max[i] != g.dims[i] {
				return nil, errIndex
			}
		}
	}
	switch lay.kind {
	case indexBTree1:
		err = readBTree1(c, lay.addr, g, refs)
	case indexSingle:
		refs[0] = chunkRef{lay.addr, uint32(g.bytes()), 0}
		if lay.filtered {
			refs[0].size, refs[0].mask = uint32(lay.size), lay.mask
		}
	case indexImplicit:
		for i := range refs {
			refs[i] = chunkRef{lay.addr + uint64(i)*g.bytes(), uint32(g.bytes()), 0}
		}
	case indexFixed:
		err = readFixedArray(c, lay.addr, g, refs)
	case indexExtensible:
		err = readExtensibleArray(c, lay.addr, g, refs)
	case indexBTree2:
		err = readBTree2(c, lay.addr, g, refs)
	default:
		return nil, errIndex
	}
	return refs, err
}

// entries decodes the elements of a fixed or extensible array: an address and, if the
// data set has filters, the stored size and the filter mask.
type entries struct {
	// size is the number of bytes of an element.
	size uint64
	// plain is the size of a chunk without filters.
	plain uint32
	// wide is set if elements have a size, whose width varies, and a mask.
	wide bool
}

// newEntries checks the size of an element against the kind of its client: 0 without
// filters, 1 with them.
func newEntries(client byte, size byte, g chunkGrid) (entries, error) {
	e := entries{size: uint64(size), plain: uint32(g.bytes()), wide: client == 1}
	if (!e.wide && size != 8) || (e.wide && (size < 13 || size > 20)) || client > 1 {
		return e, fmt.Errorf("the chunk index is damaged: elements of %d bytes", size)
	}
	return e, nil
}

// decode fills dst from b. Elements beyond the end of b are left unchanged.
func (e entries) decode(dst []chunkRef, b []byte) error {
	for i := range dst {
		if uint64(len(b)) < e.size {
			return nil
		}
		r := chunkRef{addr: binary.LittleEndian.Uint64(b), size: e.plain}
		if e.wide && r.addr != undefAddr {
			n := int(e.size) - 12
			size := uint64LE(b[8 : 8+n])
			if size > maxChunk {
				return fmt.Errorf("the chunk index is damaged: a chunk of %d bytes", size)
			}
			r.size, r.mask = uint32(size), binary.LittleEndian.Uint32(b[8+n:])
		}
		dst[i] = r
		b = b[e.size:]
	}
	return nil
}

// readBTree1 fills refs from a version 1 B-tree, the index of files in the earliest
// format.
func readBTree1(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	t := btree1{c: c, g: g, counts: g.counts(), refs: refs}
	return t.node(addr, -1)
}

// btree1 is a version 1 B-tree. None of it has a checksum, so what is known otherwise
// is checked instead: chunks begin at multiples of the chunk shape, and are in
// ascending order.
type btree1 struct {
	c      *cursor
	g      chunkGrid
	counts []uint64
	refs   []chunkRef
	// next is the smallest index that the next chunk can have.
	next uint64
}

// node reads a node and the tree below it. level -1 is the root, whose level is not
// known yet; each level must then be one less than its parent's, which also ends
// cycles.
func (t *btree1) node(addr uint64, level int) error {
	const chunkNode = 1
	head, err := t.c.readSigned(addr, 24, "TREE")
	if err != nil {
		return err
	}
	if head[4] != chunkNode || (level >= 0 && int(head[5]) != level) {
		return fmt.Errorf("the chunk index is damaged: node at %d", addr)
	}
	level = int(head[5])
	used := uint64(binary.LittleEndian.Uint16(head[6:]))
	key := 8 + 8*uint64(len(t.g.dims)+1)
	b, err := t.c.read(addr+24, used*(key+8))
	if err != nil {
		return err
	}
	for ; len(b) > 0; b = b[key+8:] {
		child := binary.LittleEndian.Uint64(b[key:])
		if level > 0 {
			if err := t.node(child, level-1); err != nil {
				return err
			}
			continue
		}
		r := chunkRef{child, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
		if r.size > maxChunk || !t.g.filtered && uint64(r.size) != t.g.bytes() {
			return fmt.Errorf("the chunk index is damaged: a chunk of %d bytes", r.size)
		}
		i, ok := t.linear(b[8:])
		if !ok || i < t.next {
			return fmt.Errorf("the chunk index is damaged: a chunk out of place, in the node at %d", addr)
		}
		t.refs[i], t.next = r, i+1
	}
	return nil
}

// linear returns the row-major index of the chunk that begins at the position in b.
// The last number of a position is the byte within an element and must be 0. Such
// files have no chunks outside the current extent, so a position outside it is
// damage.
func (t *btree1) linear(b []byte) (uint64, bool) {
	i := uint64(0)
	for d, n := range t.counts {
		at := binary.LittleEndian.Uint64(b[8*d:])
		if at%t.g.chunk[d] != 0 || at/t.g.chunk[d] >= n {
			return 0, false
		}
		i = i*n + at/t.g.chunk[d]
	}
	return i, binary.LittleEndian.Uint64(b[8*len(t.counts):]) == 0
}

// readBTree2 fills refs from a version 2 B-tree, the index of data sets that can grow
// along several axes. A record has an address, with filters the stored size and the
// mask, and the chunk's position in the grid.
func readBTree2(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	counts := g.counts()
	client := byte(0)
	if g.filtered {
		client = 1
	}
	return walkBTree2(c, addr, func(record []byte) error {
		at := len(record) - 8*len(counts)
		e, err := newEntries(client, byte(max(at, 0)), g)
		if err != nil {
			return err
		}
		i := uint64(0)
		for d, n := range counts {
			v := binary.LittleEndian.Uint64(record[at+8*d:])
			if v >= n {
				// The data set was shrunk; its chunks may remain in the index.
				return nil
			}
			i = i*n + v
		}
		return e.decode(refs[i:i+1], record)
	})
}

// readFixedArray fills refs from a fixed array, the index of data sets that cannot
// grow. Large arrays are paged, and a bitmap says which pages were written.
func readFixedArray(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	h, err := c.readChecked(addr, 28, "FAHD")
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
	page := uint64(1) << pageBits
	if n > c.size/e.size {
		return errHeader
	}
	if n <= page {
		b, err := c.readChecked(at, prefix+n*e.size+4, "FADB")
		if err != nil {
			return err
		}
		return e.decode(refs, b[prefix:len(b)-4])
	}
	bitmap := ((n+page-1)/page + 7) / 8
	b, err := c.readChecked(at, prefix+bitmap+4, "FADB")
	if err != nil {
		return err
	}
	return readPages(c, at+uint64(len(b)), page, n, refs[:min(n, uint64(len(refs)))], e, func(p uint64) bool { return bit(b[prefix:], p) })
}

// readPages decodes the elements of an array that is stored in consecutive pages of
// page elements, each with a checksum at its end. refs receives the first of the n
// elements. Pages that were never written are skipped; they take up space in the file
// all the same.
func readPages(c *cursor, at, page, n uint64, refs []chunkRef, e entries, used func(p uint64) bool) error {
	for p := uint64(0); len(refs) > 0; p++ {
		elems := min(page, n-p*page)
		mine := min(elems, uint64(len(refs)))
		if used(p) {
			b, err := c.read(at, elems*e.size+4)
			if err != nil {
				return err
			}
			if err := errors.Join(c.verify(b, at, "page of a chunk index"), e.decode(refs[:mine], b)); err != nil {
				return err
			}
		}
		refs = refs[mine:]
		at += page*e.size + 4
	}
	return nil
}

// bit returns bit i of a bitmap whose first bit is the highest one of the first byte.
func bit(b []byte, i uint64) bool {
	return i/8 < uint64(len(b)) && b[i/8]&(0x80>>(i%8)) != 0
}

// extensible is the geometry of an extensible array. The index block has the first
// elements, then the addresses of data blocks, then those of super blocks, which have
// addresses of further data blocks. The number of data blocks in a super block and
// their size double alternately.
type extensible struct {
	c *cursor
	e entries
	// offBytes is the width of a block offset.
	offBytes uint64
	// indexElem is the number of elements in the index block.
	indexElem uint64
	// minElem is the number of elements in the smallest data block.
	minElem uint64
	// minPtrs is the smallest number of data blocks in a super block that the index
	// block does not list itself.
	minPtrs uint64
	// page is the number of elements in a page of a large data block.
	page uint64
	// nsuper is the largest possible number of super blocks.
	nsuper uint64
}

// readExtensibleArray fills refs from an extensible array, the index of data sets of
// which one axis can grow. Our own files have it.
func readExtensibleArray(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	h, err := c.readChecked(addr, 12+48+8+4, "EAHD")
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

// pow2 reports whether v is a power of two.
func pow2(v uint64) bool { return v != 0 && v&(v-1) == 0 }

// readIndexBlock reads the index block and everything below it. Super block s has
// 2^(s/2) data blocks of minElem*2^((s+1)/2) elements each.
func (a *extensible) readIndexBlock(addr uint64, refs []chunkRef) error {
	// The index block lists the data blocks of the first direct super blocks itself.
	direct := uint64(2 * (bits.Len64(a.minPtrs) - 1))
	ndata := 2 * (a.minPtrs - 1)
	if direct > a.nsuper {
		return errHeader
	}
	elems := a.indexElem * a.e.size
	b, err := a.c.readChecked(addr, 14+elems+8*(ndata+a.nsuper-direct)+4, "EAIB")
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
			// Only the product of the two is needed; it is computed only if it is
			// less than n, because it could overflow.
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

// readSuperBlock reads a super block: blocks data blocks of each elements. It has a
// bitmap of written pages for all of them.
func (a *extensible) readSuperBlock(addr, blocks, each uint64, refs []chunkRef) error {
	if addr == undefAddr {
		return nil
	}
	need := (uint64(len(refs)) + each - 1) / each
	prefix, bitmap, pages := 14+a.offBytes, uint64(0), uint64(0)
	if each > a.page {
		pages = each / a.page
		bitmap = blocks * ((pages + 7) / 8)
	}
	b, err := a.c.readChecked(addr, prefix+bitmap+8*blocks+4, "EASB")
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

// readDataBlock reads a data block of each elements, the first of which go to refs.
// Large blocks are paged; their pages begin at firstPage in the super block's bitmap
// used.
func (a *extensible) readDataBlock(addr, each uint64, refs []chunkRef, used []byte, firstPage uint64) error {
	if addr == undefAddr || len(refs) == 0 {
		return nil
	}
	prefix := 14 + a.offBytes
	if each > a.c.size {
		return errHeader
	}
	if each <= a.page {
		b, err := a.c.readChecked(addr, prefix+each*a.e.size+4, "EADB")
		if err != nil {
			return err
		}
		return a.e.decode(refs, b[prefix:])
	}
	// A paged block has a header with its own checksum before the pages.
	if _, err := a.c.readChecked(addr, prefix+4, "EADB"); err != nil {
		return err
	}
	return readPages(a.c, addr+prefix+4, a.page, each, refs, a.e, func(p uint64) bool { return bit(used, firstPage+p) })
}
