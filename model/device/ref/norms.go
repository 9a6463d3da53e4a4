package ref

import (
	"math"

	"scalewm/model/device"
)

// moments returns the mean and the biased variance of at(0), ..., at(n-1), with the
// variance about the mean in a second pass.
func moments(n int, at func(int) float64) (mean, variance float64) {
	for i := range n {
		mean += at(i)
	}
	mean /= float64(n)
	for i := range n {
		d := at(i) - mean
		variance += d * d
	}
	return mean, variance / float64(n)
}

// LayerNorm, for each row: xhat = (x - mean)/sqrt(variance + eps), y = xhat*gamma +
// beta.
func (engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	for r := range x.Rows {
		in, out := row(x, r), row(y, r)
		mean, variance := moments(x.Cols, func(c int) float64 { return in[c] })
		inv := 1 / math.Sqrt(variance+eps)
		if rstd.IsSet() {
			row(rstd, r)[0] = inv
		}
		for c, v := range in {
			h := (v - mean) * inv
			if xhat.IsSet() {
				row(xhat, r)[c] = h
			}
			if gamma.IsSet() {
				h = h*row(gamma, 0)[c] + row(beta, 0)[c]
			}
			out[c] = h
		}
	}
}

// AdaLN is written as two LayerNorms with the modulation m = outer*(1+Scale) + Shift
// between them.
func (e engine) AdaLN(y, x device.Mat, n device.AdaLN) {
	dense := func() device.Mat { return device.NewMat(e, x.Rows, x.Cols) }
	outer, m := dense(), dense()
	e.LayerNorm(outer, n.Outer, n.OuterInv, x, device.Mat{}, device.Mat{}, n.OuterEps)
	each(m.Rows, func(_ int, v [][]float64) {
		for c := range v[0] {
			v[0][c] = v[1][c]*(1+v[2][c]) + v[3][c]
		}
	}, m, outer, n.Scale, n.Shift)
	e.LayerNorm(y, n.Inner, n.InnerInv, m, n.Gamma, n.Beta, n.InnerEps)
}

// LayerNormGrad, with g = dy*gamma and means over the row: dx = rstd*(g - mean(g) -
// xhat*mean(g*xhat)); over all rows, dgamma += sum dy*xhat and dbeta += sum dy.
func (engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	g := make([]float64, dy.Cols)
	for r := range dy.Rows {
		dout, h, out := row(dy, r), row(xhat, r), row(dx, r)
		// The two means over the row, of g and of g*xhat, on which every dx depends.
		var sum, dot float64
		for c := range g {
			if dgamma.IsSet() {
				row(dgamma, 0)[c] += dout[c] * h[c]
			}
			if dbeta.IsSet() {
				row(dbeta, 0)[c] += dout[c]
			}
			g[c] = dout[c]
			if gamma.IsSet() {
				g[c] *= row(gamma, 0)[c]
			}
			sum += g[c]
			dot += g[c] * h[c]
		}
		n, inv := float64(dy.Cols), row(rstd, r)[0]
		for c := range g {
			out[c] = put(out[c], inv*(g[c]-sum/n-h[c]*dot/n), add)
		}
	}
}

// BatchNorm normalises each column over the rows with the biased variance, and
// updates the running variance with the unbiased one, as PyTorch does.
func (engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	n := float64(x.Rows)
	for c := range x.Cols {
		mean, variance := moments(x.Rows, func(r int) float64 { return row(x, r)[c] })
		inv := 1 / math.Sqrt(variance+bn.Eps)
		if rstd.IsSet() {
			row(rstd, 0)[c] = inv
		}
		for r := range x.Rows {
			h := (row(x, r)[c] - mean) * inv
			if xhat.IsSet() {
				row(xhat, r)[c] = h
			}
			row(y, r)[c] = h*row(bn.Gamma, 0)[c] + row(bn.Beta, 0)[c]
		}
		// variance*n/(n-1) is the unbiased variance.
		running(&row(bn.Mean, 0)[c], mean, bn.Momentum)
		running(&row(bn.Var, 0)[c], variance*n/(n-1), bn.Momentum)
	}
}

// running updates a running statistic.
func running(old *float64, batch, momentum float64) { *old = (1-momentum)**old + momentum*batch }

// BatchNormEval: y = (x - Mean)/sqrt(Var + Eps)*Gamma + Beta for each column.
func (engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	each(x.Rows, func(_ int, v [][]float64) {
		for c, in := range v[1] {
			inv := 1 / math.Sqrt(row(bn.Var, 0)[c]+bn.Eps)
			v[0][c] = (in-row(bn.Mean, 0)[c])*inv*row(bn.Gamma, 0)[c] + row(bn.Beta, 0)[c]
		}
	}, y, x)
}

// BatchNormGrad, with means over the rows of a column: dx = gamma*rstd*(dy - mean(dy)
// - xhat*mean(dy*xhat)), dgamma += sum dy*xhat and dbeta += sum dy.
func (engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	n := float64(dy.Rows)
	for c := range dy.Cols {
		var sum, dot float64
		for r := range dy.Rows {
			sum += row(dy, r)[c]
			dot += row(dy, r)[c] * row(xhat, r)[c]
		}
		row(dbeta, 0)[c] += sum
		row(dgamma, 0)[c] += dot
		scale := row(gamma, 0)[c] * row(rstd, 0)[c]
		for r := range dy.Rows {
			row(dx, r)[c] = scale * (row(dy, r)[c] - sum/n - row(xhat, r)[c]*dot/n)
		}
	}
}
