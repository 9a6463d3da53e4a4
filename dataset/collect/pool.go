package collect

import (
	"cmp"
	"context"
	"sync"

	"scalewm/dataset/parallel"
)

// made counts what the workers of a job have made.
type made struct {
	mu          sync.Mutex
	done, total int64 // episodes, those of finished parts included
	rows        int   // made by this run
	progress    func(done, total int64, note string)
}

func (t *made) add(episodes, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += int64(episodes)
	t.rows += rows
	if t.progress != nil {
		t.progress(t.done, t.total, "episodes")
	}
}

// makeParts makes the missing ones, in processes where that is faster, and counts their rows.
func (j *Job) makeParts(ctx context.Context, workers int, progress func(done, total int64, note string)) (rows int, err error) {
	t := &made{progress: progress}
	var missing []*part
	for _, s := range j.parts {
		t.total += int64(s.To - s.From)
		if s.have {
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

// inProcesses has processes make parts, each with a world and a renderer of its own.
func (j *Job) inProcesses(ctx context.Context, workers int, missing []*part, t *made) error {
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

// making gathers a part's episodes.
type making struct {
	*part
	mu       sync.Mutex
	episodes []episode
	left     int
}

// put takes in an episode and says whether the part is complete.
func (m *making) put(at int, e episode) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.episodes == nil {
		m.episodes = make([]episode, m.To-m.From)
	}
	m.episodes[at] = e
	m.left--
	return m.left == 0
}

// inGoroutines has goroutines record episodes in order, over the borders of
// parts; whoever records a part's last episode writes it.
func (j *Job) inGoroutines(ctx context.Context, workers int, missing []*part, t *made) error {
	type task struct {
		into *making
		at   int // index in the part
	}
	var tasks []task
	for _, s := range missing {
		m := &making{part: s, left: s.To - s.From}
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
		m.episodes = nil
		return err
	})
}
