package nn

import "scalewm/model/device"

// Embedder turns action blocks into conditions (docs/sources.md#action-encoder): a convolution of
// kernel 1, then an MLP with SiLU.
type Embedder struct {
	conv *Linear
	mlp  *MLP

	x device.Mat
}

// EmbedderConfig is the geometry of an Embedder: A, the convolution's width, the
// MLP's hidden width and D.
type EmbedderConfig struct{ In, Smoothed, Hidden, Out int }

// NewEmbedder declares the tensors under name.
func NewEmbedder(s *Set, name string, c EmbedderConfig) *Embedder {
	e := &Embedder{conv: NewConv(s, name+".patch_embed", c.In, c.Smoothed)}
	e.mlp = &MLP{In: NewLinear(s, name+".embed.0", c.Smoothed, c.Hidden, FanIn(c.Smoothed)),
		Out: NewLinear(s, name+".embed.2", c.Hidden, c.Out, FanIn(c.Hidden)), Act: device.SiLU}
	return e
}

// NewConv declares a convolution of kernel 1, which is a Linear by step.
func NewConv(s *Set, name string, in, out int) *Linear {
	init := FanIn(in)
	return &Linear{W: s.Param(name+".weight", out, in, init.Weight, out, in, 1), B: s.Vector(name+".bias", out, init.Bias)}
}

// Forward embeds the rows of x, N x A, as N x D.
func (e *Embedder) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, e.mlp.Out.Out())
	e.Into(p, y, x, device.Epilogue{})
	return y
}

// Into is Forward to dst; ep is what happens to the result.
func (e *Embedder) Into(p *Pass, dst, x device.Mat, ep device.Epilogue) {
	e.x = x
	e.mlp.Into(p, dst, e.conv.Forward(p, x), ep)
}

// Backward adds the parameters' gradients; the actions need none.
func (e *Embedder) Backward(p *Pass, dy device.Mat) {
	e.conv.Grad(p, e.mlp.Backward(p, dy), e.x)
}

// BackwardInto is Backward, and writes the gradient of the actions to dx.
func (e *Embedder) BackwardInto(p *Pass, dx, dy device.Mat) {
	d := e.mlp.Backward(p, dy)
	e.conv.Grad(p, d, e.x)
	e.conv.InputGrad(p, dx, d, device.Epilogue{})
}
