package collect

import (
	"context"
	"sync"
)

// pool makes the missing shards. Workers take episodes in order, without waiting at
// the end of a shard; the one that finishes a shard's last episode writes it.
type pool struct {
	job      *Job
	progress func(done, total int64, note string)

	mu    sync.Mutex
	tasks []task // still to be taken
	done  int64  // episodes, finished shards included
	rows  int
	err   error
}

// task is one episode of a shard in the making.
type task struct {
	into *making
	at   int // index in the shard
}

// making gathers a shard's episodes.
type making struct {
	*shard
	episodes []episode
	left     int
}

func newPool(j *Job, progress func(done, total int64, note string)) *pool {
	p := &pool{job: j, progress: progress}
	for _, s := range j.shards {
		n := s.To - s.From
		if s.have {
			p.done += int64(n)
			continue
		}
		m := &making{shard: s, left: n}
		for i := range n {
			p.tasks = append(p.tasks, task{m, i})
		}
	}
	return p
}

// run ends with the first worker's error; the others stop at their next episode.
func (p *pool) run(ctx context.Context, workers int) error {
	var wg sync.WaitGroup
	for range min(workers, len(p.tasks)) {
		wg.Go(func() {
			if err := p.work(ctx); err != nil {
				p.mu.Lock()
				if p.err == nil {
					p.err = err
				}
				p.tasks = nil
				p.mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.err
}

// work records episodes until none is left.
func (p *pool) work(ctx context.Context) error {
	w, err := newWorker(p.job)
	if err != nil {
		return err
	}
	defer w.close()
	for ctx.Err() == nil {
		t, ok := p.take()
		if !ok {
			return nil
		}
		e, err := w.record(ctx, t.into.From+t.at)
		if err != nil {
			return err
		}
		if full := p.put(t, e); full {
			if err := writePart(t.into.path, p.job.columns, t.into.episodes); err != nil {
				return err
			}
			t.into.episodes = nil
		}
	}
	return nil
}

func (p *pool) take() (task, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tasks) == 0 {
		return task{}, false
	}
	t := p.tasks[0]
	p.tasks = p.tasks[1:]
	return t, true
}

// put stores an episode and says whether its shard is complete.
func (p *pool) put(t task, e episode) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.into.episodes == nil {
		t.into.episodes = make([]episode, t.into.To-t.into.From)
	}
	t.into.episodes[t.at] = e
	t.into.left--
	p.done++
	p.rows += e.rows
	if p.progress != nil {
		p.progress(p.done, int64(p.job.Spec.Episodes), "episodes")
	}
	return t.into.left == 0
}
