package nn

import (
	"strings"

	"scalewm/model/device"
)

// LayerNorm normalises each row to mean 0 and variance 1, then scales and shifts it
// by Gamma and Beta. Without Gamma it has no affine part; it is then computed as the
// outer norm of device.Norms.AdaLN.
type LayerNorm struct {
	Gamma, Beta *Param
	Eps         float64

	// Saved for Backward: the normalised rows, and 1/standard deviation of each row
	// (Rows x 1).
	xhat, rstd device.Mat
}

// NewLayerNorm declares name.weight = 1 and name.bias = 0 with n numbers each.
func NewLayerNorm(s *Set, name string, n int, eps float64) *LayerNorm {
	return &LayerNorm{s.Vector(name+".weight", n, Const(1)), s.Vector(name+".bias", n, Const(0)), eps, device.Mat{}, device.Mat{}}
}

// allocSaved allocates what Backward needs for rows shaped as x, or clears it in a
// pass without Backward. xhat of an affine norm may be bf16. Without an affine part
// it stays float32, because the gradient of AdaLN's scale is computed from it.
func (l *LayerNorm) allocSaved(p *Pass, x device.Mat) {
	l.rstd, l.xhat = p.saved(x.Rows, 1), device.Mat{}
	switch {
	case !p.saves():
	case l.Gamma == nil:
		l.xhat = p.Mat(x.Rows, x.Cols)
	default:
		l.xhat = p.Activations(x.Rows, x.Cols)
	}
}

// Forward returns the normalised rows of x in new memory. They are stored as
// activations, since a GEMM reads them wherever Forward is used.
func (l *LayerNorm) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Activations(x.Rows, x.Cols)
	l.Into(p, y, x)
	return y
}

// Into writes the normalised rows of x to y. y may be x.
func (l *LayerNorm) Into(p *Pass, y, x device.Mat) {
	l.allocSaved(p, x)
	p.Dev.LayerNorm(y, l.xhat, l.rstd, x, l.Gamma.Value, l.Beta.Value, l.Eps)
}

// BackwardInto adds the gradients of the parameters, and writes the gradient of x to
// dx, or adds it if add is true.
func (l *LayerNorm) BackwardInto(p *Pass, dx, dy device.Mat, add bool) {
	if l.Gamma == nil {
		p.Dev.LayerNormGrad(dx, device.Mat{}, device.Mat{}, dy, l.xhat, l.rstd, device.Mat{}, add)
		return
	}
	p.Dev.LayerNormGrad(dx, l.Gamma.Grad, l.Beta.Grad, dy, l.xhat, l.rstd, l.Gamma.Value, add)
}

// Projector is a Linear, a BatchNorm over all rows, GELU and a second Linear, or only
// the first two, as the paper prints it (docs/sources.md#projector).
//
// In training the BatchNorm uses the mean and variance of the batch, and updates the
// running statistics. In evaluation it uses the running statistics, so that a row's
// result does not depend on the other rows.
type Projector struct {
	In, Out     *Linear // Out is nil if the BatchNorm is the last layer
	Gamma, Beta *Param
	Mean, Var   *Param // running statistics, updated by training passes
	Batches     int64  // number of training passes, PyTorch's num_batches_tracked

	// Saved for Backward: the input, the normalised rows and 1/standard deviation of
	// each column (1 x hidden), the BatchNorm's output y, and h = GELU(y).
	x, xhat, rstd, y, h device.Mat
}

// NewProjector declares name.net.{0,1,3} with PyTorch's default initial values. If
// hidden is 0, it declares a Linear to out columns and their BatchNorm, name.{0,1}.
func NewProjector(s *Set, name string, in, hidden, out int) *Projector {
	width := hidden
	if hidden > 0 {
		name += ".net"
	} else {
		width = out
	}
	q := &Projector{
		In:    NewLinear(s, name+".0", in, width, FanIn(in)),
		Gamma: s.Vector(name+".1.weight", width, Const(1)),
		Beta:  s.Vector(name+".1.bias", width, Const(0)),
		Mean:  s.Buffer(name+".1.running_mean", width, Const(0)),
		Var:   s.Buffer(name+".1.running_var", width, Const(1)),
	}
	if hidden > 0 {
		q.Out = NewLinear(s, name+".3", hidden, out, FanIn(hidden))
	}
	return q
}

// Counter returns the name of Batches in a checkpoint.
func (q *Projector) Counter() string {
	return strings.TrimSuffix(q.Mean.Name, "running_mean") + "num_batches_tracked"
}

