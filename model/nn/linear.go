package nn

import "scalewm/model/device"

// Linear is y = x W^T + b, W stored (out, in). It saves nothing for its
// backward pass: the caller gives the input again.
type Linear struct {
	W, B *Param // B nil: no bias
}

// NewLinear declares name.weight and name.bias.
func NewLinear(s *Set, name string, in, out int, init Inits) *Linear {
	l := &Linear{W: s.Param(name+".weight", out, in, init.Weight)}
	if init.Bias != nil {
		l.B = s.Vector(name+".bias", out, init.Bias)
	}
	return l
}

// Out is the width of the result.
func (l *Linear) Out() int { return l.W.rows }

// Into computes dst from x with an epilogue, whose Bias it sets.
func (l *Linear) Into(p *Pass, dst, x device.Mat, ep device.Epilogue) {
	if l.B != nil {
		ep.Bias = l.B.Value
	}
	p.Dev.Gemm(device.NT, dst, x, l.W.Value, ep)
}

// Forward is Into new memory.
func (l *Linear) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, l.Out())
	l.Into(p, y, x, device.Epilogue{})
	return y
}

// activations is Forward into memory that products read.
func (l *Linear) activations(p *Pass, x device.Mat) device.Mat {
	y := p.Activations(x.Rows, l.Out())
	l.Into(p, y, x, device.Epilogue{})
	return y
}

// rows is the layer that computes only the outputs [first, first+n).
func (l *Linear) rows(first, n int) *Linear {
	part := func(p *Param, of func(device.Mat) device.Mat) *Param {
		s := &Param{rows: n}
		s.Value = of(p.Value)
		if p.Grad.Given() {
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

// Grad adds the gradients of W and b, where the set has some.
func (l *Linear) Grad(p *Pass, dy, x device.Mat) {
	if !l.W.Grad.Given() {
		return
	}
	ep := device.Epilogue{Add: true}
	if l.B != nil {
		ep.SumA = l.B.Grad
	}
	p.Dev.Gemm(device.TN, l.W.Grad, dy, x, ep)
}

// InputGrad writes the gradient of the input.
func (l *Linear) InputGrad(p *Pass, dx, dy device.Mat, ep device.Epilogue) {
	p.Dev.Gemm(device.NN, dx, dy, l.W.Value, ep)
}

// Backward is Grad, and the gradient of x in new memory.
func (l *Linear) Backward(p *Pass, dy, x device.Mat) device.Mat {
	l.Grad(p, dy, x)
	dx := p.Activations(x.Rows, x.Cols)
	l.InputGrad(p, dx, dy, device.Epilogue{})
	return dx
}

// through is Forward, or x where there is no layer.
func (l *Linear) through(p *Pass, x device.Mat) device.Mat {
	if l == nil {
		return x
	}
	return l.Forward(p, x)
}

// back is Backward to float32, or dy where there is no layer.
func (l *Linear) back(p *Pass, dy, x device.Mat) device.Mat {
	if l == nil {
		return dy
	}
	l.Grad(p, dy, x)
	dx := p.Mat(x.Rows, x.Cols)
	l.InputGrad(p, dx, dy, device.Epilogue{})
	return dx
}

// MLP is Linear, a non-linearity, Linear; with Drop > 0 dropout follows the
// non-linearity (mask Site) and the output (Site+1).
type MLP struct {
	In, Out *Linear
	Act     device.Act
	Drop    float64
	Site    int

	x, pre, h device.Mat
}

// Into computes dst from x; ep is what happens to the result after its dropout.
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

// Forward is Into new memory.
func (m *MLP) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, m.Out.Out())
	m.Into(p, y, x, device.Epilogue{})
	return y
}

// BackwardInto adds the parameters' gradients and writes (or adds) that of x.
// With dropout dy is changed.
func (m *MLP) BackwardInto(p *Pass, dx, dy device.Mat, add bool) {
	p.drop(dy, p.Dropout(m.Site+1, m.Drop))
	m.Out.Grad(p, dy, m.h)
	dh := p.Activations(m.h.Rows, m.h.Cols)
	m.Out.InputGrad(p, dh, dy, device.Epilogue{Act: m.Act, Grad: m.pre, Drop: p.Dropout(m.Site, m.Drop)})
	m.In.Grad(p, dh, m.x)
	m.In.InputGrad(p, dx, dh, device.Epilogue{Add: add})
}

// Backward is BackwardInto new memory.
func (m *MLP) Backward(p *Pass, dy device.Mat) device.Mat {
	dx := p.Activations(m.x.Rows, m.x.Cols)
	m.BackwardInto(p, dx, dy, false)
	return dx
}
