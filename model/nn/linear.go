package nn

import "scalewm/model/device"

// Linear is y = x W^T + b, W stored (out, in). It keeps nothing: who uses it
// knows its input.
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

// Grad adds the gradients of W and b.
func (l *Linear) Grad(p *Pass, dy, x device.Mat) {
	p.Dev.Gemm(device.TN, l.W.Grad, dy, x, device.Epilogue{Add: true})
	if l.B != nil {
		p.Dev.SumTable(l.B.Grad, dy)
	}
}

// InputGrad writes (or adds) the gradient of the input.
func (l *Linear) InputGrad(p *Pass, dx, dy device.Mat, add bool) {
	p.Dev.Gemm(device.NN, dx, dy, l.W.Value, device.Epilogue{Add: add})
}

// Backward is Grad, and the gradient of x in new memory.
func (l *Linear) Backward(p *Pass, dy, x device.Mat) device.Mat {
	l.Grad(p, dy, x)
	dx := p.Mat(x.Rows, x.Cols)
	l.InputGrad(p, dx, dy, false)
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

// Into writes (or adds) the result for x to dst. With dropout it must not add.
func (m *MLP) Into(p *Pass, dst, x device.Mat, add bool) {
	m.x, m.pre = x, p.kept(x.Rows, m.In.Out())
	m.h = p.Mat(x.Rows, m.In.Out())
	m.In.Into(p, m.h, x, device.Epilogue{Act: m.Act, Pre: m.pre})
	p.drop(m.h, p.Dropout(m.Site, m.Drop))
	m.Out.Into(p, dst, m.h, device.Epilogue{Add: add})
	p.drop(dst, p.Dropout(m.Site+1, m.Drop))
}

// Forward is Into new memory.
func (m *MLP) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, m.Out.Out())
	m.Into(p, y, x, false)
	return y
}

// Backward adds the parameters' gradients and returns that of x. With dropout
// dy is changed.
func (m *MLP) Backward(p *Pass, dy device.Mat) device.Mat {
	p.drop(dy, p.Dropout(m.Site+1, m.Drop))
	dh := m.Out.Backward(p, dy, m.h)
	p.drop(dh, p.Dropout(m.Site, m.Drop))
	p.Dev.ActivateGrad(dh, dh, m.pre, m.Act)
	return m.In.Backward(p, dh, m.x)
}
