package doc

import (
	"math"
	"testing"
)

func TestSmooth(t *testing.T) {
	steps, values := make([]float64, 240), make([]float64, 240)
	for i := range steps {
		steps[i], values[i] = float64(i), float64(i%2)
	}
	values[1] = math.NaN()
	ps := Smooth(steps, values, 120)
	if len(ps) != 120 {
		t.Fatalf("%d points, want 240 steps in pairs", len(ps))
	}
	if ps[0].Y != 0 || ps[5] != (Point{X: 10.5, Y: 0.5}) { // a gap is left out; the mean of 0 and 1 in the middle of steps 10 and 11
		t.Errorf("%v and %v", ps[0], ps[5])
	}
	if got := Smooth(steps, nil, 120); got != nil {
		t.Errorf("no values gave %v", got)
	}
}

// Names at the ends of lines never overlap.
func TestEndLabelsAreApart(t *testing.T) {
	p := NewPanel(300, 200, Axis{Lo: 1, Hi: 10}, Axis{Lo: 0, Hi: 100})
	ends := []EndLabel{{Y: p.Y.From, Label: "a"}, {Y: p.Y.From, Label: "b"}, {Y: p.Y.From - 3, Label: "c"}, {Y: 60, Label: "d"}}
	p.EndLabels(ends)
	for i := 1; i < len(ends); i++ {
		if gap := ends[i].Y - ends[i-1].Y; gap < 15-1e-9 {
			t.Errorf("%s and %s are %v apart", ends[i-1].Label, ends[i].Label, gap)
		}
	}
	if last := ends[len(ends)-1].Y; last > p.Y.From {
		t.Errorf("the last name is at %v, below the plot", last)
	}
}
