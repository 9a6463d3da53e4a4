package mujoco

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"scalewm/mujoco/internal/mjc"
)

// resident returns the resident memory of this process in MB.
func resident(t testing.TB) float64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc to read the memory from")
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	must(t, err)
	return float64(pages*os.Getpagesize()) / 1e6
}

// flat runs f once to warm up, then n times, and fails if resident memory grew by more
// than 40 MB. A leak in each of n calls would be far more; the race detector and the C
// allocator need some.
func flat(t *testing.T, n int, f func()) {
	t.Helper()
	for range n / 10 {
		f()
	}
	runtime.GC()
	before := resident(t)
	for range n {
		f()
	}
	runtime.GC()
	if grown := resident(t) - before; grown > 40 {
		t.Errorf("%d rounds took %.0f MB", n, grown)
	}
}

func TestDataComeAndGo(t *testing.T) {
	m := world(t)
	flat(t, 100_000, func() {
		d, err := m.NewData()
		must(t, err)
		d.Close()
	})
}

func TestModelsComeAndGo(t *testing.T) {
	needLibrary(t)
	flat(t, 2000, func() {
		m, err := LoadXML(ball, nil)
		must(t, err)
		d, err := m.NewData()
		must(t, err)
		m.Close()
		must(t, d.Step(1))
		d.Close()
	})
}

func TestForgottenDataAreFreed(t *testing.T) {
	m := world(t)
	for range 50 {
		_, err := m.NewData()
		must(t, err)
	}
	for range 1000 { // cleanups run some time after a collection
		runtime.GC()
		if m.h.refs.Load() == 1 { // the Model's own reference
			return
		}
	}
	t.Errorf("%d of 50 forgotten data are not freed", m.h.refs.Load()-1)
}

// TestErrorsFromManyGoroutines makes 100,000 calls that MuJoCo or this package must
// reject, from 8 goroutines that share a model.
func TestErrorsFromManyGoroutines(t *testing.T) {
	m := world(t)
	const goroutines, calls = 8, 12_500
	before := resident(t)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			d, err := m.NewData()
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for i := range calls {
				if err := provoke(m, d, i+g); err == nil {
					t.Errorf("call %d of goroutine %d: no error", i, g)
					return
				}
				if i%3 == 0 {
					if err := d.Reset(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if grown := resident(t) - before; grown > 100 {
		t.Errorf("the memory grew by %.0f MB", grown)
	}
}

// provoke makes one call that must fail.
func provoke(m *Model, d *Data, i int) error {
	switch i % 20 {
	case 0:
		_, err := LoadXML("<mujoco><worldbody><geom size='x'/></worldbody></mujoco>", nil)
		return err
	case 1, 2, 3:
		return d.State(make([]float64, 1), StatePhysics)
	case 4, 5, 6:
		_, err := m.ID(ObjBody, "nobody")
		return err
	case 7, 8, 9, 10:
		if err := d.Reset(); err != nil {
			return nil
		}
		d.QPos()[0] = math.NaN()
		return d.Step(1)
	}
	if err := outcome("step", d.c, mjc.Raise(d.c, "made up")); !errors.Is(err, ErrUnusable) {
		return err
	}
	return d.Step(1)
}

func TestManyDataOfOneModelInParallel(t *testing.T) {
	m, r := world(t), readRecording(t)
	want := newData(t, m)
	replay(t, want, r, func(int) {})
	var wg sync.WaitGroup
	for range 8 {
		d := newData(t, m)
		wg.Go(func() {
			nu := m.Size("nu")
			for i := range len(r.Ctrl) / nu {
				copy(d.Ctrl(), r.Ctrl[i*nu:])
				if err := d.Step(1); err != nil {
					t.Error(err)
				}
			}
			for i, q := range d.QPos() {
				if q != want.QPos()[i] {
					t.Errorf("position %d is %v, want %v", i, q, want.QPos()[i])
				}
			}
		})
	}
	wg.Wait()
}
