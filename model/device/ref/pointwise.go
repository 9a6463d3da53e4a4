package ref

import (
	"math"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

// each calls f for every row index, with v[i] = that row of ms[i].
func each(rows int, f func(r int, v [][]float64), ms ...device.Mat) {
	v := make([][]float64, len(ms))
	for r := range rows {
		for i, m := range ms {
			v[i] = row(m, r)
		}
		f(r, v)
	}
}

// Activate: dst = act(x).
func (engine) Activate(dst, x device.Mat, act device.Act) {
	each(dst.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c] = activate(act, v[1][c])
		}
	}, dst, x)
}

// ActivateGrad: dx = dy * act'(pre).
func (engine) ActivateGrad(dx, dy, pre device.Mat, act device.Act) {
	each(dx.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c] = v[1][c] * derivative(act, v[2][c])
		}
	}, dx, dy, pre)
}

// Axpy: dst += alpha x.
func (engine) Axpy(dst device.Mat, alpha float64, x device.Mat) {
	each(dst.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c] += alpha * v[1][c]
		}
	}, dst, x)
}

// GateGrad is the gradient of out = gate*y.
func (engine) GateGrad(dy, dgate, dout, gate, y device.Mat) {
	each(dy.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c], v[1][c] = v[2][c]*v[3][c], v[2][c]*v[4][c]
		}
	}, dy, dgate, dout, gate, y)
}

// ModulateGrad is the gradient of out = x*(1+scale) + shift.
func (engine) ModulateGrad(dx, dscale, dshift, dy, x, scale device.Mat) {
	each(dx.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			g := v[3][c]
			v[0][c], v[1][c], v[2][c] = g*(1+v[5][c]), g*v[4][c], g
		}
	}, dx, dscale, dshift, dy, x, scale)
}

// Tokens: row 0 of each block is `first`, the others are consecutive rows of `rows`,
// and row i of table is added to row i of each block.
func (engine) Tokens(dst, first, table, rows device.Mat) {
	for r := range dst.Rows {
		block, i := r/table.Rows, r%table.Rows
		x := row(first, 0)
		if i > 0 {
			x = row(rows, block*(table.Rows-1)+i-1)
		}
		out, t := row(dst, r), row(table, i)
		for c := range out {
			out[c] = t[c] + x[c]
		}
	}
}

// AddRepeated: row r of dst belongs to row r*a.Rows/dst.Rows of a, rounded down,
// since a's rows are repeated dst.Rows/a.Rows times each.
func (engine) AddRepeated(dst, a, b device.Mat) {
	for r := range dst.Rows {
		out, x, y := row(dst, r), row(a, r*a.Rows/dst.Rows), row(b, r*b.Rows/dst.Rows)
		for c := range out {
			out[c] = x[c] + y[c]
		}
	}
}

// SumTable: table[p] += the sum of src[r] over r = p mod table.Rows.
func (engine) SumTable(table, src device.Mat) {
	for r := range src.Rows {
		out, in := row(table, r%table.Rows), row(src, r)
		for c := range out {
			out[c] += in[c]
		}
	}
}

// keep returns the dropout factor of element i: 0 or 1/(1-P). The uniform number is
// made from the upper 24 bits of word i%4 of Philox block i/4. The comparison is with
// P as float32, as in the other backends.
func keep(d device.Dropout, i uint64) float64 {
	if d.P == 0 {
		return 1
	}
	// A Philox block holds four words.
	word := rng.Philox(d.Key, i/4)[i%4]
	if float64(word>>8)*0x1p-24 < float64(d.P) {
		return 0
	}
	return 1 / (1 - float64(d.P))
}

// DropoutApply: the element index is that of a dense matrix, whatever dst's stride.
func (engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	each(dst.Rows, func(r int, v [][]float64) {
		for c := range v[0] {
			v[0][c] = v[1][c] * keep(d, uint64(r*dst.Cols+c))
		}
	}, dst, x)
}

// NormalizeColumns: dst[r][c] = src[r][c] / sqrt(sum over r of src[r][c]^2).
func (engine) NormalizeColumns(dst, src device.Mat) {
	// norms holds the sums of squares of all columns.
	norms := make([]float64, src.Cols)
	for r := range src.Rows {
		for c, v := range row(src, r) {
			norms[c] += v * v
		}
	}
	each(dst.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c] = v[1][c] / math.Sqrt(norms[c])
		}
	}, dst, src)
}
