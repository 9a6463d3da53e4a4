package nn

import "scalewm/model/device"

// Embedder turns action blocks into conditions (lewm-spec 1.4): a convolution of
// kernel 1, which is a Linear by step, then an MLP with SiLU.
type Embedder struct {
	conv *Linear
	mlp  *MLP

	x device.Mat
}

// NewEmbedder declares the tensors under name; the hidden width is 4 out.
func NewEmbedder(s *Set, name string, in, smoothed, out int) *Embedder {
	init := FanIn(in)
	e := &Embedder{conv: &Linear{
		W: s.Param(name+".patch_embed.weight", smoothed, in, init.Weight, smoothed, in, 1),
		B: s.Vector(name+".patch_embed.bias", smoothed, init.Bias),
	}}
	e.mlp = &MLP{In: NewLinear(s, name+".embed.0", smoothed, 4*out, FanIn(smoothed)),
		Out: NewLinear(s, name+".embed.2", 4*out, out, FanIn(4*out)), Act: device.SiLU}
	return e
}

// Forward embeds the rows of x, N x A, as N x D.
func (e *Embedder) Forward(p *Pass, x device.Mat) device.Mat {
	e.x = x
	return e.mlp.Forward(p, e.conv.Forward(p, x))
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
