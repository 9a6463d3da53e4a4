package hdf5

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"sync"
)

// dset is one HDF5 data set of a file: rows of a fixed number of bytes. Any number of
// goroutines may read it, without libhdf5.
type dset struct {
	description
	in       io.ReaderAt
	cache    *chunkCache
	rows     int
	rowBytes int
	// compactData has all data of a compact data set, nil for other layouts.
	compactData []byte
	pipe        pipeline
	// refs has the place of each chunk, in row-major order of the grid; nil if only
	// libhdf5 knows the kind of index.
	refs       []chunkRef
	chunkBytes int
	// counts is the number of chunks along each axis.
	counts []uint64
	// fullRows is set if every chunk consists of complete rows.
	fullRows bool
}

// newDset prepares reading. size is that of the file; parsable says that our own
// parser can read its index. Errors are for users and do not name the file. All sizes
// are checked against the file or against maxChunk before anything is allocated,
// since a damaged file can declare any shape.
func newDset(d description, in io.ReaderAt, size int64, parsable bool, cache *chunkCache) (*dset, error) {
	s := &dset{description: d, in: in, cache: cache, rows: int(d.dims[0]), rowBytes: d.elem}
	for _, n := range d.dims {
		if n > 1<<40 {
			return nil, fmt.Errorf("its shape %v is not plausible", d.dims)
		}
	}
	for _, n := range d.dims[1:] {
		if n > maxChunk/uint64(max(s.rowBytes, 1)) {
			return nil, fmt.Errorf("its shape %v is not plausible", d.dims)
		}
		s.rowBytes *= int(n)
	}
	if d.external {
		return nil, errors.New("its data are in other files (hint: rewrite it with h5repack)")
	}
	switch d.layout {
	case layoutContig:
		return s, s.checkContiguous(size)
	// A compact data set is stored in its object header, which is at most 64 KiB.
	case layoutCompact:
		if s.rows*s.rowBytes > 1<<16 {
			return nil, errDamaged
		}
		s.compactData = d.compact
		if d.id < 0 {
			if len(s.compactData) != s.rows*s.rowBytes {
				return nil, errDamaged
			}
			return s, nil
		}
		s.compactData = make([]byte, s.rows*s.rowBytes)
		return s, readAll(d.id, s.compactData)
	case layoutChunked:
		return s, s.openChunks(size, parsable)
	}
	return nil, errors.New("its layout is virtual (hint: rewrite it with h5repack)")
}

// checkContiguous checks that the data are inside the file.
func (s *dset) checkContiguous(size int64) error {
	if s.offset == undefAddr {
		// The data were never written; reads return the fill value.
		return nil
	}
	if n := uint64(s.rows) * uint64(s.rowBytes); s.offset > uint64(size) || n > uint64(size)-s.offset {
		return fmt.Errorf("its %d bytes reach beyond the end of the file (hint: the file is torn, fetch or make it again)", n)
	}
	return nil
}

// openChunks checks shape and filters of the chunks and parses their index.
func (s *dset) openChunks(size int64, parsable bool) error {
	g := chunkGrid{dims: s.dims, max: s.max, chunk: s.chunk, elem: uint64(s.elem), filtered: len(s.filters) > 0}
	bytes := g.elem
	for _, c := range g.chunk {
		if c == 0 || bytes > maxChunk/c {
			return fmt.Errorf("its chunks %v are larger than %d MB (hint: re-chunk it with h5repack)", g.chunk, maxChunk>>20)
		}
		bytes *= c
	}
	s.chunkBytes, s.counts = int(bytes), g.counts()
	s.fullRows = true
	for i := 1; i < len(s.dims); i++ {
		s.fullRows = s.fullRows && s.chunk[i] == s.dims[i]
	}
	s.pipe = pipeline{s.filters, s.elem}
	if err := s.pipe.check(); err != nil {
		return err
	}
	if !parsable {
		return nil
	}
	refs, err := parseIndex(newCursor(s.in, size), s.header, g)
	// An index of a kind that our parser does not know is left to libhdf5: slower,
	// under its lock, but correct.
	if errors.Is(err, errIndex) && s.id >= 0 {
		return nil
	}
	s.refs = refs
	return err
}

