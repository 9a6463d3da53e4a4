package hdf5

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"sync"
)

// dset is one data set of a file: rows of a fixed number of bytes, read by many
// goroutines without the library.
type dset struct {
	described
	in         io.ReaderAt
	cache      *chunkCache
	rows       int
	rowBytes   int
	whole      []byte // of a compact data set
	pipe       pipeline
	refs       []chunkRef // nil: the library finds the chunks
	chunkBytes int
	counts     []uint64
	wholeRows  bool // a chunk spans whole rows
}

// newDset prepares reading; the error is for the user, without the file's name.
func newDset(d described, in io.ReaderAt, size int64, simple bool, cache *chunkCache) (*dset, error) {
	s := &dset{described: d, in: in, cache: cache, rows: int(d.dims[0]), rowBytes: d.elem}
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
		return nil, errors.New("its data lie in other files (hint: rewrite it with h5repack)")
	}
	switch d.layout {
	case layoutContig:
		return s, s.checkContiguous(size)
	case layoutCompact:
		if s.rows*s.rowBytes > 1<<16 {
			return nil, errDamaged
		}
		s.whole = d.compact
		if d.id < 0 {
			if len(s.whole) != s.rows*s.rowBytes {
				return nil, errDamaged
			}
			return s, nil
		}
		s.whole = make([]byte, s.rows*s.rowBytes)
		return s, readWhole(d.id, s.whole)
	case layoutChunked:
		return s, s.openChunks(size, simple)
	}
	return nil, errors.New("its layout is virtual (hint: rewrite it with h5repack)")
}

func (s *dset) checkContiguous(size int64) error {
	if s.offset == undefAddr {
		return nil // never written
	}
	if n := uint64(s.rows) * uint64(s.rowBytes); s.offset > uint64(size) || n > uint64(size)-s.offset {
		return fmt.Errorf("its %d bytes reach beyond the end of the file (hint: the file is torn, fetch or make it again)", n)
	}
	return nil
}

func (s *dset) openChunks(size int64, simple bool) error {
	g := chunkGrid{dims: s.dims, max: s.max, chunk: s.chunk, elem: uint64(s.elem), filtered: len(s.filters) > 0}
	bytes := g.elem
	for _, c := range g.chunk {
		if c == 0 || bytes > maxChunk/c {
			return fmt.Errorf("its chunks %v are larger than %d MB (hint: re-chunk it with h5repack)", g.chunk, maxChunk>>20)
		}
		bytes *= c
	}
	s.chunkBytes, s.counts = int(bytes), g.counts()
	s.wholeRows = true
	for i := 1; i < len(s.dims); i++ {
		s.wholeRows = s.wholeRows && s.chunk[i] == s.dims[i]
	}
	s.pipe = pipeline{s.filters, s.elem}
	if err := s.pipe.check(); err != nil {
		return err
	}
	if !simple {
		return nil
	}
	refs, err := parseIndex(newCursor(s.in, size), s.header, g)
	if errors.Is(err, errIndex) && s.id >= 0 {
		return nil
	}
	s.refs = refs
	return err
}

var rawPool = sync.Pool{New: func() any { return new([]byte) }}

// decodeChunk reads and decodes one chunk into dst of chunkBytes.
func (s *dset) decodeChunk(index int, dst []byte) error {
	if err := s.tryChunk(index, dst); err != nil {
		first := s.origin(index)[0]
		err = fmt.Errorf("chunk %d (rows %d to %d): %w", index, first, min(first+s.chunk[0], s.dims[0])-1, err)
		return hinted(err, "the file is damaged, fetch or make it again")
	}
	return nil
}

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

// fillIn writes the fill value over unwritten data.
func (s *dset) fillIn(dst []byte) {
	for n := copy(dst, s.fill); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}

// unwritten are the rows [from, to) that the file has room for and nothing in, as far as its index is known here.
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
		if n := len(rows); n > 0 && rows[n-1][1] >= from {
			rows[n-1][1] = to
		} else {
			rows = append(rows, [2]int{from, to})
		}
	}
	return rows
}

// origin is the first element of a chunk.
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
	case s.whole != nil:
		copy(dst, s.whole[from*s.rowBytes:])
	case s.layout == layoutContig && s.offset == undefAddr:
		s.fillIn(dst)
	case s.layout == layoutContig:
		_, err = s.in.ReadAt(dst, int64(s.offset)+int64(from)*int64(s.rowBytes))
	case s.wholeRows:
		err = s.readRows(from, to, dst)
	default:
		err = s.readBoxes(from, to, dst)
	}
	return err
}

// readRows serves chunks that span whole rows; a chunk wanted as a whole is
// decoded in place, others go through the cache.
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

// readBoxes serves chunks that cut through rows.
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

// copyBox copies the part of a chunk at origin that lies in rows [from, to).
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

// cacheBytes is how much decoded data a file keeps: a dozen of the published
// files' 15 MB chunks, so that neighbouring frames are decoded once.
const cacheBytes = 256 << 20

// chunkCache keeps decoded chunks; goroutines that want the same chunk decode
// it once.
type chunkCache struct {
	mu    sync.Mutex
	items map[chunkKey]*cached
	order list.List // of chunkKey, most recent first
	bytes int
}

type chunkKey struct {
	set   *dset
	index int
}

type cached struct {
	once sync.Once
	data []byte
	err  error
	at   *list.Element
}

// get returns the decoded chunk, which nobody may change.
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

// evict drops the oldest chunks beyond the budget, but never the newest one.
func (c *chunkCache) evict() {
	for c.bytes > cacheBytes && c.order.Len() > 1 {
		e := c.order.Back()
		key := c.order.Remove(e).(chunkKey)
		delete(c.items, key)
		c.bytes -= key.set.chunkBytes
	}
}
