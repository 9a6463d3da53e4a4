// Package vector steps and draws n worlds of one task on several cores. Each world
// computes the same numbers and pixels as it would alone, whatever the number of workers.
//
// It uses tasks only through package envs, and contains nothing about policies or
// episodes.
package vector

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"scalewm/envs"
)

// Worlds is a list of worlds of one task, numbered from 0. It must be used by one
// goroutine at a time. Calls return when all worlds are done.
type Worlds struct {
	worlds  []envs.Env
	workers int     // goroutines of Each, the caller's included
	errs    []error // of the call in progress, one per world
}

// New returns the given worlds of one task, to be served by the given number of workers,
// of which the caller's goroutine is one. 0 workers means one per core. Worlds.Close
// closes the worlds.
func New(worlds []envs.Env, workers int) *Worlds {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Worlds{worlds: worlds, workers: max(1, min(workers, len(worlds))), errs: make([]error, len(worlds))}
}

// World returns world i. During a call of Each, only its function work may use it.
func (w *Worlds) World(i int) envs.Env { return w.worlds[i] }

// Replace closes world i and puts another world of the task in its place.
func (w *Worlds) Replace(i int, e envs.Env) error {
	old := w.worlds[i]
	w.worlds[i] = e
	return old.Close()
}

// Each calls work(i) for the worlds from <= i < to. If it fails for some, it is still
// called for the others, and the error names the first world that failed.
//
// Workers claim runs of consecutive worlds from an atomic counter. There are enough runs to
// balance slow worlds, and each is long enough that even fast steps outweigh the claim.
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
	// The caller's goroutine is a worker, so that one worker starts no goroutine.
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

// Close closes all worlds and returns all their errors.
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

// failed adds the world's number to an error.
func (w *Worlds) failed(what string, i int, err error) error {
	return fmt.Errorf("%s world %d of %d: %w", what, i, len(w.worlds), err)
}
