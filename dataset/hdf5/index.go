package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
		return nil, fmt.Errorf("the chunk index points outside the file (%d bytes at %d of %d)", n, addr, c.size)
	}
	if n > c.budget {
		return nil, errors.New("the chunk index refers to itself")
	}
	c.budget -= n
	b := make([]byte, n)
	if _, err := c.r.ReadAt(b, int64(addr)); err != nil {
		return nil, fmt.Errorf("reading the chunk index: %w", err)
	}
	return b, nil
}

// signed reads n bytes that must begin with a four-letter signature.
func (c *cursor) signed(addr, n uint64, sig string) ([]byte, error) {
	b, err := c.read(addr, n)
	if err == nil && (n < 4 || string(b[:4]) != sig) {
		err = fmt.Errorf("the chunk index is damaged: no %s at %d", sig, addr)
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
	lay, err := parseLayout(h[msgLayout])
	if err != nil {
		return nil, err
	}
	if total == 0 || lay.addr == undefAddr {
		return refs, nil
	}
	// The arrays number chunks by the largest extent; that is ours when only the rows can grow.
	if lay.kind != indexBTree1 {
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