// rawPool has buffers for stored chunks, of type *[]byte.
var rawPool = sync.Pool{New: func() any { return new([]byte) }}

// decodeChunk reads and decodes one chunk into dst, which has chunkBytes bytes.
// Errors name the chunk and its rows.
func (s *dset) decodeChunk(index int, dst []byte) error {
	if err := s.tryChunk(index, dst); err != nil {
		first := s.origin(index)[0]
		err = fmt.Errorf("chunk %d (rows %d to %d): %w", index, first, min(first+s.chunk[0], s.dims[0])-1, err)
		return hinted(err, damaged)
	}
	return nil
}

// tryChunk does the work of decodeChunk. Stored bytes are read into a pooled buffer,
// unless the chunk has no filters and can be read into dst directly.
func (s *dset) tryChunk(index int, dst []byte) error {
	if s.refs == nil {
		raw, mask, err := readRawChunk(s.id, s.origin(index))
		if err != nil {
			return err
		}
		if raw == nil {
			s.fillIn(dst)
			return nil
		}
		return s.pipe.decode(dst, raw, mask)
	}
	ref := s.refs[index]
	if ref.addr == undefAddr {
		s.fillIn(dst)
		return nil
	}
	if len(s.filters) == 0 {
		_, err := s.in.ReadAt(dst, int64(ref.addr))
		return err
	}
	buf := rawPool.Get().(*[]byte)
	defer rawPool.Put(buf)
	if cap(*buf) < int(ref.size) {
		// A stored chunk is hardly larger than a decoded one; more is damage.
		if int(ref.size) > 2*s.chunkBytes+1<<16 {
			return fmt.Errorf("%w: a chunk of %d stored bytes", errDamaged, ref.size)
		}
		*buf = make([]byte, ref.size)
	}
	raw := (*buf)[:ref.size]
	if _, err := s.in.ReadAt(raw, int64(ref.addr)); err != nil {
		return err
	}
	return s.pipe.decode(dst, raw, ref.mask)
}

// fillIn writes the fill value into dst, for data that were never written.
func (s *dset) fillIn(dst []byte) {
	for n := copy(dst, s.fill); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}

// unwritten returns the ranges [from, to) of rows that are declared but not stored.
// It finds none if the index is left to libhdf5.
func (s *dset) unwritten() (rows [][2]int) {
	if s.layout == layoutContig && s.offset == undefAddr && s.rows > 0 {
		return [][2]int{{0, s.rows}}
	}
	for i, ref := range s.refs {
		if ref.addr != undefAddr {
			continue
		}
		from := int(s.origin(i)[0])
		to := min(from+int(s.chunk[0]), s.rows)
		// Chunks are in row order, so touching ranges can be merged.
		if n := len(rows); n > 0 && rows[n-1][1] >= from {
			rows[n-1][1] = to
		} else {
			rows = append(rows, [2]int{from, to})
		}
	}
	return rows
}

// origin returns the position of a chunk's first element.
func (s *dset) origin(index int) []uint64 {
	at := make([]uint64, len(s.counts))
	for d := len(at) - 1; d >= 0; d-- {
		at[d] = uint64(index) % s.counts[d] * s.chunk[d]
		index /= int(s.counts[d])
	}
	return at
}

// read fills dst with rows [from, to) as they are stored.
func (s *dset) read(from, to int, dst []byte) error {
	if from < 0 || to > s.rows || from > to {
		return fmt.Errorf("rows %d to %d of %d", from, to, s.rows)
	}
	dst = dst[:(to-from)*s.rowBytes]
	var err error
	switch {
	case len(dst) == 0:
	case s.compactData != nil:
		copy(dst, s.compactData[from*s.rowBytes:])
	case s.layout == layoutContig && s.offset == undefAddr:
		s.fillIn(dst)
	case s.layout == layoutContig:
		_, err = s.in.ReadAt(dst, int64(s.offset)+int64(from)*int64(s.rowBytes))
	case s.fullRows:
		err = s.readRows(from, to, dst)
	default:
		err = s.readBoxes(from, to, dst)
	}
	return err
}

