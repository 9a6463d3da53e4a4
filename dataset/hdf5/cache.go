package hdf5

import (
	"container/list"
	"sync"
)

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
