package mjenv

import (
	"errors"
	"runtime"
	"sync"
	"testing"
)

// Worlds with the same values share a stage, others do not. A stage that is no longer in use
// is collected and created again.
func TestStagesAreShared(t *testing.T) {
	var s stages
	made := 0
	of := func(values ...float64) *stage {
		t.Helper()
		st, err := s.get(values, func() (*stage, error) { made++; return &stage{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	a, b := of(1, 2), of(1, 2)
	if other := of(1, 2.5); a != b || other == a || made != 2 {
		t.Errorf("%d stages for two vectors of values", made)
	}
	runtime.KeepAlive(a)
	for range 100 { // cleanups run on a separate goroutine
		runtime.GC()
		s.mu.Lock()
		left := len(s.used)
		s.mu.Unlock()
		if left == 0 {
			break
		}
		runtime.Gosched()
	}
	if of(1, 2); made != 3 {
		t.Errorf("%d stages were made: one that is out of use is kept", made)
	}
	if _, err := s.get([]float64{9}, func() (*stage, error) { return nil, errors.New("no") }); err == nil {
		t.Error("what cannot be made is there")
	}
}

func TestStagesFromManyWorlds(t *testing.T) {
	var s stages
	var wg sync.WaitGroup
	got := make([]*stage, 16)
	for i := range got {
		wg.Go(func() {
			got[i], _ = s.get([]float64{3}, func() (*stage, error) { return &stage{}, nil })
		})
	}
	wg.Wait()
	for _, g := range got {
		if g == nil || g != got[0] {
			t.Fatal("worlds got different stages")
		}
	}
}
