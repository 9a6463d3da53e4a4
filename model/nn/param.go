// Package nn holds the layers of the models, each with a forward and a backward
// pass, written once on the kernels of a device. A layer keeps what its
// backward pass needs in the step's arena; parameters and gradients live in one
// flat row per model, which is what the optimiser sees. It knows no model
// family, no loss and no file format.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/model/device"
)

// Init draws the initial values of a parameter from a stream of its own.
type Init func(r *rand.Rand, dst []float32)

// Const fills with one value and draws nothing.
func Const(v float32) Init {
	return func(_ *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = v
		}
	}
}

// Normal draws from N(0, std^2).
func Normal(std float64) Init {
	return func(r *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = float32(std * r.NormFloat64())
		}
	}
}

// Uniform draws from [-bound, bound).
func Uniform(bound float64) Init {
	return func(r *rand.Rand, dst []float32) {
		for i := range dst {
			dst[i] = float32(bound * (2*r.Float64() - 1))
		}
	}
}

// Inits are the initial values of a linear layer; without Bias it has none.
type Inits struct{ Weight, Bias Init }

// FanIn is PyTorch's default of a linear layer: weight and bias uniform in
// +-1/sqrt(in).
func FanIn(in int) Inits {
	u := Uniform(1 / math.Sqrt(float64(in)))
	return Inits{u, u}
}

// Param is a named tensor of a model. Value and Grad are views, Rows x Cols,
// of the set's flat rows; Grad is given in training only, and never for buffers.
type Param struct {
	Name        string
	Shape       []int // as stored in files
	Value, Grad device.Mat

	off, rows, cols int
	init            Init
}

// Len is the count of numbers.
func (p *Param) Len() int { return p.rows * p.cols }

// Set is all parameters of a model in declaration order, and its buffers (the
// running statistics of BatchNorm, which no optimiser touches).
type Set struct {
	Params, Buffers []*Param
	Value, Grad     device.Mat // 1 x n

	joined []*Param
	eyes   []*Param
	n      int
}

// Param declares a parameter of rows x cols; shape is its shape in files.
func (s *Set) Param(name string, rows, cols int, init Init, shape ...int) *Param {
	p := &Param{Name: name, Shape: shape, off: s.n, rows: rows, cols: cols, init: init}
	if len(shape) == 0 {
		p.Shape = []int{rows, cols}
	}
	s.n += p.Len()
	s.Params = append(s.Params, p)
	return p
}

// Vector declares a parameter of n numbers.
func (s *Set) Vector(name string, n int, init Init) *Param { return s.Param(name, 1, n, init, n) }

// Buffer declares n numbers that training updates without a gradient.
func (s *Set) Buffer(name string, n int, init Init) *Param {
	p := &Param{Name: name, Shape: []int{n}, rows: 1, cols: n, init: init}
	s.Buffers = append(s.Buffers, p)
	return p
}

// Eye is the identity matrix of n rows: a weight where there is none to learn,
// which no Init, optimiser or file sees.
func (s *Set) Eye(n int) *Param {
	p := &Param{rows: n, cols: n}
	s.eyes = append(s.eyes, p)
	return p
}

// Join sees parameters that were declared one after the other as one of
// rows x cols, so that separately named q, k and v are one product.
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

// Len is the count of numbers of all parameters.
func (s *Set) Len() int { return s.n }

// Alloc makes the memory, zeroed, with gradients if train.
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
	for _, e := range s.eyes {
		e.Value = device.NewMat(dev, e.rows, e.cols)
		// The diagonal is every (n+1)-th number.
		v := make([]float32, e.Len())
		for i := 0; i < len(v); i += e.cols + 1 {
			v[i] = 1
		}
		dev.Upload(e.Value, v)
	}
}

func (s *Set) view(flat device.Mat, p *Param) device.Mat {
	return flat.Columns(p.off, p.Len()).Reshape(p.rows, p.cols)
}

// Init draws all initial values; stream gives each parameter its own stream, so
// that what is declared elsewhere in the model does not change them.
func (s *Set) Init(dev device.Device, stream func(name string) *rand.Rand) {
	for _, list := range [][]*Param{s.Params, s.Buffers} {
		for _, p := range list {
			v := make([]float32, p.Len())
			p.init(stream(p.Name), v)
			dev.Upload(p.Value, v)
		}
	}
}

// Free gives the memory back.
func (s *Set) Free(dev device.Device) {
	dev.Free(s.Value.Buf)
	if s.Grad.Given() {
		dev.Free(s.Grad.Buf)
	}
	for _, list := range [][]*Param{s.Buffers, s.eyes} {
		for _, b := range list {
			dev.Free(b.Value.Buf)
		}
	}
}
