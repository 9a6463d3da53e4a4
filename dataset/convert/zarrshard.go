package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
)

// zarrShard is the codec sharding_indexed: a stored file has several chunks and an index
// of their positions. zarrArray.chunk is then the shape of these chunks.
type zarrShard struct {
	// per is the number of chunks along each axis.
	per []int
	// atStart says that the index comes first.
	atStart bool
	// index describes how the index is stored: as one chunk of pairs of numbers.
	index zarrArray
}

// sharded takes the parameters of sharding_indexed. a.chunk is the shape of shards.
func (a *zarrArray) sharded(c zarrCodec) error {
	var p struct {
		Chunk       []int       `json:"chunk_shape"`
		Codecs      []zarrCodec `json:"codecs"`
		IndexCodecs []zarrCodec `json:"index_codecs"`
		Location    string      `json:"index_location"`
	}
	if err := c.configure(&p); err != nil {
		return err
	}
	s := &zarrShard{atStart: p.Location == "start"}
	if len(p.Chunk) != len(a.chunk) || len(a.chunk) != len(a.shape) || !slices.Equal(a.order, sorted(a.order)) {
		return fmt.Errorf("its shards have the shape %v and their chunks %v", a.chunk, p.Chunk)
	}
	// The index is compared with the size of the shard before it is read.
	n := 1
	for i, edge := range p.Chunk {
		if edge < 1 || a.chunk[i] < 1 || a.chunk[i]%edge != 0 || n > maxZarrChunk/16/(a.chunk[i]/edge) {
			return fmt.Errorf("its shards have the shape %v and their chunks %v", a.chunk, p.Chunk)
		}
		s.per = append(s.per, a.chunk[i]/edge)
		n *= s.per[i]
	}
	s.index = zarrArray{shape: []int{n, 2}, chunk: []int{n, 2}, t: numpyType{"u8", 8, false}}
	if err := s.index.pipeline(p.IndexCodecs, false); err != nil {
		return err
	}
	for _, c := range s.index.codecs {
		// The index must have a known size.
		if c.Name != "crc32c" {
			s.index.fault = errZarrCodec(c.Name + " of an index")
		}
	}
	if s.index.order[0] != 0 {
		s.index.fault = errZarrCodec("transpose of an index")
	}
	a.chunk, a.shard = p.Chunk, s
	if err := a.pipeline(p.Codecs, false); err != nil || a.fault != nil {
		return err
	}
	a.fault = s.index.fault
	return nil
}

func sorted(order []int) []int { return slices.Sorted(slices.Values(order)) }

// readIndex returns the index of a shard: for each chunk its position and its size,
// little-endian.
func (s *zarrShard) readIndex(store *zarrStore, name string) ([]byte, error) {
	n := int64(16*s.index.shape[0] + 4*len(s.index.codecs))
	at := -n
	if s.atStart {
		at = 0
	}
	b, err := store.readAt(name, at, n)
	if err == nil {
		b, err = s.index.decode(b)
	}
	if err != nil {
		return nil, fmt.Errorf("the index of the shard: %w", err)
	}
	return s.index.t.array(s.index.shape, b, false).data, nil
}

// stored returns the bytes of a chunk, or fs.ErrNotExist if it is not stored.
func (a *zarrArray) stored(store *zarrStore, index []int) ([]byte, error) {
	most := int64(maxZarrStored(a.chunkBytes()))
	if a.shard == nil {
		return store.read(a.file(index), most)
	}
	outer, inner := make([]int, len(index)), 0
	for k, i := range index {
		outer[k] = i / a.shard.per[k]
		inner = inner*a.shard.per[k] + i%a.shard.per[k]
	}
	name := a.file(outer)
	positions, err := a.positions(store, name)
	if err != nil {
		return nil, err
	}
	at, n := binary.LittleEndian.Uint64(positions[16*inner:]), binary.LittleEndian.Uint64(positions[16*inner+8:])
	switch {
	case at == math.MaxUint64 && n == math.MaxUint64:
		return nil, fs.ErrNotExist
	case at > math.MaxInt64 || n > uint64(most):
		return nil, fmt.Errorf("%w: a chunk of %d bytes at %d", errZarrDamaged, n, at)
	}
	b, err := store.readAt(name, int64(at), int64(n))
	if errors.Is(err, fs.ErrNotExist) {
		// Only a shard's own name may be missing.
		err = fmt.Errorf("%w: the shard has vanished", errZarrDamaged)
	}
	return b, err
}
