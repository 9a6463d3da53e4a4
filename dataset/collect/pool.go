package collect

import (
	"cmp"
	"context"
	"sync"

	"scalewm/dataset/parallel"
)

// progressCount counts what the workers of a job have recorded.
type progressCount struct {
	mu sync.Mutex
	// done and total count episodes, including those of parts that existed before.
	done, total int64
	// rows counts those recorded by this run.
	rows     int
	progress func(done, total int64, note string)
}

// add counts recorded episodes and their rows, and reports progress.
func (t *progressCount) add(episodes, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += int64(episodes)
	t.rows += rows
	if t.progress != nil {
		t.progress(t.done, t.total, "episodes")
	}
}

// makeParts records the missing parts, in processes if that is faster, and returns
// the number of their rows.
func (j *Job) makeParts(ctx context.Context, workers int, progress func(done, total int64, note string)) (rows int, err error) {
	t := &progressCount{progress: progress}
	var missing []*part
	for _, s := range j.parts {
		t.total += int64(s.To - s.From)
		if s.done {
			t.done += int64(s.To - s.From)
		} else {
			missing = append(missing, s)
		}
	}
	if j.Spawn != nil && j.oneCore != nil {
		err = j.inProcesses(ctx, workers, missing, t)
	} else {
		err = j.inGoroutines(ctx, workers, missing, t)
	}
	return t.rows, err
}

// inProcesses records parts in processes, each with its own world and renderer. A
// process draws one frame at a time, so goroutines of one process would wait for each
// other.
func (j *Job) inProcesses(ctx context.Context, workers int, missing []*part, t *progressCount) error {
	processes := make([]*process, parallel.Workers(workers, len(missing)))
	err := parallel.For(ctx, workers, len(missing), func(w, i int) (err error) {
		p, s := processes[w], missing[i]
		if p == nil {
			if p, err = j.start(ctx); err != nil {
				return err
			}
			processes[w] = p
		}
		rows, err := p.make(s)
		if err != nil {
			processes[w] = nil
			return cmp.Or(p.end(), err)
		}
		t.add(s.To-s.From, rows)
		return nil
	})
	for _, p := range processes {
		if p != nil {
			err = cmp.Or(err, p.end())
		}
	}
	return err
}

// pendingPart collects the episodes of one part.
type pendingPart struct {
	*part
	mu       sync.Mutex
	episodes []episode
	left     int
}

// put stores an episode and reports whether the part is complete.
func (m *pendingPart) put(at int, e episode) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.episodes == nil {
		m.episodes = make([]episode, m.To-m.From)
	}
	m.episodes[at] = e
	m.left--
	return m.left == 0
}

// inGoroutines records episodes in goroutines, in order and across the borders of
// parts, so that all workers stay busy at the end. The one that records a part's last
// episode writes the part.
func (j *Job) inGoroutines(ctx context.Context, workers int, missing []*part, t *progressCount) error {
	type task struct {
		into *pendingPart
		at   int // index in the part
	}
	var tasks []task
	for _, s := range missing {
		m := &pendingPart{part: s, left: s.To - s.From}
		for at := range m.left {
			tasks = append(tasks, task{m, at})
		}
	}
	started := make([]*worker, parallel.Workers(workers, len(tasks)))
	defer func() {
		for _, w := range started {
			if w != nil {
				w.close()
			}
		}
	}()
	return parallel.For(ctx, workers, len(tasks), func(k, i int) (err error) {
		if started[k] == nil {
			if started[k], err = newWorker(j); err != nil {
				return err
			}
		}
		m, at := tasks[i].into, tasks[i].at
		e, err := started[k].record(ctx, m.From+at)
		if err != nil {
			return err
		}
		t.add(1, e.rows)
		if !m.put(at, e) {
			return nil
		}
		err = writePart(m.path, j.columns, m.episodes)
		// Free the memory: at most a few parts are in memory at a time.
		m.episodes = nil
		return err
	})
}
