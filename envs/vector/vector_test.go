package vector

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"scalewm/envs"
)

// counter is a world that counts steps and can be made to fail. envs/envtest compares worlds
// of real tasks with the same worlds run one by one.
type counter struct {
	calls      int
	fail, shut error
	closed     *int
	envs.Env   // the methods that Worlds does not call
}

func (c *counter) count() error { c.calls++; return c.fail }

func (c *counter) Close() error { *c.closed++; return c.shut }

// counters returns Worlds of n counters, and how many of them have been closed.
func counters(n, workers int) (w *Worlds, all []*counter, closed *int) {
	closed = new(int)
	var made []envs.Env
	for range n {
		all = append(all, &counter{closed: closed})
		made = append(made, all[len(all)-1])
	}
	return New(made, workers), all, closed
}

// Every world in the range is served once per call, for any numbers of worlds and workers,
// including more workers than worlds and an incomplete last run.
func TestEveryWorldOnce(t *testing.T) {
	for _, n := range []int{1, 2, 7, 33, 100} {
		for _, workers := range []int{0, 1, 2, 3, 40} {
			w, all, _ := counters(n, workers)
			for range 3 {
				if err := w.Each("counting", n/3, n, func(i int) error { return w.World(i).(*counter).count() }); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range all {
				want := 3
				if i < n/3 {
					want = 0
				}
				if c.calls != want || w.World(i) != envs.Env(c) {
					t.Errorf("%d worlds, %d workers: world %d was served %d times, not %d, or is another one", n, workers, i, c.calls, want)
				}
			}
		}
	}
}

// The error is that of the failed world with the lowest number, not of the first in time. The
// others are served, and the next call works.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	w, all, _ := counters(50, 3)
	all[41].fail, all[17].fail = broken, broken
	count := func() error { return w.Each("counting", 0, 50, func(i int) error { return all[i].count() }) }
	if err := count(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "counting world 17 of 50: ") {
		t.Error(err)
	}
	all[41].fail, all[17].fail = nil, nil
	if err := count(); err != nil {
		t.Errorf("again: %v", err)
	}
	for i, c := range all {
		if c.calls != 2 {
			t.Errorf("world %d was served %d times, not 2", i, c.calls)
		}
	}
}

func TestReplace(t *testing.T) {
	w, _, closed := counters(3, 2)
	other := &counter{closed: closed}
	if err := w.Replace(1, other); err != nil || *closed != 1 || w.World(1) != envs.Env(other) {
		t.Errorf("%v, %d worlds closed", err, *closed)
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	w, all, closed := counters(8, 4)
	all[6].shut = fmt.Errorf("stuck")
	if err := w.Each("counting", 0, 8, func(i int) error { return all[i].count() }); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "closing world 6 of 8: stuck") || *closed != 8 {
		t.Errorf("%v, %d worlds closed", err, *closed)
	}
	for range 1000 { // workers end when they are next scheduled
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