// state returns the kernels' view of the BatchNorm. Momentum 0.1 and epsilon 1e-5 are
// PyTorch's defaults.
func (q *Projector) state() device.BatchNorm {
	return device.BatchNorm{Gamma: q.Gamma.Value, Beta: q.Beta.Value, Mean: q.Mean.Value, Var: q.Var.Value, Momentum: 0.1, Eps: 1e-5}
}

// Into writes the projection of x, N x in, to dst, N x out.
func (q *Projector) Into(p *Pass, dst, x device.Mat) {
	if !p.saves() {
		q.Folded(p).Into(p, dst, x)
		return
	}
	q.x = x
	pre := q.In.Forward(p, x)
	q.y = dst
	if q.Out != nil {
		q.y = p.Mat(pre.Rows, pre.Cols)
	}
	if p.Train {
		q.Batches++
		q.xhat, q.rstd = p.Mat(pre.Rows, pre.Cols), p.Mat(1, pre.Cols)
		p.Dev.BatchNorm(q.y, q.xhat, q.rstd, pre, q.state())
	} else {
		p.Dev.BatchNormEval(q.y, pre, q.state())
	}
	if q.Out == nil {
		return
	}
	q.h = p.Mat(pre.Rows, pre.Cols)
	p.Dev.Activate(q.h, q.y, device.GELU)
	q.Out.Into(p, dst, q.h, device.Epilogue{})
}

// Folded is a Projector in evaluation mode. BatchNorm with running statistics is an
// affine map of each column, y = scale*x + offset, so that the epilogue of the GEMM
// before it applies it for free.
type Folded struct {
	q           *Projector
	scale, bias device.Mat
}

// Folded computes the scales and biases. The result is valid as long as the weights
// and the arena of p are.
func (q *Projector) Folded(p *Pass) Folded {
	// The scale is the norm of 1 without offset. The bias is the norm of the first
	// layer's bias: norm(a.b + bias) = scale*a.b + norm(bias).
	f := Folded{q, p.Mat(1, q.In.Out()), p.Mat(1, q.In.Out())}
	p.Dev.Fill(f.bias, 1)
	q.rescale(p, f.scale, f.bias)
	p.Dev.BatchNormEval(f.bias, q.In.B.Value, q.state())
	return f
}

// Into writes the projection of x, N x in, to dst, N x out.
func (f Folded) Into(p *Pass, dst, x device.Mat) {
	if f.q.Out == nil {
		p.Dev.Gemm(device.NT, dst, x, f.q.In.W.Value, device.Epilogue{Scale: f.scale, Bias: f.bias})
		return
	}
	h := p.Activations(x.Rows, f.q.In.Out())
	p.Dev.Gemm(device.NT, h, x, f.q.In.W.Value, device.Epilogue{Scale: f.scale, Bias: f.bias, Act: device.GELU})
	f.q.Out.Into(p, dst, h, device.Epilogue{})
}

// rescale writes y = x * gamma/sqrt(var+eps), the BatchNorm by running statistics
// without its offset. It is also the gradient of that norm.
func (q *Projector) rescale(p *Pass, y, x device.Mat) {
	bn := q.state()
	bn.Beta = p.Zero(1, x.Cols)
	bn.Mean = bn.Beta
	p.Dev.BatchNormEval(y, x, bn)
}

// Forward returns the projection of x in new memory.
func (q *Projector) Forward(p *Pass, x device.Mat) device.Mat {
	last := q.Out
	if last == nil {
		last = q.In
	}
	y := p.Mat(x.Rows, last.Out())
	q.Into(p, y, x)
	return y
}

// Backward adds the gradients of the parameters and returns that of x. With
// Pass.InputGrad it only backpropagates to x, through the running statistics, which
// are constants. In training the statistics depend on every row of the batch, and
// BatchNormGrad backpropagates through them.
func (q *Projector) Backward(p *Pass, dy device.Mat) device.Mat {
	dh := dy // of the BatchNorm's output
	if q.Out != nil {
		q.Out.Grad(p, dy, q.h)
		dh = p.Mat(q.h.Rows, q.h.Cols)
		q.Out.InputGrad(p, dh, dy, device.Epilogue{Act: device.GELU, Grad: q.y})
	}
	dpre := p.Mat(dh.Rows, dh.Cols)
	if p.InputGrad {
		q.rescale(p, dpre, dh)
		return q.In.Backward(p, dpre, q.x)
	}
	p.Dev.BatchNormGrad(dpre, q.Gamma.Grad, q.Beta.Grad, dh, q.xhat, q.rstd, q.Gamma.Value)
	return q.In.Backward(p, dpre, q.x)
}
