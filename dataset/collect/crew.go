package collect

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// crew makes the missing shards in processes, each with its own world and renderer.
// They write the same files as the goroutines of pool.
type crew struct {
	job      *Job
	progress func(done, total int64, note string)

	mu    sync.Mutex
	todo  []*shard
	done  int64 // episodes, finished shards included
	rows  int
	total int64
}

func newCrew(j *Job, progress func(done, total int64, note string)) *crew {
	c := &crew{job: j, progress: progress, total: int64(j.Spec.Episodes)}
	for _, s := range j.shards {
		if s.have {
			c.done += int64(s.To - s.From)
		} else {
			c.todo = append(c.todo, s)
		}
	}
	return c
}

// run ends with the first error; the other processes are killed, which shards survive.
func (c *crew) run(ctx context.Context, workers int) error {
	g, ctx := errgroup.WithContext(ctx)
	for range min(workers, len(c.todo)) {
		g.Go(func() error { return c.work(ctx) })
	}
	return g.Wait()
}

// work has one process make shards until none is left.
func (c *crew) work(ctx context.Context) error {
	p, err := c.job.start(ctx)
	if err != nil {
		return err
	}
	for s := c.take(); s != nil; s = c.take() {
		rows, err := p.make(s)
		if err != nil {
			return cmp.Or(p.end(), err)
		}
		c.put(s, rows)
	}
	return p.end()
}

func (c *crew) take() *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.todo) == 0 {
		return nil
	}
	s := c.todo[0]
	c.todo = c.todo[1:]
	return s
}

func (c *crew) put(s *shard, rows int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += int64(s.To - s.From)
	c.rows += rows
	if c.progress != nil {
		c.progress(c.done, c.total, "episodes")
	}
}