// readRows reads from chunks of complete rows. A chunk of which all rows are
// requested is decoded directly into dst, which is the case for our frames, of one
// row per chunk. Other chunks go through the cache, since the next read is likely to
// need the rest.
func (s *dset) readRows(from, to int, dst []byte) error {
	each := int(s.chunk[0])
	for row := from; row < to; {
		index := row / each
		first, last := index*each, min((index+1)*each, s.rows)
		n := min(last, to) - row
		part := dst[(row-from)*s.rowBytes:][:n*s.rowBytes]
		if n == each {
			if err := s.decodeChunk(index, part); err != nil {
				return err
			}
		} else {
			data, err := s.cache.get(s, index)
			if err != nil {
				return err
			}
			copy(part, data[(row-first)*s.rowBytes:])
		}
		row += n
	}
	return nil
}

// readBoxes reads from chunks that contain only parts of rows.
func (s *dset) readBoxes(from, to int, dst []byte) error {
	perRow := 1
	for _, n := range s.counts[1:] {
		perRow *= int(n)
	}
	first, last := from/int(s.chunk[0]), (to-1)/int(s.chunk[0])
	for index := first * perRow; index < (last+1)*perRow; index++ {
		data, err := s.cache.get(s, index)
		if err != nil {
			return err
		}
		s.copyBox(dst, data, s.origin(index), from, to)
	}
	return nil
}

// copyBox copies the part of a chunk at origin that is in rows [from, to). It
// recurses over the axes and copies runs along the last one. src and out are the
// element's row-major index in the chunk and in dst, as far as the axes before are
// concerned.
func (s *dset) copyBox(dst, data []byte, origin []uint64, from, to int) {
	var walk func(axis, src, out int)
	walk = func(axis, src, out int) {
		lo, hi := int(origin[axis]), int(min(origin[axis]+s.chunk[axis], s.dims[axis]))
		base := 0
		if axis == 0 {
			lo, hi, base = max(lo, from), min(hi, to), from
		}
		src = src*int(s.chunk[axis]) + lo - int(origin[axis])
		out = out * int(s.dims[axis])
		if axis == 0 {
			out = 0
		}
		out += lo - base
		if axis == len(s.dims)-1 {
			copy(dst[out*s.elem:(out+hi-lo)*s.elem], data[src*s.elem:])
			return
		}
		for range hi - lo {
			walk(axis+1, src, out)
			src, out = src+1, out+1
		}
	}
	walk(0, 0, 0)
}

// cacheBytes bounds the decoded chunks that a file keeps: a dozen of the 15 MB chunks
// of published files, which have 100 frames each. Reading neighbouring frames then
// decodes their chunk once.
const cacheBytes = 256 << 20

// chunkCache is a least-recently-used cache of decoded chunks. Goroutines that need
// the same chunk at the same time decode it once.
type chunkCache struct {
	mu    sync.Mutex
	items map[chunkKey]*cached
	order list.List // of chunkKey, most recent first
	bytes int
}

// chunkKey identifies a chunk among those of all columns, which share the cache.
type chunkKey struct {
	set   *dset
	index int
}

// cached is an entry of the cache. once decodes it, outside the lock of the cache, so
// that different chunks are decoded in parallel.
type cached struct {
	once sync.Once
	data []byte
	err  error
	at   *list.Element
}

// get returns a decoded chunk. The caller must not change it.
func (c *chunkCache) get(d *dset, index int) ([]byte, error) {
	key := chunkKey{d, index}
	c.mu.Lock()
	it := c.items[key]
	if it == nil {
		it = &cached{at: c.order.PushFront(key)}
		if c.items == nil {
			c.items = map[chunkKey]*cached{}
		}
		c.items[key] = it
		c.bytes += d.chunkBytes
		c.evict()
	} else {
		c.order.MoveToFront(it.at)
	}
	c.mu.Unlock()
	it.once.Do(func() {
		it.data = make([]byte, d.chunkBytes)
		it.err = d.decodeChunk(index, it.data)
	})
	return it.data, it.err
}

// evict drops the least recently used chunks while the cache exceeds its budget. It
// keeps the newest one in any case, which may exceed the budget alone. Goroutines
// that still read a dropped chunk have their own reference.
func (c *chunkCache) evict() {
	for c.bytes > cacheBytes && c.order.Len() > 1 {
		e := c.order.Back()
		key := c.order.Remove(e).(chunkKey)
		delete(c.items, key)
		c.bytes -= key.set.chunkBytes
	}
}
