package parallel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWorkers(t *testing.T) {
	for _, c := range []struct{ wanted, n, want int }{{3, 10, 3}, {3, 2, 2}, {1, 0, 1}, {0, 1, 1}} {
		if got := Workers(c.wanted, c.n); got != c.want {
			t.Errorf("Workers(%d, %d) = %d, want %d", c.wanted, c.n, got, c.want)
		}
	}
	if Workers(0, 1<<20) < 1 {
		t.Error("no worker on this machine")
	}
}

// Every index is processed once for any number of workers, and two calls with the
// same worker never overlap.
func TestForCallsEachOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 100} {
		for _, n := range []int{0, 1, 50} {
			calls := make([]atomic.Int32, n)
			busy := make([]atomic.Bool, Workers(workers, n))
			err := For(context.Background(), workers, n, func(w, i int) error {
				if !busy[w].CompareAndSwap(false, true) {
					t.Errorf("worker %d of %d is called while it works", w, workers)
				}
				calls[i].Add(1)
				busy[w].Store(false)
				return nil
			})
			for i := range calls {
				if c := calls[i].Load(); c != 1 {
					t.Errorf("%d workers, %d pieces: piece %d was called %d times", workers, n, i, c)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// All pieces from 5 on fail. With several workers piece 5 fails after piece 6, and
// For still returns its error.
func TestForReturnsTheLowestError(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		later := make(chan struct{})
		var calls atomic.Int32
		err := For(context.Background(), workers, 1000, func(_, i int) error {
			calls.Add(1)
			switch {
			case i == 5 && workers > 1:
				<-later
			case i == 6:
				close(later)
			}
			if i >= 5 {
				return fmt.Errorf("piece %d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "piece 5" {
			t.Errorf("%d workers: %v, want that of piece 5", workers, err)
		}
		if n := calls.Load(); n > int32(5+workers) {
			t.Errorf("%d workers: %d calls after the failure of the sixth", workers, n)
		}
	}
}

func TestForStopsWithItsContext(t *testing.T) {
	for _, workers := range []int{1, 3} {
		ctx, cancel := context.WithCancel(context.Background())
		var calls atomic.Int32
		err := For(ctx, workers, 1000, func(_, i int) error {
			if calls.Add(1) == 10 {
				cancel()
			}
			return ctx.Err()
		})
		if n := calls.Load(); !errors.Is(err, context.Canceled) || n >= int32(10+workers) {
			t.Errorf("%d workers: %v after %d calls", workers, err, n)
		}
	}
}

// A panic in a worker ends the program and names the piece.
func TestForDoesNotHidePanics(t *testing.T) {
	if os.Getenv("PARALLEL_PANIC") != "" {
		For(context.Background(), 2, 100, func(w, i int) error {
			if i == 40 {
				panic("piece 40")
			}
			return nil
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestForDoesNotHidePanics$")
	cmd.Env = append(os.Environ(), "PARALLEL_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "piece 40") {
		t.Errorf("%v: %s", err, out)
	}
}
