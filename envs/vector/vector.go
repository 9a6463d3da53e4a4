// Package vector works with n worlds of one task on several cores. It changes nothing
// that a world does: the numbers and pixels are those of the worlds one by one,
// whatever the number of workers.
//
// It knows tasks only through envs, and nothing of policies or episodes.
package vector

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"scalewm/envs"
)

// Worlds are n worlds of one task, numbered from 0. One goroutine at a time
// uses them; the calls come back when all worlds are served.
type Worlds struct {
	worlds  []envs.Env
	workers int
	errs    []error // of the call in progress, one a world
}

// Of puts worlds of one task side by side for the given number of workers, of which the
// caller's goroutine is one (0: one a core). Close closes them.
func Of(made []envs.Env, workers int) *Worlds {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Worlds{worlds: made, workers: max(1, min(workers, len(made))), errs: make([]error, len(made))}
}

// World is world i itself. Only the work of Each may use it during a call.
func (w *Worlds) World(i int) envs.Env { return w.worlds[i] }

// Replace puts another world of the task in the place of world i, which it closes.
func (w *Worlds) Replace(i int, e envs.Env) error {
	old := w.worlds[i]
	w.worlds[i] = e
	return old.Close()
}

// Each does work for the worlds from ... to-1. Where it fails for some, it is done for the
// others nevertheless, and the error names the first of those that failed. Goroutines claim
// runs of neighbours: enough runs to balance slow worlds, and long enough that a fast step
// outweighs the claim.
func (w *Worlds) Each(what string, from, to int, work func(i int) error) error {
	const runsPerWorker = 8
	length := max(1, (to-from)/(w.workers*runsPerWorker))
	var claimed atomic.Int64
	serve := func() {
		for {
			end := from + int(claimed.Add(int64(length)))
			if end-length >= to {
				return
			}
			for i := end - length; i < min(end, to); i++ {
				w.errs[i] = work(i)
			}
		}
	}
	var others sync.WaitGroup
	for range min(w.workers, (to-from+length-1)/length) - 1 {
		others.Go(serve)
	}
	serve()
	others.Wait()
	for i := from; i < to; i++ {
		if w.errs[i] != nil {
			return w.failed(what, i, w.errs[i])
		}
	}
	return nil
}

// Close closes the worlds.
func (w *Worlds) Close() error {
	var errs []error
	for i, e := range w.worlds {
		if err := e.Close(); err != nil {
			errs = append(errs, w.failed("closing", i, err))
		}
	}
	w.worlds = nil
	return errors.Join(errs...)
}

func (w *Worlds) failed(what string, i int, err error) error {
	return fmt.Errorf("%s world %d of %d: %w", what, i, len(w.worlds), err)
}
