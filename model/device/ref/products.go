package ref

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"scalewm/model/device"
)

// general returns m in gonum's form. Its data may end with the last row's elements,
// before that row's stride does.
func general(m device.Mat) blas64.General {
	return blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Stride, m.Cols), Data: m.Buf.(buffer)[m.Off:]}
}

// product returns op(a) op(b) as a dense matrix. It multiplies row by row: gonum's
// Gemm sums large products in another order than small ones, and a row must not
// depend on how many other rows there are.
func product(op device.Op, a, b device.Mat) blas64.General {
	m, n, k := op.Dims(a, b)
	out := blas64.General{Rows: m, Cols: n, Stride: max(1, n), Data: make([]float64, m*n)}
	// Without terms the sums are zero, and gonum rejects empty operands.
	if m*n*k == 0 {
		return out
	}
	tb := blas.Trans // Gemv computes out = b^T x, for b of K x N
	if op == device.NT {
		tb = blas.NoTrans
	}
	ga, gb := general(a), general(b)
	for r := range m {
		// Row r of op(a): a column of a for TN.
		x := blas64.Vector{N: k, Inc: 1, Data: ga.Data}
		if op == device.TN {
			x.Inc, x.Data = ga.Stride, x.Data[r:]
		} else {
			x.Data = x.Data[r*ga.Stride:]
		}
		blas64.Gemv(tb, 1, gb, x, 0, blas64.Vector{N: n, Inc: 1, Data: out.Data[r*n:]})
	}
	return out
}

// Gemm applies the epilogue to each element in the order of device.Epilogue.
func (engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	sums := product(op, a, b)
	for r := range dst.Rows {
		out := row(dst, r)
		for c := range out {
			v := sums.Data[r*sums.Stride+c]
			if ep.Scale.IsSet() {
				v *= row(ep.Scale, 0)[c]
			}
			if ep.Bias.IsSet() {
				v += row(ep.Bias, 0)[c]
			}
			if ep.Pre.IsSet() {
				row(ep.Pre, r)[c] = v
			}
			if ep.Grad.IsSet() {
				v *= derivative(ep.Act, row(ep.Grad, r)[c])
			} else {
				v = activate(ep.Act, v)
			}
			v *= keep(ep.Drop, uint64(r*dst.Cols+c))
			if ep.Ungated.IsSet() {
				row(ep.Ungated, r)[c] = v
			}
			if ep.Gate.IsSet() {
				v *= row(ep.Gate, r)[c]
			}
			out[c] = put(out[c], v, ep.Add)
		}
	}
	// The sums of A's columns, accumulated over its rows.
	if ep.SumA.IsSet() {
		for k := range a.Rows {
			for c, v := range row(a, k) {
				row(ep.SumA, 0)[c] += v
			}
		}
	}
}

// activate returns act(x): GELU x Phi(x), SiLU x sigmoid(x), ReLU max(x, 0). NaN
// passes through all of them.
func activate(act device.Act, x float64) float64 {
	switch act {
	case device.GELU:
		return x * phi(x)
	case device.SiLU:
		return x * sigmoid(x)
	case device.ReLU:
		if x < 0 {
			return 0
		}
	}
	return x
}

// derivative returns the derivative of activate at x. ReLU's is 0 at 0, as in
// PyTorch.
func derivative(act device.Act, x float64) float64 {
	switch act {
	case device.GELU:
		return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	case device.SiLU:
		s := sigmoid(x)
		return s * (1 + x*(1-s))
	case device.ReLU:
		if x <= 0 {
			return 0
		}
	}
	return 1
}

// phi is the standard normal distribution function. Erfc keeps its relative accuracy
// for large negative x, where 1+erf would cancel.
func phi(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// sigmoid is the logistic function.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
