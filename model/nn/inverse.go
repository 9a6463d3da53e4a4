package nn

import (
	"fmt"
	"math"

	"scalewm/model/device"
)

// InverseConfig is the geometry of an Inverse: Layers layers of Width columns over two
// latents of Dim numbers, and Out numbers per action. Horizon is the largest number of
// steps that it distinguishes.
type InverseConfig struct {
	Dim, Width, Layers, Out, Horizon int
	Dropout                          float64
}

// sinusoids is the number of columns that describe a number of steps.
const sinusoids = 64

// Inverse is the network of GC-IDM (docs/sources.md#gc-idm): layers over the latents of
// a frame and of a goal, whose output is scaled and shifted by functions of the number
// of steps left, and a linear head.
//
// Scales and shifts depend on the number of steps alone, of which there are Horizon+1.
// They are therefore computed once for each number instead of once for each row, and
// every row selects its own by the product with a matrix of zeros and ones.
type Inverse struct {
	cfg    InverseConfig
	steps  *Param // (Horizon+1) x 1: 0, 1, 2, ...
	waves  *Param // (Horizon+1) x sinusoids
	cached *Param // (Horizon+1) x 2*Width: the modulations that Acting computes

	horizon *MLP
	layers  []*inverseLayer
	ada     *Linear // to scale|shift
	head    *Linear

	// Saved for Backward: the result of horizon, the selection n x (Horizon+1), the last
	// layer's output, its scales, and the input of head.
	hidden, chosen, h, scale, y device.Mat
}

// inverseLayer is a Linear, a LayerNorm, GELU and dropout.
type inverseLayer struct {
	linear *Linear
	norm   *LayerNorm
	x, pre device.Mat // saved for Backward: the input, and the norm's output
}

// NewInverse declares the layers' tensors in s, with names that begin with name.
func NewInverse(s *Set, name string, c InverseConfig) *Inverse {
	kaiming := func(in int) Inits { return Inits{Normal(math.Sqrt(2 / float64(in))), Const(0)} }
	v, w := &Inverse{cfg: c}, c.Width
	v.steps = s.Constant(c.Horizon+1, 1, func(n, _ int) float64 { return float64(n) })
	v.waves = s.Constant(c.Horizon+1, sinusoids, c.wave)
	v.cached = s.Constant(c.Horizon+1, 2*w, func(int, int) float64 { return 0 })
	v.horizon = &MLP{In: NewLinear(s, name+"horizon_embed.0", sinusoids, w, kaiming(sinusoids)), Out: NewLinear(s, name+"horizon_embed.2", w, w, kaiming(w)), Act: device.GELU}
	in := 2 * c.Dim
	for i := range c.Layers {
		// The reference implementation counts GELU and dropout too.
		v.layers = append(v.layers, &inverseLayer{linear: NewLinear(s, fmt.Sprintf("%sbackbone.%d", name, 4*i), in, w, kaiming(in)),
			norm: NewLayerNorm(s, fmt.Sprintf("%sbackbone.%d", name, 4*i+1), w, innerEps)})
		in = w
	}
	parts := []string{"ada_scale", "ada_shift"}
	var weights, biases []*Param
	for _, part := range parts {
		weights = append(weights, s.Param(name+part+".weight", w, w, Const(0)))
	}
	for _, part := range parts {
		biases = append(biases, s.Vector(name+part+".bias", w, Const(0)))
	}
	v.ada = &Linear{s.Join(2*w, w, weights...), s.Join(1, 2*w, biases...)}
	v.head = NewLinear(s, name+"head", w, c.Out, Inits{Normal(0.01), Const(0)})
	return v
}

// wave returns column i of the sinusoids of n steps: sines, then cosines, of
// n/Horizon at geometrically falling frequencies.
func (c InverseConfig) wave(n, i int) float64 {
	const half = sinusoids / 2
	at := float64(n) / float64(c.Horizon) * math.Exp(-math.Log(10000)*float64(i%half)/half)
	if i < half {
		return math.Sin(at)
	}
	return math.Cos(at)
}

// Forward returns the actions, n x Out, from the latents z and goal, n x Dim, and the
// integer numbers of steps left, n x 1. Those above Horizon count as Horizon.
func (v *Inverse) Forward(p *Pass, z, goal, left device.Mat) device.Mat {
	return v.forward(p, z, goal, left, v.modulations(p))
}

// Acting returns Forward for weights that do not change any more: it computes the
// modulations once.
func (v *Inverse) Acting(p *Pass) func(p *Pass, z, goal, left device.Mat) device.Mat {
	p.Dev.Copy(v.cached.Value, v.modulations(p))
	return func(p *Pass, z, goal, left device.Mat) device.Mat {
		return v.forward(p, z, goal, left, v.cached.Value)
	}
}

