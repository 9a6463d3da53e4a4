package nn

import "scalewm/model/device"

// Embedder maps action blocks to conditions of the predictor
// (docs/sources.md#action-encoder): a convolution of kernel size 1, then an MLP with
// SiLU.
type Embedder struct {
	conv *Linear
	mlp  *MLP

	// x is the input of the last Into, for Backward.
	x device.Mat
}

// EmbedderConfig is the geometry of an Embedder: In is A, the width of an action
// block, Smoothed the number of channels of the convolution, Hidden the width of the
// MLP's hidden layer, and Out is D.
type EmbedderConfig struct{ In, Smoothed, Hidden, Out int }

// NewEmbedder declares the layers' tensors in s, with names that begin with name.
func NewEmbedder(s *Set, name string, c EmbedderConfig) *Embedder {
	e := &Embedder{conv: NewConv(s, name+".patch_embed", c.In, c.Smoothed)}
	e.mlp = &MLP{In: NewLinear(s, name+".embed.0", c.Smoothed, c.Hidden, FanIn(c.Smoothed)),
		Out: NewLinear(s, name+".embed.2", c.Hidden, c.Out, FanIn(c.Hidden)), Act: device.SiLU}
	return e
}

// NewConv declares a 1-D convolution of kernel size 1. It is the same linear layer at
// every step, and only the shape of its stored weight, out x in x 1, differs from
// that of a Linear.
func NewConv(s *Set, name string, in, out int) *Linear {
	init := FanIn(in)
	return &Linear{W: s.Param(name+".weight", out, in, init.Weight, out, in, 1), B: s.Vector(name+".bias", out, init.Bias)}
}

// Forward embeds action blocks x, N x A, and returns N x D.
func (e *Embedder) Forward(p *Pass, x device.Mat) device.Mat {
	y := p.Mat(x.Rows, e.mlp.Out.Out())
	e.Into(p, y, x, device.Epilogue{})
	return y
}

// Into is Forward with a destination. ep is the epilogue of the last layer.
func (e *Embedder) Into(p *Pass, dst, x device.Mat, ep device.Epilogue) {
	e.x = x
	e.mlp.Into(p, dst, e.conv.Forward(p, x), ep)
}

// Backward adds the gradients of the parameters. In training nothing needs those of
// the actions.
func (e *Embedder) Backward(p *Pass, dy device.Mat) {
	e.conv.Grad(p, e.mlp.Backward(p, dy), e.x)
}

// BackwardInto is Backward that also writes the gradient of the actions, N x A, to
// dx. Planners by gradient descent need it.
func (e *Embedder) BackwardInto(p *Pass, dx, dy device.Mat) {
	d := e.mlp.Backward(p, dy)
	e.conv.Grad(p, d, e.x)
	e.conv.InputGrad(p, dx, d, device.Epilogue{})
}
