// Package parallel runs independent pieces of work on several cores. [For] is the
// only such loop of the program: it takes indices in order, gives each goroutine a
// worker number for its own scratch memory, stops at the first failure or when the
// context ends, and returns the same error for any number of workers.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Workers returns the number of workers to use for n pieces of work if wanted are
// requested (0: one per core). It is at least 1 and, beyond that, at most n.
func Workers(wanted, n int) int {
	if wanted < 1 {
		wanted = runtime.GOMAXPROCS(0)
	}
	return max(1, min(wanted, n))
}

// For calls work(worker, i) once for every i in [0, n) and returns when all calls
// have returned. Workers(workers, n) goroutines, the caller's included, take the
// indices in ascending order. worker is the number of the calling goroutine, from 0;
// calls with the same worker never overlap, so each worker can have its own buffers.
//
// After an error, or when ctx ends, no further index is taken. For returns the error
// of ctx or else the error of the lowest i that failed. That error does not depend on
// the number of workers, because all lower indices were taken before i and their
// calls have returned. A panic in work ends the program, as in any goroutine.
func For(ctx context.Context, workers, n int, work func(worker, i int) error) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		mu     sync.Mutex
		failed = n
		first  error
	)
	serve := func(worker int) {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := work(worker, i); err != nil {
				// No worker takes another index. Indices that were already taken
				// finish, and one of them may be lower and fail too.
				next.Store(int64(n))
				mu.Lock()
				defer mu.Unlock()
				if i < failed {
					failed, first = i, err
				}
				return
			}
		}
	}
	workers = Workers(workers, n)
	// The calling goroutine is worker 0: one worker starts no goroutine at all.
	for w := 1; w < workers; w++ {
		wg.Go(func() { serve(w) })
	}
	serve(0)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return first
}
