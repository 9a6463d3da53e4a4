package pipeline

import (
	"context"
	"sync"

	"scalewm/dataset/collect"
)

// collection is a data set that is being collected in the background. It is the Listener of
// that work: it passes on the progress once a step waits for it, and keeps the notes until
// then, since only the goroutine of the graph may pass those on.
type collection struct {
	silent
	done   chan struct{} // closed when the result is set
	result collect.Result
	exists bool
	err    error

	sync.Mutex
	waiting Listener // nil until a step waits
	notes   []string
}

// Progress implements Listener.
func (c *collection) Progress(done, total int64, note string) {
	c.Lock()
	defer c.Unlock()
	if c.waiting != nil {
		c.waiting.Progress(done, total, note)
	}
}

// Note implements Listener.
func (c *collection) Note(text string) {
	c.Lock()
	defer c.Unlock()
	c.notes = append(c.notes, text)
}

// collectAhead collects the data sets of a graph in the background, one after the other in
// the graph's order. The Collect steps wait for theirs. stop ends the work that no step has
// waited for.
func (w *Workspace) collectAhead(ctx context.Context, g Graph) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var steps []*Collect
	for _, s := range StepsOf[*Collect](g) {
		if !s.given() {
			steps = append(steps, s)
			w.ahead[s.task.Spec.Name] = &collection{done: make(chan struct{})}
		}
	}
	var end sync.WaitGroup
	end.Go(func() {
		for _, s := range steps {
			c := w.ahead[s.task.Spec.Name]
			o := w.Options
			o.Listener = c
			c.result, c.exists, c.err = CollectData(ctx, w.dataPath(s.task.Spec.Name), s.spec(), s.share, o)
			close(c.done)
		}
	})
	return func() { cancel(); end.Wait(); clear(w.ahead) }
}

// collect makes the step's data set or share, or waits for the background to do so.
func (c *Collect) collect(ctx context.Context, path string) (res collect.Result, exists bool, err error) {
	a := c.w.ahead[c.task.Spec.Name]
	if a == nil {
		return CollectData(ctx, path, c.spec(), c.share, c.w.Options)
	}
	a.Lock()
	a.waiting = c.w.Listener
	a.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
		return res, false, ctx.Err()
	}
	for _, text := range a.notes {
		c.w.Listener.Note(text)
	}
	return a.result, a.exists, a.err
}
