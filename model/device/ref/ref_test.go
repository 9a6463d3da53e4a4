package ref_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/devicetest"
	"scalewm/model/device/ref"
)

// TestEdges runs the conformance suite on the reference itself. Comparing it with
// itself is trivial, but the known values at edge cases and the invariance to the
// batch are not.
func TestEdges(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	devicetest.Run(t, func(*testing.T, int) device.Device { return ref.New() })
}

// Expected numbers are those of rng.Normal.
func TestNormalIsTheProgramsNormal(t *testing.T) {
	d := ref.New()
	m := device.NewMat(d, 2, 5)
	d.Normal(m, []uint64{7, 8}, 3)
	got := make([]float64, 10)
	d.Download64(got, m)
	for i, g := range got {
		if want := rng.Normal(uint64(7+i/5), uint64(3+i%5)); g != want {
			t.Errorf("number %d: %g, rng.Normal gives %g", i, g, want)
		}
	}
}

// bench is a reference device with a source of random matrices, at which gradients
// are checked.
type bench struct {
	device.Device
	rand *rand.Rand
}

func newBench(name string) bench { return bench{ref.New(), rng.Stream("ref gradients", name)} }

func (b bench) mat(rows, cols int) device.Mat {
	m := device.NewMat(b, rows, cols)
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = b.rand.NormFloat64()
	}
	b.Upload64(m, v)
	return m
}

func (b bench) zero(rows, cols int) device.Mat { return device.NewMat(b, rows, cols) }

func (b bench) values(m device.Mat) []float64 {
	v := make([]float64, m.Len())
	b.Download64(v, m)
	return v
}

// inner returns the sum of a*c. With random weights c it turns any output a into a
// loss.
func (b bench) inner(a, c device.Mat) float64 {
	x, y := b.values(a), b.values(c)
	var sum float64
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// gradient compares grad with central differences of loss in every element of x. With
// h = 1e-5, truncation and rounding errors are far below the tolerance.
func (b bench) gradient(t *testing.T, what string, x, grad device.Mat, loss func() float64) {
	t.Helper()
	const h = 1e-5
	at, want := b.values(x), b.values(grad)
	for i, v := range at {
		side := func(d float64) float64 {
			at[i] = v + d
			b.Upload64(x, at)
			return loss()
		}
		got := (side(h) - side(-h)) / (2 * h)
		at[i] = v
		if math.Abs(got-want[i]) > 1e-7*(1+math.Abs(want[i])) {
			t.Errorf("d%s[%d] = %.10g, differences say %.10g", what, i, want[i], got)
		}
	}
	b.Upload64(x, at)
}

var none device.Mat

func TestActivateGrad(t *testing.T) {
	for act := device.Identity; act <= device.ReLU; act++ {
		b := newBench(fmt.Sprint("act", act))
		x, dy, dx, y := b.mat(3, 7), b.mat(3, 7), b.zero(3, 7), b.zero(3, 7)
		b.ActivateGrad(dx, dy, x, act)
		b.gradient(t, fmt.Sprint("act", act), x, dx, func() float64 {
			b.Activate(y, x, act)
			return b.inner(y, dy)
		})
	}
}

// product computes dst = x*y, element by element.
func (b *bench) product(dst, x, y device.Mat) {
	v, w := make([]float64, x.Len()), make([]float64, y.Len())
	b.Download64(v, x)
	b.Download64(w, y)
	for i := range v {
		v[i] *= w[i]
	}
	b.Upload64(dst, v)
}

func TestGateAndModulateGrad(t *testing.T) {
	b := newBench("gate")
	x, s, z, dout, y := b.mat(3, 4), b.mat(3, 4), b.mat(3, 4), b.mat(3, 4), b.zero(3, 4)
	dx, ds, dz := b.zero(3, 4), b.zero(3, 4), b.zero(3, 4)
	b.GateGrad(dz, ds, dout, s, z)
	gated := func() float64 { b.product(y, s, z); return b.inner(y, dout) }
	b.gradient(t, "gate", s, ds, gated)
	b.gradient(t, "gated", z, dz, gated)
	b.ModulateGrad(dx, ds, dz, dout, x, s)
	modulated := func() float64 { // x*(1+s) + z
		b.product(y, x, s)
		b.Axpy(y, 1, x)
		b.Axpy(y, 1, z)
		return b.inner(y, dout)
	}
	b.gradient(t, "x", x, dx, modulated)
	b.gradient(t, "scale", s, ds, modulated)
	b.gradient(t, "shift", z, dz, modulated)
}

func TestLayerNormGrad(t *testing.T) {
	b := newBench("layernorm")
	x, gamma, beta, dy, y := b.mat(3, 6), b.mat(1, 6), b.mat(1, 6), b.mat(3, 6), b.zero(3, 6)
	xhat, rstd, dx, dgamma, dbeta := b.zero(3, 6), b.zero(3, 1), b.zero(3, 6), b.zero(1, 6), b.zero(1, 6)
	loss := func() float64 { b.LayerNorm(y, xhat, rstd, x, gamma, beta, 1e-5); return b.inner(y, dy) }
	loss()
	b.LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma, false)
	b.gradient(t, "x", x, dx, loss)
	b.gradient(t, "gamma", gamma, dgamma, loss)
	b.gradient(t, "beta", beta, dbeta, loss)
	b.LayerNorm(y, xhat, rstd, x, none, none, 1e-6)
	b.LayerNormGrad(dx, none, none, dy, xhat, rstd, none, false)
	b.gradient(t, "x without gamma", x, dx, func() float64 {
		b.LayerNorm(y, none, none, x, none, none, 1e-6)
		return b.inner(y, dy)
	})
}

