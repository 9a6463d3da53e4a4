package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"scalewm/dataset/parallel"
)

// zarrCache has what neighbouring reads of an array share.
type zarrCache struct {
	mu sync.Mutex
	// last has the decoded chunks with the last row that was read, by their number.
	last map[int][]byte
	// shards has the indices of shards by name, of shardBytes in all.
	shards     map[string][]byte
	shardBytes int
	// missing is the name of a chunk that is not stored.
	missing string
}

// chunkBytes is the size of a decoded chunk.
func (a *zarrArray) chunkBytes() int {
	n := a.t.size
	for _, edge := range a.chunk {
		n *= edge
	}
	return n
}

// file returns the name of a chunk in the store.
func (a *zarrArray) file(index []int) string {
	parts := make([]string, len(index))
	for i, n := range index {
		parts[i] = strconv.Itoa(n)
	}
	return path.Join(a.name, a.prefix+strings.Join(parts, a.separator))
}

// rows reads the rows [from, to), of which there is at least one. The chunks that
// contain the last of them stay in memory for the next call.
func (a *zarrArray) rows(ctx context.Context, store *zarrStore, from, to int) (array, error) {
	out := make([]byte, (to-from)*a.rowBytes())
	// across is the number of chunks with the same rows.
	across := 1
	for k := 1; k < len(a.shape); k++ {
		across *= (a.shape[k] + a.chunk[k] - 1) / a.chunk[k]
	}
	first, last := from/a.chunk[0], (to-1)/a.chunk[0]
	keep := map[int][]byte{}
	// Chunks in work use at most this memory, or one chunk.
	workers := parallel.Workers(min(parallel.Workers(0, maxZarrChunk), max(1, maxZarrChunk/a.chunkBytes())), across*(last-first+1))
	err := parallel.For(ctx, workers, across*(last-first+1), func(_, i int) error {
		number := first*across + i
		index := make([]int, len(a.shape))
		index[0] = number / across
		for k, n := len(index)-1, number%across; k > 0; k-- {
			edge := (a.shape[k] + a.chunk[k] - 1) / a.chunk[k]
			index[k], n = n%edge, n/edge
		}
		chunk, ok := a.last[number]
		if !ok {
			var err error
			if chunk, err = a.read(store, index); err != nil {
				return fmt.Errorf("the chunk %s: %w (hint: is the set complete? copy it again)", a.file(index), err)
			}
		}
		if index[0] == last {
			a.mu.Lock()
			keep[number] = chunk
			a.mu.Unlock()
		}
		a.copy(out, chunk, index, from, to)
		return nil
	})
	if a.last = keep; a.shardBytes > maxShardIndices {
		a.shards, a.shardBytes = nil, 0
	}
	if err != nil {
		return array{}, err
	}
	shape := append([]int{to - from}, a.shape[1:]...)
	return a.t.array(shape, out, false), nil
}

// read returns a decoded chunk, which has the fill value if it is not stored.
func (a *zarrArray) read(store *zarrStore, index []int) ([]byte, error) {
	b, err := a.stored(store, index)
	if err == nil {
		return a.decode(b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if a.fill == nil {
		return nil, errors.New("it is missing, and the array has no fill value")
	}
	a.mu.Lock()
	// The first of those that are read at once, whatever the order of workers.
	if name := a.file(index); a.missing == "" || natural(name, a.missing) < 0 {
		a.missing = name
	}
	a.mu.Unlock()
	return bytes.Repeat(a.fill, a.chunkBytes()/a.t.size), nil
}

// maxShardIndices bounds the indices of shards that stay in memory.
const maxShardIndices = 64 << 20

// positions returns the index of a shard from the cache, or reads it.
func (a *zarrArray) positions(store *zarrStore, name string) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b, ok := a.shards[name]; ok {
		return b, nil
	}
	b, err := a.shard.readIndex(store, name)
	if err == nil {
		if a.shards == nil {
			a.shards = map[string][]byte{}
		}
		a.shards[name] = b
		a.shardBytes += len(b)
	}
	return b, err
}

// copy copies the part of a chunk that is in the rows [from, to) to out.
func (a *zarrArray) copy(out, chunk []byte, index []int, from, to int) {
	rank := len(a.shape)
	// n is the number of elements along each axis; there and here are the distances of
	// neighbours in out and in the chunk, in bytes.
	n, there, here := make([]int, rank), make([]int, rank), make([]int, rank)
	step := a.t.size
	for k := rank - 1; k >= 0; k-- {
		here[a.order[k]] = step
		step *= a.chunk[a.order[k]]
	}
	step = a.t.size
	for k := rank - 1; k >= 0; k-- {
		there[k] = step
		step *= a.shape[k]
		low, high := index[k]*a.chunk[k], min((index[k]+1)*a.chunk[k], a.shape[k])
		if k == 0 {
			chunk = chunk[max(0, from-low)*here[0]:]
			low, high = max(low, from), min(high, to)
			low -= from
			high -= from
		}
		n[k] = high - low
		out = out[low*there[k]:]
	}
	// run is the number of bytes that are neighbours in both.
	run := a.t.size
	for rank > 0 && there[rank-1] == run && here[rank-1] == run {
		rank--
		run *= n[rank]
	}
	copyBlock(out, chunk, n[:rank], there, here, run)
}

// copyBlock copies a block of runs of bytes. to and from are the distances of its rows.
func copyBlock(dst, src []byte, n, to, from []int, run int) {
	if len(n) == 0 {
		copy(dst[:run], src)
		return
	}
	for i := range n[0] {
		copyBlock(dst[i*to[0]:], src[i*from[0]:], n[1:], to[1:], from[1:], run)
	}
}
