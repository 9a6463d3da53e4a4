package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// errIndex means that a chunk index is of a kind this parser leaves to libhdf5.
var errIndex = errors.New("hdf5: chunk index left to the library")

// chunkRef says where one chunk is stored.
type chunkRef struct {
	addr uint64 // undefAddr: never written
	size uint32 // stored bytes
	mask uint32 // bit i: filter i of the pipeline was skipped
}

// chunkGrid is the shape of a chunked data set in chunks.
type chunkGrid struct {
	dims, max, chunk []uint64
	elem             uint64
	filtered         bool
}

// counts is the number of chunks along each axis.
func (g chunkGrid) counts() []uint64 {
	n := make([]uint64, len(g.dims))
	for i := range n {
		n[i] = (g.dims[i] + g.chunk[i] - 1) / g.chunk[i]
	}
	return n
}

// bytes is the size of a decoded chunk.
func (g chunkGrid) bytes() uint64 {
	b := g.elem
	for _, c := range g.chunk {
		b *= c
	}
	return b
}

// cursor reads pieces of a file. It never reads outside the file, and never
// more than a small multiple of it in all, so that a hostile index that refers
// to itself comes to an end.
type cursor struct {
	r      io.ReaderAt
	size   uint64
	budget uint64
}

func newCursor(r io.ReaderAt, size int64) *cursor {
	return &cursor{r: r, size: uint64(size), budget: 4*uint64(size) + 1<<20}
}

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

// signed reads n bytes that must begin with a four-letter signature.
func (c *cursor) signed(addr, n uint64, sig string) ([]byte, error) {
	b, err := c.read(addr, n)
	if err == nil && (n < 4 || string(b[:4]) != sig) {
		err = fmt.Errorf("there is no %s at byte %d (hint: the file is damaged, fetch or make it again)", structures[sig], addr)
	}
	return b, err
}

// maxChunks bounds the table of chunks; a file cannot hold more written chunks
// than bytes, and an unwritten million is allowed.
func (c *cursor) maxChunks() uint64 { return max(c.size, 1<<20) }

// parseIndex lists the chunks of the data set whose object header is at header,
// in row-major order of the grid.
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
	// The arrays number chunks by the largest extent; that is ours when only the rows can grow.
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

// entries decodes the elements of a fixed or extensible array: an address, and
// with filters the stored size and the filter mask.
type entries struct {
	size  uint64 // bytes an element
	plain uint32 // size of an unfiltered chunk
	wide  bool
}

func newEntries(client byte, size byte, g chunkGrid) (entries, error) {
	e := entries{size: uint64(size), plain: uint32(g.bytes()), wide: client == 1}
	if (!e.wide && size != 8) || (e.wide && (size < 13 || size > 20)) || client > 1 {
		return e, fmt.Errorf("the chunk index is damaged: elements of %d bytes", size)
	}
	return e, nil
}

// decode fills dst from b; what b lacks stays as it is.
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

// readBTree1 fills refs from a version 1 B-tree (files of the earliest format).
func readBTree1(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	t := btree1{c: c, g: g, counts: g.counts(), refs: refs}
	return t.node(addr, -1)
}

// btree1 is such a tree. Nothing in it has a checksum: what is known of it anyway is its order, and where chunks can begin.
type btree1 struct {
	c      *cursor
	g      chunkGrid
	counts []uint64
	refs   []chunkRef
	next   uint64 // the lowest number that the next chunk may have
}

// node reads one node; level -1 is the root, whose level is not known yet.
func (t *btree1) node(addr uint64, level int) error {
	const chunkNode = 1
	head, err := t.c.signed(addr, 24, "TREE")
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

// linear is the row-major number of the chunk whose first element's position b holds, with the byte in
// the element, 0, behind it. Chunks outside the present extent are not kept in such files.
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

// readBTree2 fills refs from a version 2 B-tree (several extents that can grow).
// A record is an address, with filters the stored size and the mask, and the
// chunk's place in the grid.
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
				return nil // outside the present extent
			}
			i = i*n + v
		}
		return e.decode(refs[i:i+1], record)
	})
}

// readFixedArray fills refs from a fixed array (rows that cannot grow).
func readFixedArray(c *cursor, addr uint64, g chunkGrid, refs []chunkRef) error {
	h, err := c.sealed(addr, 28, "FAHD")
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
		b, err := c.sealed(at, prefix+n*e.size+4, "FADB")
		if err != nil {
			return err
		}
		return e.decode(refs, b[prefix:len(b)-4])
	}
	bitmap := ((n+page-1)/page + 7) / 8
	b, err := c.sealed(at, prefix+bitmap+4, "FADB")
	if err != nil {
		return err
	}
	return readPages(c, at+uint64(len(b)), page, n, refs[:min(n, uint64(len(refs)))], e, func(p uint64) bool { return bit(b[prefix:], p) })
}

// readPages decodes an array's n elements, stored in consecutive pages that each
// end with a checksum, into the first of them, refs.
func readPages(c *cursor, at, page, n uint64, refs []chunkRef, e entries, used func(p uint64) bool) error {
	for p := uint64(0); len(refs) > 0; p++ {
		elems := min(page, n-p*page)
		mine := min(elems, uint64(len(refs)))
		if used(p) {
			b, err := c.read(at, elems*e.size+4)
			if err != nil {
				return err
			}
			if err := errors.Join(c.match(b, at, "page of a chunk index"), e.decode(refs[:mine], b)); err != nil {
				return err
			}
		}
		refs = refs[mine:]
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
	h, err := c.sealed(addr, 12+48+8+4, "EAHD")
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
	b, err := a.c.sealed(addr, 14+elems+8*(ndata+a.nsuper-direct)+4, "EAIB")
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
	need := (uint64(len(refs)) + each - 1) / each
	prefix, bitmap, pages := 14+a.offBytes, uint64(0), uint64(0)
	if each > a.page {
		pages = each / a.page
		bitmap = blocks * ((pages + 7) / 8)
	}
	b, err := a.c.sealed(addr, prefix+bitmap+8*blocks+4, "EASB")
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
	if each > a.c.size {
		return errHeader
	}
	if each <= a.page {
		b, err := a.c.sealed(addr, prefix+each*a.e.size+4, "EADB")
		if err != nil {
			return err
		}
		return a.e.decode(refs, b[prefix:])
	}
	if _, err := a.c.sealed(addr, prefix+4, "EADB"); err != nil {
		return err
	}
	return readPages(a.c, addr+prefix+4, a.page, each, refs, a.e, func(p uint64) bool { return bit(used, firstPage+p) })
}