func TestBatchNormGrad(t *testing.T) {
	b := newBench("batchnorm")
	x, dy, y := b.mat(5, 3), b.mat(5, 3), b.zero(5, 3)
	bn := device.BatchNorm{Gamma: b.mat(1, 3), Beta: b.mat(1, 3), Mean: b.zero(1, 3), Var: b.zero(1, 3), Momentum: 0.1, Eps: 1e-5}
	xhat, rstd, dx, dgamma, dbeta := b.zero(5, 3), b.zero(1, 3), b.zero(5, 3), b.zero(1, 3), b.zero(1, 3)
	loss := func() float64 { b.BatchNorm(y, xhat, rstd, x, bn); return b.inner(y, dy) }
	loss()
	b.BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, bn.Gamma)
	b.gradient(t, "x", x, dx, loss)
	b.gradient(t, "gamma", bn.Gamma, dgamma, loss)
	b.gradient(t, "beta", bn.Beta, dbeta, loss)
}

func TestAttentionGrad(t *testing.T) {
	for _, h := range []device.Heads{
		{Seqs: 2, Len: 5, Heads: 2, Dim: 3},
		{Seqs: 2, Len: 4, Heads: 1, Dim: 3, Block: 1},
		{Seqs: 1, Len: 6, Heads: 2, Dim: 2, Block: 2, Drop: device.Dropout{P: 0.3, Key: 11}},
	} {
		b := newBench(fmt.Sprint(h))
		rows, cols := h.Seqs*h.Len, h.Heads*h.Dim
		q, k, v, dout := b.mat(rows, cols), b.mat(rows, cols), b.mat(rows, cols), b.mat(rows, cols)
		out, lse := b.zero(rows, cols), b.zero(h.Seqs*h.Heads, h.Len)
		dq, dk, dv := b.mat(rows, cols), b.mat(rows, cols), b.mat(rows, cols)
		loss := func() float64 { b.Attention(out, lse, q, k, v, h); return b.inner(out, dout) }
		loss()
		b.AttentionGrad(dq, dk, dv, dout, lse, q, k, v, h)
		b.gradient(t, "q", q, dq, loss)
		b.gradient(t, "k", k, dk, loss)
		b.gradient(t, "v", v, dv, loss)
	}
}

func TestLossGrads(t *testing.T) {
	b := newBench("losses")
	x, y, dx, dy, loss := b.mat(6, 4), b.mat(6, 4), b.zero(6, 4), b.zero(6, 4), b.zero(1, 1)
	mse := func() float64 { b.MSE(loss, none, none, x, y, 1); return 0.3 * b.values(loss)[0] }
	b.MSE(loss, dx, dy, x, y, 0.3)
	b.gradient(t, "pred", x, dx, mse)
	b.gradient(t, "target", y, dy, mse)
	b.SIGReg(loss, dx, x, 2, 0.3)
	b.gradient(t, "u", x, dx, func() float64 { b.SIGReg(loss, none, x, 2, 1); return 0.3 * b.values(loss)[0] })
}

func TestCorrelationGrad(t *testing.T) {
	for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
		b := newBench("correlation")
		z, q, pairs := b.mat(6, 4), b.mat(1, 9), device.NewInts(b, []int32{0, 1, 2, 3, 4, 0, 1, 0, 5, 1, 2, 3, 4, 5, 2, 3, 4, 0})
		d, dd, dz, result := b.zero(1, 9), b.zero(1, 9), b.zero(6, 4), b.zero(1, 2)
		loss := func() float64 {
			b.PairDistance(d, z, pairs)
			b.Correlation(result, dd, d, q, form, 0.3)
			return 0.3 * b.values(result)[0]
		}
		loss()
		b.PairDistanceGrad(dz, dd, z, pairs)
		b.gradient(t, "z", z, dz, loss)
	}
}

// TestAdamW: two steps by hand. After the decay, step 1 of Adam moves every weight by
// lr, whatever the size of the gradient, since the bias corrections cancel.
func TestAdamW(t *testing.T) {
	b := newBench("adamw")
	p, g, m, v, sum := b.zero(1, 2), b.zero(1, 2), b.zero(1, 2), b.zero(1, 2), b.zero(1, 1)
	b.Upload64(p, []float64{1, -1})
	b.Upload64(g, []float64{3, -4})
	b.SumSquares(sum, g)
	o := device.AdamW{LR: 0.1, Beta1: 0.9, Beta2: 0.99, Decay: 0.5, MaxNorm: 1, Step: 1}
	b.AdamW(p, g, m, v, sum, o)
	// The norm is 5: the gradient is clipped to (0.6, -0.8), but for the 1e-6.
	near(t, "p", b.values(p), 0.95-0.1, -0.95+0.1)
	near(t, "m", b.values(m), 0.06, -0.08)
	near(t, "v", b.values(v), 0.0036, 0.0064)
	o.Step, o.LR, o.Decay, o.MaxNorm = 2, 0, 0, 0
	b.AdamW(p, g, m, v, sum, o)
	near(t, "m", b.values(m), 0.9*0.06+0.3, -0.9*0.08-0.4)
	near(t, "p at lr 0", b.values(p), 0.85, -0.85)
}

func near(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	for i, w := range want {
		if math.Abs(got[i]-w) > 1e-6*math.Abs(w) {
			t.Errorf("%s[%d] = %.9g, want %.9g", what, i, got[i], w)
		}
	}
}
