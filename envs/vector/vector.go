// Package vector steps and draws n worlds of one task on several cores. It
// changes nothing that a world does: the numbers and pixels are those of the
// worlds one by one, whatever the number of workers.
//
// It knows tasks only through envs, and nothing of policies or episodes.
package vector

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"scalewm/envs"
)

// Worlds are n worlds of one task, numbered from 0. One goroutine at a time
// uses them; the calls come back when all worlds are served.
//
// Where worlds fail, the others are served nevertheless, and the error names
// the first of those that failed.
type Worlds struct {
	spec    *envs.Spec
	worlds  []envs.Env
	workers int
	errs    []error // of the call in progress, one a world
}

// Of puts worlds of one task side by side for the given number of workers, of which the
// caller's goroutine is one (0: one a core). Close closes them.
func Of(spec *envs.Spec, made []envs.Env, workers int) *Worlds {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Worlds{spec: spec, worlds: made, workers: max(1, min(workers, len(made))), errs: make([]error, len(made))}
}

// Len is the number of worlds.
func (w *Worlds) Len() int { return len(w.worlds) }

// World is world i itself, for what is done to one world (set-state, goal,
// snapshot). It is not to be used during a call of Worlds.
func (w *Worlds) World(i int) envs.Env { return w.worlds[i] }

// Replace puts another world of the task in the place of world i, which it closes.
func (w *Worlds) Replace(i int, e envs.Env) error {
	old := w.worlds[i]
	w.worlds[i] = e
	return old.Close()
}

// Reset starts an episode in every world that has a stream; worlds with nil
// stay as they are. len(streams) = n.
func (w *Worlds) Reset(streams []*rand.Rand) error {
	if err := w.fits("resetting", len(streams), 1, "streams"); err != nil {
		return err
	}
	return w.each("resetting", func(i int) error {
		if streams[i] == nil {
			return nil
		}
		return w.worlds[i].Reset(streams[i])
	})
}

// Step applies row i of actions (n, A) to world i and writes what came of it to
// out[i]. An action that is no action moves none of the worlds.
func (w *Worlds) Step(actions []float64, out []envs.Step) error {
	a := w.spec.ActionDim
	if err := w.fits("stepping", len(actions), a, "actions"); err != nil {
		return err
	}
	if err := w.fits("stepping", len(out), 1, "outcomes"); err != nil {
		return err
	}
	for i := range w.worlds {
		if err := envs.CheckAction(w.spec, actions[i*a:(i+1)*a]); err != nil {
			return w.failed("stepping", i, err)
		}
	}
	return w.each("stepping", func(i int) (err error) {
		out[i], err = w.worlds[i].Step(actions[i*a : (i+1)*a])
		return err
	})
}

// Frames draws all worlds into dst (n, FrameBytes).
func (w *Worlds) Frames(dst []byte) error {
	if err := w.fits("drawing", len(dst), envs.FrameBytes, "bytes"); err != nil {
		return err
	}
	return w.each("drawing", func(i int) error {
		return w.worlds[i].Frame(dst[i*envs.FrameBytes : (i+1)*envs.FrameBytes])
	})
}

// Observe writes a column of all worlds to dst (n, Width).
func (w *Worlds) Observe(column string, dst []float64) error {
	if len(dst)%len(w.worlds) != 0 {
		return fmt.Errorf("vector: observing %s of %d worlds of %s: %d numbers are no whole rows", column, len(w.worlds), w.spec.Name, len(dst))
	}
	width := len(dst) / len(w.worlds)
	return w.each("observing", func(i int) error { return w.worlds[i].Observe(column, dst[i*width:(i+1)*width]) })
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

// each does the work for every world.
func (w *Worlds) each(what string, work func(i int) error) error {
	return w.Each(what, 0, len(w.worlds), work)
}

// Each does work of the caller's for the worlds from ... to-1. Its goroutines claim runs of
// neighbours: enough runs to balance slow worlds, and long enough that a fast step outweighs
// the claim.
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

func (w *Worlds) failed(what string, i int, err error) error {
	return fmt.Errorf("%s world %d of %d: %w", what, i, len(w.worlds), err)
}

// fits says what is wrong with the length of an argument.
func (w *Worlds) fits(what string, got, width int, noun string) error {
	if want := len(w.worlds) * width; got != want {
		return fmt.Errorf("vector: %s %d worlds of %s needs %d %s, not %d", what, len(w.worlds), w.spec.Name, want, noun, got)
	}
	return nil
}
