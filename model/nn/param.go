// Package nn provides the layers of the models. Each layer has a forward and a
// backward pass, written once on the kernels of a device.Device.
//
// A model declares its tensors in a Set, which then allocates all of them: parameters
// and gradients are two flat rows, so that one kernel call updates or clears all of
// them. Each layer's constructor takes the Set and a name.
//
// A Pass is one run through a model. Layers allocate their results, and what their
// backward pass needs, in its arena. A layer remembers these matrices in its own
// fields from Forward to Backward, so that a layer instance can be used once per
// pass, and by one goroutine at a time.
//
// Besides plain layers (Linear, MLP, LayerNorm, Attention) the package has the blocks
// of the families: ViT, the encoder; Predictor, the AdaLN transformer of LeWM;
// Causal, the transformer of DINO-WM; Projector and Embedder. It does not depend on
// families, losses or file formats.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/model/device"
)

// Init draws the initial values of a parameter from r, a stream for this parameter
// alone.
type Init func(r *rand.Rand, dst []float32)

// Const returns an Init that sets all values to v and draws nothing.
func Const(v float32) Init {
	return func(_ *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = v
		}
	}
}

// Normal returns an Init that draws from N(0, std^2).
func Normal(std float64) Init {
	return func(r *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = float32(std * r.NormFloat64())
		}
	}
}

// Uniform returns an Init that draws from the uniform distribution on [-bound,
// bound).
func Uniform(bound float64) Init {
	return func(r *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = float32(bound * (2*r.Float64() - 1))
		}
	}
}

// Inits are the initial values of a linear layer. If Bias is nil the layer has no
// bias.
type Inits struct{ Weight, Bias Init }

// FanIn returns PyTorch's default for a linear layer with in inputs: weight and bias
// uniform in [-1/sqrt(in), 1/sqrt(in)).
func FanIn(in int) Inits {
	u := Uniform(1 / math.Sqrt(float64(in)))
	return Inits{u, u}
}

// Param is a named tensor of a model. Value and Grad are rows x cols views of the
// Set's flat rows. Grad is the zero Mat outside training, and for buffers always.
type Param struct {
	Name string
	// Shape is the tensor's shape in files. It may have more dimensions than Value,
	// but the same number of elements in the same order.
	Shape       []int
	Value, Grad device.Mat

	// off is the index of the first number in the flat row.
	off, rows, cols int
	init            Init
}

// Len returns the number of elements.
func (p *Param) Len() int { return p.rows * p.cols }

// Set holds the parameters of a model in declaration order, and its buffers: the
// running statistics of BatchNorm, which training updates but the optimiser does not.
type Set struct {
	Params, Buffers []*Param
	// Value and Grad are all parameters and their gradients, 1 x n.
	Value, Grad device.Mat

	// joined are the results of Join, which share the memory of Params. constants are
	// those of Constant, and n is the number of elements declared so far.
	joined    []*Param
	constants []*Param
	n         int
}

// Param declares a parameter of rows x cols. shape is its shape in files, rows x cols
// by default.
func (s *Set) Param(name string, rows, cols int, init Init, shape ...int) *Param {
	p := &Param{Name: name, Shape: shape, off: s.n, rows: rows, cols: cols, init: init}
	if len(shape) == 0 {
		p.Shape = []int{rows, cols}
	}
	s.n += p.Len()
	s.Params = append(s.Params, p)
	return p
}

// Vector declares a one-dimensional parameter of n numbers.
func (s *Set) Vector(name string, n int, init Init) *Param { return s.Param(name, 1, n, init, n) }

// Buffer declares n numbers that training updates without a gradient.
func (s *Set) Buffer(name string, n int, init Init) *Param {
	p := &Param{Name: name, Shape: []int{n}, rows: 1, cols: n, init: init}
	s.Buffers = append(s.Buffers, p)
	return p
}

// Constant declares rows x cols numbers that the reference implementation does not
// store, given by at. They are not initialised by Init, updated by the optimiser or
// written to files.
func (s *Set) Constant(rows, cols int, at func(row, col int) float64) *Param {
	p := &Param{rows: rows, cols: cols, init: func(_ *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = float32(at(i/cols, i%cols))
		}
	}}
	s.constants = append(s.constants, p)
	return p
}

// Eye returns a constant n x n identity matrix, the weight of a layer that the reference
// implementation does not have.
func (s *Set) Eye(n int) *Param {
	return s.Constant(n, n, func(row, col int) float64 {
		if row == col {
			return 1
		}
		return 0
	})
}

// Join returns a rows x cols parameter that covers ps, which must have been declared
// one after the other. Files name q, k and v separately. Joined, a single GEMM
// computes all three.
func (s *Set) Join(rows, cols int, ps ...*Param) *Param {
	end := ps[0].off
	for _, p := range ps {
		if p.off != end {
			panic(fmt.Sprintf("nn: %s does not follow its neighbour", p.Name))
		}
		end += p.Len()
	}
	if rows*cols != end-ps[0].off {
		panic(fmt.Sprintf("nn: %d numbers joined as %dx%d", end-ps[0].off, rows, cols))
	}
	j := &Param{Name: ps[0].Name, off: ps[0].off, rows: rows, cols: cols}
	s.joined = append(s.joined, j)
	return j
}

// Len returns the number of elements of all parameters.
func (s *Set) Len() int { return s.n }

// Alloc allocates the parameters and buffers, zeroed, and the constants, including gradients if train is
// true, and sets the views in all Params. No parameter may be declared after Alloc.
func (s *Set) Alloc(dev device.Device, train bool) {
	s.Value = device.NewMat(dev, 1, s.n)
	if train {
		s.Grad = device.NewMat(dev, 1, s.n)
	}
	for _, list := range [][]*Param{s.Params, s.joined} {
		for _, p := range list {
			p.Value = s.view(s.Value, p)
			if train {
				p.Grad = s.view(s.Grad, p)
			}
		}
	}
	for _, b := range s.Buffers {
		b.Value = device.NewMat(dev, 1, b.cols)
	}
	for _, c := range s.constants {
		c.Value = device.NewMat(dev, c.rows, c.cols)
		v := make([]float32, c.Len())
		c.init(nil, v)
		dev.Upload(c.Value, v)
	}
}

// view returns the part of a flat row that belongs to p.
func (s *Set) view(flat device.Mat, p *Param) device.Mat {
	return flat.Columns(p.off, p.Len()).Reshape(p.rows, p.cols)
}

// Init draws the initial values of all parameters and buffers. stream returns the
// stream of a parameter by its name, so that the values do not depend on what else
// the model declares.
func (s *Set) Init(dev device.Device, stream func(name string) *rand.Rand) {
	for _, list := range [][]*Param{s.Params, s.Buffers} {
		for _, p := range list {
			v := make([]float32, p.Len())
			p.init(stream(p.Name), v)
			dev.Upload(p.Value, v)
		}
	}
}

// Free releases the memory on dev.
func (s *Set) Free(dev device.Device) {
	dev.Free(s.Value.Buf)
	if s.Grad.IsSet() {
		dev.Free(s.Grad.Buf)
	}
	for _, list := range [][]*Param{s.Buffers, s.constants} {
		for _, b := range list {
			dev.Free(b.Value.Buf)
		}
	}
}
