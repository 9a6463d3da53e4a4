package vector

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
)

// Real tasks are held against the same worlds one by one in envs/envtest; here
// a counter stands in, whose worlds can be made to fail.
var counterSpec = &envs.Spec{
	Name: "counter", ActionDim: 2,
}

type counter struct {
	number, sum float64
	fail, shut  error
	closed      *int
	envs.Env    // what Worlds never calls
}

func (c *counter) Reset(r *rand.Rand) error { c.number, c.sum = r.Float64(), 0; return c.fail }

func (c *counter) Step(a []float64) (envs.Step, error) {
	if c.fail != nil {
		return envs.Step{}, c.fail
	}
	c.sum += a[0] + 10*a[1]
	return envs.Step{Reward: c.sum, Terminated: c.sum > 100}, nil
}

func (c *counter) Observe(column string, dst []float64) error {
	if column != "state" || len(dst) != 2 {
		return fmt.Errorf("no column %s of %d", column, len(dst))
	}
	dst[0], dst[1] = c.number, c.sum
	return c.fail
}

func (c *counter) Frame(dst []byte) error {
	for i := range dst {
		dst[i] = byte(int(c.sum) + i)
	}
	return c.fail
}

func (c *counter) Close() error { *c.closed++; return c.shut }

// counters are n worlds of counters side by side, and how many of them are closed.
func counters(n, workers int) (w *Worlds, all []*counter, closed *int) {
	closed = new(int)
	var made []envs.Env
	for range n {
		all = append(all, &counter{closed: closed})
		made = append(made, all[len(all)-1])
	}
	return Of(counterSpec, made, workers), all, closed
}

func open(t *testing.T, n, workers int) (*Worlds, []*counter) {
	t.Helper()
	w, all, closed := counters(n, workers)
	t.Cleanup(func() {
		if err := w.Close(); err != nil || *closed != n {
			t.Errorf("closed %d of %d worlds: %v", *closed, n, err)
		}
	})
	return w, all
}

// Every world is served once a call, for any numbers of worlds and workers,
// more workers than worlds and a last chunk that is not full included.
func TestEveryWorldOnce(t *testing.T) {
	for _, n := range []int{1, 2, 7, 33, 100} {
		for _, workers := range []int{0, 1, 2, 3, 40} {
			w, all := open(t, n, workers)
			actions, out, values := make([]float64, 2*n), make([]envs.Step, n), make([]float64, 2*n)
			for i := range n {
				actions[2*i], actions[2*i+1] = float64(i), 1
			}
			for range 3 {
				if err := w.Step(actions, out); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Observe("state", values); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				want := 3 * float64(i+10)
				if all[i].sum != want || out[i].Reward != want || out[i].Terminated != (want > 100) || values[2*i+1] != want {
					t.Errorf("%d worlds, %d workers: world %d: %g, %+v, %g, not %g", n, workers, i, all[i].sum, out[i], values[2*i+1], want)
				}
				if w.World(i) != envs.Env(all[i]) {
					t.Errorf("world %d is another one", i)
				}
			}
			frames := make([]byte, n*envs.FrameBytes)
			if err := w.Frames(frames); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if got, want := frames[i*envs.FrameBytes], byte(3*(i+10)); got != want || w.Len() != n {
					t.Errorf("%d worlds, %d workers: frame %d begins with %d, not %d", n, workers, i, got, want)
				}
			}
		}
	}
}

func TestResetOfSome(t *testing.T) {
	w, all := open(t, 4, 2)
	for i, c := range all {
		c.number, c.sum = float64(-i), 5
	}
	streams := []*rand.Rand{nil, rand.New(rand.NewPCG(1, 1)), nil, rand.New(rand.NewPCG(2, 1))}
	if err := w.Reset(streams); err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if fresh := i%2 == 1; fresh != (c.sum == 0) || !fresh && c.number != float64(-i) {
			t.Errorf("world %d: %+v", i, c)
		}
	}
	if want := rand.New(rand.NewPCG(2, 1)).Float64(); all[3].number != want {
		t.Errorf("world 3 drew %g from its stream, not %g", all[3].number, want)
	}
}

// The error is of the first world that failed, not of the first in time, the
// others are served, and the next call is not held up by it.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	w, all := open(t, 50, 3)
	all[41].fail, all[17].fail = broken, broken
	actions, out := slices.Repeat([]float64{1}, 100), make([]envs.Step, 50)
	streams := make([]*rand.Rand, 50)
	for i := range streams {
		streams[i] = rand.New(rand.NewPCG(uint64(i), 1))
	}
	calls := map[string]func() error{
		"resetting": func() error { return w.Reset(streams) },
		"stepping":  func() error { return w.Step(actions, out) },
		"observing": func() error { return w.Observe("state", make([]float64, 100)) },
		"drawing":   func() error { return w.Frames(make([]byte, 50*envs.FrameBytes)) },
	}
	for what, call := range calls {
		if err := call(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), what+" world 17 of 50: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i, c := range all {
		if served := c.number != 0; !served {
			t.Errorf("world %d was left out", i)
		}
	}
	all[41].fail, all[17].fail = nil, nil
	for what, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s again: %v", what, err)
		}
	}
}

func TestBadActionMovesNoWorld(t *testing.T) {
	w, all := open(t, 9, 2)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		actions := slices.Repeat([]float64{1}, 18)
		actions[15] = bad
		if err := w.Step(actions, make([]envs.Step, 9)); err == nil || !strings.Contains(err.Error(), "world 7 of 9") || !strings.Contains(err.Error(), "action[1]") {
			t.Errorf("%g: %v", bad, err)
		}
	}
	for i, c := range all {
		if c.sum != 0 {
			t.Errorf("world %d moved", i)
		}
	}
}

func TestLengths(t *testing.T) {
	w, _ := open(t, 3, 2)
	for want, err := range map[string]error{
		"6 actions, not 5":     w.Step(make([]float64, 5), make([]envs.Step, 3)),
		"3 outcomes, not 2":    w.Step(make([]float64, 6), make([]envs.Step, 2)),
		"5 numbers":            w.Observe("state", make([]float64, 5)),
		"no column state of 1": w.Observe("state", make([]float64, 3)),
		"no column mood":       w.Observe("mood", make([]float64, 6)),
		"3 streams, not 0":     w.Reset(nil),
		"451584 bytes, not 10": w.Frames(make([]byte, 10)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	w, all, closed := counters(8, 4)
	all[6].shut = fmt.Errorf("stuck")
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "closing world 6 of 8: stuck") || *closed != 8 {
		t.Errorf("%v, %d worlds closed", err, *closed)
	}
	for range 1000 { // the workers end when they are next scheduled
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