// modulations returns the scales and shifts of all numbers of steps,
// (Horizon+1) x 2*Width.
func (v *Inverse) modulations(p *Pass) device.Mat {
	v.hidden = v.horizon.Forward(p, v.waves.Value)
	return v.ada.Forward(p, v.hidden)
}

// forward is Forward with the given modulations.
func (v *Inverse) forward(p *Pass, z, goal, left, modulations device.Mat) device.Mat {
	x := p.Mat(z.Rows, 2*z.Cols)
	first, second := split(x, z.Cols)
	p.Dev.Copy(first, z)
	p.Dev.Copy(second, goal)
	for i, l := range v.layers {
		x = l.forward(p, x, v.dropout(p, i))
	}
	scales, shifts := split(modulations, v.cfg.Width)
	v.chosen, v.h = v.choose(p, left), x
	v.scale, v.y = p.saved(x.Rows, x.Cols), p.Mat(x.Rows, x.Cols)
	// y = h + shift + scale*h
	p.Dev.Copy(v.y, x)
	p.Dev.Gemm(device.NN, v.y, v.chosen, shifts, device.Epilogue{Add: true})
	p.Dev.Gemm(device.NN, v.y, v.chosen, scales, device.Epilogue{Gate: x, Ungated: v.scale, Add: true})
	return v.head.Forward(p, v.y)
}

// dropout returns the dropout of layer i.
func (v *Inverse) dropout(p *Pass, i int) device.Dropout { return p.Dropout(i, v.cfg.Dropout) }

// choose returns the matrix, n x (Horizon+1), whose row i is 1 in column left[i] and 0
// elsewhere: max(0, 1 - (left - column)^2).
func (v *Inverse) choose(p *Pass, left device.Mat) device.Mat {
	steps, n, all := v.steps.Value, left.Rows, v.steps.Value.Rows
	at, columns := p.Mat(n, 1), p.Mat(n*all, 1)
	p.Dev.Copy(at, left)
	p.Dev.Clip(at, steps.RowRange(0, 1), steps.RowRange(all-1, 1))
	p.Dev.CopyBlocks(columns, all, steps, 0, all, false)
	off, chosen := p.Mat(n, all), p.Mat(n, all)
	p.Dev.LatentCost(off, columns, at, false)
	p.Dev.Fill(chosen, 1)
	p.Dev.Axpy(chosen, -1, off)
	p.Dev.Activate(chosen, chosen, device.ReLU)
	return chosen
}

// Backward adds the gradients of the parameters. Nothing needs those of the latents,
// which are constants in training.
func (v *Inverse) Backward(p *Pass, dy device.Mat) {
	n, w := dy.Rows, v.cfg.Width
	v.head.Grad(p, dy, v.y)
	dmodulated, dh, each := p.Mat(n, w), p.Mat(n, w), p.Mat(n, 2*w)
	v.head.InputGrad(p, dmodulated, dy, device.Epilogue{})
	dscale, dshift := split(each, w)
	p.Dev.ModulateGrad(dh, dscale, dshift, dmodulated, v.h, v.scale)
	all := p.Mat(v.chosen.Cols, 2*w)
	p.Dev.Gemm(device.TN, all, v.chosen, each, device.Epilogue{})
	v.horizon.Backward(p, v.ada.Backward(p, all, v.hidden))

	last := len(v.layers) - 1
	p.drop(dh, v.dropout(p, last))
	p.Dev.ActivateGrad(dh, dh, v.layers[last].pre, device.GELU)
	for i := last; i >= 0; i-- {
		l := v.layers[i]
		l.norm.BackwardInto(p, dh, dh, false)
		l.linear.Grad(p, dh, l.x)
		if i > 0 {
			before := p.Mat(n, w)
			l.linear.InputGrad(p, before, dh, device.Epilogue{Act: device.GELU, Grad: v.layers[i-1].pre, Drop: v.dropout(p, i-1)})
			dh = before
		}
	}
}

// forward returns the layer's output for x.
func (l *inverseLayer) forward(p *Pass, x device.Mat, drop device.Dropout) device.Mat {
	l.x = x
	l.pre = l.linear.Forward(p, x)
	l.norm.Into(p, l.pre, l.pre)
	h := p.Mat(l.pre.Rows, l.pre.Cols)
	p.Dev.Activate(h, l.pre, device.GELU)
	p.drop(h, drop)
	return h
}
