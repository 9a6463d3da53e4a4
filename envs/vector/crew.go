package vector

import (
	"sync"
	"sync/atomic"
)

// chunksPerWorker cuts the worlds finer than the workers, so that slow worlds
// are shared out, and coarser than one by one, since a step may take less time
// than the claim.
const chunksPerWorker = 8

// crew is a pool of goroutines that work on n worlds. The goroutine that calls do works too.
type crew struct {
	wake  chan struct{}
	busy  sync.WaitGroup
	chunk int64
	next  atomic.Int64 // world that nobody has claimed yet
	work  func(i int) error
	errs  []error
	extra int // goroutines besides the caller's
}

func newCrew(n, workers int) *crew {
	c := &crew{extra: workers - 1, errs: make([]error, n), chunk: int64(max(1, n/(workers*chunksPerWorker))), wake: make(chan struct{}, workers)}
	for range c.extra {
		go func() {
			for range c.wake {
				c.serve()
				c.busy.Done()
			}
		}()
	}
	return c
}

// do works on every world and gives back the first that failed.
func (c *crew) do(work func(i int) error) (int, error) {
	c.work = work
	c.next.Store(0)
	c.busy.Add(c.extra)
	for range c.extra {
		c.wake <- struct{}{}
	}
	c.serve()
	c.busy.Wait()
	for i, err := range c.errs {
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// serve claims worlds until none is left.
func (c *crew) serve() {
	n := int64(len(c.errs))
	for {
		to := c.next.Add(c.chunk)
		from := to - c.chunk
		if from >= n {
			return
		}
		for i := from; i < min(to, n); i++ {
			c.errs[i] = c.work(int(i))
		}
	}
}

func (c *crew) close() { close(c.wake) }
