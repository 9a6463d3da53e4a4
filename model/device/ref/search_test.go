package ref

import (
	"math"
	"testing"

	"scalewm/model/device"
)

// of returns a matrix of the given rows.
func of(d device.Device, rows ...[]float64) device.Mat {
	m := device.NewMat(d, len(rows), len(rows[0]))
	for r, v := range rows {
		d.Upload64(m.RowRange(r, 1), v)
	}
	return m
}

// is compares m with numbers computed by hand.
func is(t *testing.T, what string, d device.Device, m device.Mat, want ...float64) {
	t.Helper()
	got := make([]float64, m.Len())
	d.Download64(got, m)
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= 1e-12) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// TestPlanner compares the reference with numbers computed by hand, which the
// comments derive.
func TestPlanner(t *testing.T) {
	d := New()

	// Two series of three: x = (1, 2, 4) and (0, 3, 0), taps (2, 0, 1): y_i = 2 x_i + x_{i+1}, so (4, 8, 9) and
	// (3, 6, 0). Their deviations: squares 9+1+4 about 7, over 2, so sqrt 7; 0+9+9 about 3, so 3.
	y, root7 := device.NewMat(d, 1, 6), math.Sqrt(7)
	d.Color(y, of(d, []float64{1, 0, 2, 3, 4, 0}), of(d, []float64{2, 0, 1}))
	is(t, "Color", d, y, 4/root7, 1, 8/root7, 2, 9/root7, 0)

	d.Lerp(y, of(d, []float64{0, 0, 0, 0, 0, 10}), 0)
	is(t, "Lerp", d, y, 0, 0, 0, 0, 0, 10)
	d.Lerp(y, of(d, []float64{20, 0, 0, 0, 0, 0}), 0.75)
	is(t, "Lerp", d, y, 5, 0, 0, 0, 0, 7.5)
	d.Clip(y, of(d, []float64{-1, -1, -1, 1, -1, -1}), of(d, []float64{2, 1, 1, 1, 1, 9}))
	is(t, "Clip", d, y, 2, 0, 0, 1, 0, 7.5)

	// Two episodes of three candidates; at temperature 1/log 2 a cost of 1 more halves the weight.
	cand := of(d, []float64{1, 0}, []float64{2, 0}, []float64{3, 0}, []float64{4, 1}, []float64{5, 1}, []float64{6, 1})
	costs, idx := of(d, []float64{9, 1, 2}, []float64{3, 2, 7}), device.NewInts(d, []int32{1, 2, 1, 0})
	weights, mean := device.NewMat(d, 2, 2), device.NewMat(d, 2, 2)
	d.Softmin(weights, costs, idx, 1/math.Ln2)
	is(t, "Softmin", d, weights, 2./3, 1./3, 2./3, 1./3)
	d.WeightedMean(mean, cand, weights, idx)
	is(t, "WeightedMean", d, mean, 7./3, 0, 14./3, 1)

	two, one := device.NewMat(d, 4, 2), device.NewMat(d, 2, 2)
	d.Gather(two, cand, idx, 2)
	is(t, "Gather of both", d, two, 2, 0, 3, 0, 5, 1, 4, 1)
	d.Gather(one, cand, idx, 2)
	is(t, "Gather of the first", d, one, 2, 0, 5, 1)
}
