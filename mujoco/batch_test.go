package mujoco

import (
	"errors"
	"math"
	"testing"
)

func TestBatchEqualsSingleSteps(t *testing.T) {
	m := world(t)
	var batch, single []*Data
	for i := range 7 {
		a, b := newData(t, m), newData(t, m)
		a.QPos()[0], b.QPos()[0] = float64(i), float64(i)
		batch, single = append(batch, a), append(single, b)
	}
	for _, threads := range []int{1, 2, 100} {
		b, err := NewBatch(batch, threads)
		must(t, err)
		for round := range 20 {
			for i := range batch {
				batch[i].Ctrl()[1], single[i].Ctrl()[1] = float64(round*i)/100, float64(round*i)/100
				must(t, single[i].Step(3))
			}
			must(t, b.Step(3))
		}
		for i := range batch {
			sameBits(t, "positions", batch[i].QPos(), single[i].QPos())
		}
		b.Close()
		b.Close()
		if b.Step(1) != ErrClosed {
			t.Error("a closed batch works")
		}
	}
}

func TestBatchGoesOnWhereOneFails(t *testing.T) {
	m := world(t)
	data := []*Data{newData(t, m), newData(t, m), newData(t, m)}
	b, err := NewBatch(data, 2)
	must(t, err)
	defer b.Close()
	data[1].QVel()[0] = math.NaN()
	err = b.Step(4)
	var be *BatchError
	if !errors.As(err, &be) || be.Errors[0] != nil || be.Errors[2] != nil || !errors.Is(be.Errors[1], ErrDiverged) || !errors.Is(err, ErrDiverged) {
		t.Fatalf("error %v", err)
	}
	if data[0].Time() != data[2].Time() || data[0].Time() == 0 {
		t.Errorf("the others are at %v and %v", data[0].Time(), data[2].Time())
	}
	must(t, data[1].Reset())
	must(t, b.Step(1))
	data[0].Close()
	if err := b.Step(1); !errors.Is(err, ErrClosed) {
		t.Errorf("with closed data: %v", err)
	}
}

func TestBatchArguments(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	gone := newData(t, m)
	gone.Close()
	for name, tc := range map[string]struct {
		data    []*Data
		threads int
	}{"none": {nil, 1}, "no thread": {[]*Data{d}, 0}, "twice": {[]*Data{d, d}, 1}, "closed": {[]*Data{gone}, 1}} {
		if b, err := NewBatch(tc.data, tc.threads); err == nil {
			b.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
