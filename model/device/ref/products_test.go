package ref

import (
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/model/device"
)

// TestProductRowsStandAlone: a row of a product that is large enough for gonum's
// blocked GEMM has the same bits as the row computed alone.
func TestProductRowsStandAlone(t *testing.T) {
	const m, n, k = 300, 140, 200
	d := New()
	defer d.Close()
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(rows, cols int) device.Mat {
		v := make([]float64, rows*cols)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		mat := device.NewMat(d, rows, cols)
		d.Upload64(mat, v)
		return mat
	}
	for name, c := range map[string]struct {
		op   device.Op
		a, b device.Mat
		row  func(a device.Mat, i int) device.Mat
	}{
		"NN": {device.NN, fill(m, k), fill(k, n), func(a device.Mat, i int) device.Mat { return a.RowRange(i, 1) }},
		"NT": {device.NT, fill(m, k), fill(n, k), func(a device.Mat, i int) device.Mat { return a.RowRange(i, 1) }},
		"TN": {device.TN, fill(k, m), fill(k, n), func(a device.Mat, i int) device.Mat { return a.Columns(i, 1) }},
	} {
		all, one := device.NewMat(d, m, n), device.NewMat(d, 1, n)
		d.Gemm(c.op, all, c.a, c.b, device.Epilogue{})
		for _, i := range []int{0, 17, m - 1} {
			d.Gemm(c.op, one, c.row(c.a, i), c.b, device.Epilogue{})
			want, got := make([]float64, n), make([]float64, n)
			d.Download64(want, one)
			d.Download64(got, all.RowRange(i, 1))
			for j := range got {
				if math.Float64bits(got[j]) != math.Float64bits(want[j]) {
					t.Fatalf("%s row %d column %d: %g in the batch, %g alone", name, i, j, got[j], want[j])
				}
			}
		}
	}
}
