// Package parallel is the one loop over pieces of work that do not depend on each
// other, on several cores.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Workers is how many workers serve n pieces of work where so many are wanted
// (0: one a core): at least one, and never more than there are pieces.
func Workers(wanted, n int) int {
	if wanted < 1 {
		wanted = runtime.GOMAXPROCS(0)
	}
	return max(1, min(wanted, n))
}

// For calls work(worker, i) once for every i of 0 ... n-1 and comes back when the
// calls have. Workers(workers, n) goroutines take the numbers in ascending order;
// worker is the number of the one that calls, from 0, so that each can have memory
// of its own.
//
// After an error, or the end of ctx, no further number is taken. For returns the
// error of ctx, or else that of the lowest i that failed, which does not depend on
// the number of workers: all lower ones were taken before it. A panic in work ends
// the program, as in any goroutine.
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
