package nn

import "scalewm/model/device"

// Linear is y = x W^T + b with W stored as (out, in), as in PyTorch. It saves nothing
// for the backward pass: the caller passes the input again.
type Linear struct {
	// B is nil if the layer has no bias.
	W, B *Param
}

// NewLinear declares name.weight and, if init has a Bias, name.bias.
func NewLinear(s *Set, name string, in, out int, init Inits) *Linear {
	l := &Linear{W: s.Param(name+".weight", out, in, init.Weight)}
	if init.Bias != nil {
		l.B = s.Vector(name+".bias", out, init.Bias)
	}
	return l
}

// Out returns the width of the output.
func (l *Linear) Out() int { return l.W.rows }

// Into computes dst, N x out, from x, N x in. It sets the Bias of the epilogue.
func (l *Linear) Into(p *Pass, dst, x device.Mat, ep device.Epilogue) {
	if l.B != nil {
		ep.Bias = l.B.Value
	}
	p.Dev.Gemm(device.NT, dst, x, l.W.Value, ep)
}

// Forward returns the output in new float32 memory of the arena.
func (l *Linear) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, l.Out())
	l.Into(p, y, x, device.Epilogue{})
	return y
}

// activations is Forward for a result that only GEMMs and the kernels around them
// read: it is stored as bf16 on devices that multiply bf16. The GEMM would round its
// inputs to bf16 anyway, so that storing it rounded loses nothing and halves the
// memory traffic.
func (l *Linear) activations(p *Pass, x device.Mat) device.Mat {
	y := p.Activations(x.Rows, l.Out())
	l.Into(p, y, x, device.Epilogue{})
	return y
}

// rows returns a layer that computes the outputs [first, first+n) of l. Its
// parameters are views of l's.
func (l *Linear) rows(first, n int) *Linear {
	part := func(p *Param, of func(device.Mat) device.Mat) *Param {
		s := &Param{rows: n}
		s.Value = of(p.Value)
		if p.Grad.IsSet() {
			s.Grad = of(p.Grad)
		}
		return s
	}
	s := &Linear{W: part(l.W, func(m device.Mat) device.Mat { return m.RowRange(first, n) })}
	if l.B != nil {
		s.B = part(l.B, func(m device.Mat) device.Mat { return m.Columns(first, n) })
	}
	return s
}

// Grad adds the gradients of W and b for the output gradient dy and the input x. It
// does nothing if the model was allocated without gradients. The GEMM for dW =
// dy^T x reads dy anyway, so that its epilogue also sums the columns of dy, which is
// the gradient of b.
func (l *Linear) Grad(p *Pass, dy, x device.Mat) {
	if !l.W.Grad.IsSet() {
		return
	}
	ep := device.Epilogue{Add: true}
	if l.B != nil {
		ep.SumA = l.B.Grad
	}
	p.Dev.Gemm(device.TN, l.W.Grad, dy, x, ep)
}

// InputGrad computes the gradient of the input, dx = dy W, with an epilogue.
func (l *Linear) InputGrad(p *Pass, dx, dy device.Mat, ep device.Epilogue) {
	p.Dev.Gemm(device.NN, dx, dy, l.W.Value, ep)
}

// Backward is Grad, and returns the gradient of x in new memory.
func (l *Linear) Backward(p *Pass, dy, x device.Mat) device.Mat {
	l.Grad(p, dy, x)
	dx := p.Activations(x.Rows, x.Cols)
	l.InputGrad(p, dx, dy, device.Epilogue{})
	return dx
}

// forwardOrIdentity is Forward, or returns x if l is nil.
func (l *Linear) forwardOrIdentity(p *Pass, x device.Mat) device.Mat {
	if l == nil {
		return x
	}
	return l.Forward(p, x)
}

// backwardOrIdentity is Backward with a float32 result instead of one in the type of
// activations, or returns dy if l is nil.
func (l *Linear) backwardOrIdentity(p *Pass, dy, x device.Mat) device.Mat {
	if l == nil {
		return dy
	}
	l.Grad(p, dy, x)
	dx := p.Mat(x.Rows, x.Cols)
	l.InputGrad(p, dx, dy, device.Epilogue{})
	return dx
}

// MLP is a Linear, a non-linearity and a second Linear. If Drop > 0, dropout follows
// the non-linearity (mask Site) and the output (mask Site+1).
type MLP struct {
	In, Out *Linear
	Act     device.Act
	Drop    float64
	Site    int

	// What the last Into saved for Backward: the input, the hidden layer before Act,
	// which the derivative of Act needs, and after it.
	x, pre, h device.Mat
}

// Into computes dst from x. ep is the epilogue of the second layer, applied after the
// output's dropout.
func (m *MLP) Into(p *Pass, dst, x device.Mat, ep device.Epilogue) {
	m.x, m.pre = x, device.Mat{}
	if p.saves() {
		m.pre = p.Activations(x.Rows, m.In.Out())
	}
	m.h = p.Activations(x.Rows, m.In.Out())
	m.In.Into(p, m.h, x, device.Epilogue{Act: m.Act, Pre: m.pre, Drop: p.Dropout(m.Site, m.Drop)})
	ep.Drop = p.Dropout(m.Site+1, m.Drop)
	m.Out.Into(p, dst, m.h, ep)
}

// Forward returns the output in new memory.
func (m *MLP) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, m.Out.Out())
	m.Into(p, y, x, device.Epilogue{})
	return y
}

// BackwardInto adds the gradients of the parameters, and writes the gradient of x to
// dx, or adds it if add is true. With dropout it overwrites dy.
func (m *MLP) BackwardInto(p *Pass, dx, dy device.Mat, add bool) {
	p.drop(dy, p.Dropout(m.Site+1, m.Drop))
	m.Out.Grad(p, dy, m.h)
	dh := p.Activations(m.h.Rows, m.h.Cols)
	m.Out.InputGrad(p, dh, dy, device.Epilogue{Act: m.Act, Grad: m.pre, Drop: p.Dropout(m.Site, m.Drop)})
	m.In.Grad(p, dh, m.x)
	m.In.InputGrad(p, dx, dh, device.Epilogue{Add: add})
}

// Backward is BackwardInto with new memory for the gradient of x, which it returns.
func (m *MLP) Backward(p *Pass, dy device.Mat) device.Mat {
	dx := p.Activations(m.x.Rows, m.x.Cols)
	m.BackwardInto(p, dx, dy, false)
	return dx
}
