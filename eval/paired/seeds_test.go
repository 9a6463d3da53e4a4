package paired

import (
	"reflect"
	"testing"
)

// Two seeds, one tier of two sets of two episodes: seed 1 gains the first episode of each
// set, seed 2 loses the second of the first set; what only one seed has is left out.
func TestBySeed(t *testing.T) {
	arm := func(name string, wins map[unit][]bool) *Arm {
		a := &Arm{Name: name}
		for u, w := range wins {
			for e, s := range w {
				if err := a.add(u, e, outcome{s, make(given, len(fields))}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return a
	}
	u := func(seed int, set string) unit { return unit{seed, "T1", set} }
	a := arm("a", map[unit][]bool{u(1, "x"): {true, false}, u(1, "y"): {true, true}, u(2, "x"): {true, false}, u(2, "y"): {true, true}, u(3, "x"): {true, true}})
	b := arm("b", map[unit][]bool{u(1, "x"): {false, false}, u(1, "y"): {false, true}, u(2, "x"): {true, true, true}, u(2, "y"): {true, true}})
	seeds, points := BySeed(a, b)
	if want := [][][]float64{{{100, 0}, {100, 0}}, {{0, -100}, {0, 0}}}; !reflect.DeepEqual(seeds, []int{1, 2}) || !reflect.DeepEqual(points, want) {
		t.Errorf("%v: %v, want %v", seeds, points, want)
	}
	if seeds, _ := BySeed(arm("a", map[unit][]bool{u(1, "x"): {true}, u(2, "x"): {true}}), arm("b", map[unit][]bool{u(3, "x"): {true}, u(4, "x"): {true}})); seeds != nil {
		t.Errorf("no seed in common: %v", seeds)
	}
}
