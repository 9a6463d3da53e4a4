package infer

import (
	"reflect"
	"testing"
)

// Two seeds, one tier of two sets of two episodes: seed 1 gains the first episode of each
// set, seed 2 loses the second of the first set; what only one seed has is left out.
func TestBySeed(t *testing.T) {
	type set struct {
		seed int
		name string
	}
	arm := func(name string, wins map[set][]bool) *Side {
		a := &Side{Name: name}
		for of, w := range wins {
			for e, s := range w {
				if err := a.add(unit{of.seed, "T1"}, of.name, e, outcome{s, given{cell: make([]string, len(fields))}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return a
	}
	a := arm("a", map[set][]bool{{1, "x"}: {true, false}, {1, "y"}: {true, true}, {2, "x"}: {true, false}, {2, "y"}: {true, true}, {3, "x"}: {true, true}})
	b := arm("b", map[set][]bool{{1, "x"}: {false, false}, {1, "y"}: {false, true}, {2, "x"}: {true, true, true}, {2, "y"}: {true, true}})
	seeds, points := BySeed(a, b)
	if want := [][][]float64{{{100, 0}, {100, 0}}, {{0, -100}, {0, 0}}}; !reflect.DeepEqual(seeds, []int{1, 2}) || !reflect.DeepEqual(points, want) {
		t.Errorf("%v: %v, want %v", seeds, points, want)
	}
	if seeds, _ := BySeed(arm("a", map[set][]bool{{1, "x"}: {true}, {2, "x"}: {true}}), arm("b", map[set][]bool{{3, "x"}: {true}, {4, "x"}: {true}})); seeds != nil {
		t.Errorf("no seed in common: %v", seeds)
	}
}
