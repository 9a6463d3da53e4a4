package geometry

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Settings of the probe with a hidden layer, as in the authors' code: one layer of
// ReLUs, Adam, and 30 epochs with batches of 1,024. A batch holds all 750 samples, so
// that an epoch is one step.
const (
	Hidden   = 256 // width of the hidden layer
	mlpSteps = 30
	mlpRate  = 1e-3 // learning rate
)

// Layer holds the weights (Out x In, row-major) and biases of a linear layer.
type Layer struct {
	W, B    []float32
	In, Out int
}

// DefaultLayers returns the two layers of a probe with the initial values of
// PyTorch's nn.Linear: uniform in +-1/sqrt(inputs), drawn in the order weights,
// biases of the first layer, then of the second. uniform fills its slice with numbers
// between from and to.
func DefaultLayers(in, out int, uniform func(dst []float32, from, to float64)) [2]Layer {
	var l [2]Layer
	for i, size := range [][2]int{{in, Hidden}, {Hidden, out}} {
		l[i] = Layer{W: make([]float32, size[0]*size[1]), B: make([]float32, size[1]), In: size[0], Out: size[1]}
		bound := 1 / math.Sqrt(float64(size[0]))
		uniform(l[i].W, -bound, bound)
		uniform(l[i].B, -bound, bound)
	}
	return l
}

// MLP trains a probe from the given initial layers. It predicts the standardised q
// from all components, on the first half of the samples in order, and returns R2 for
// each component of q on the second half, as Linear does. The scores are divided by a
// single number, their standard deviation in the first half, so that their relative
// scale is preserved.
func (c Components) MLP(q Samples[float64], order []int, layers [2]Layer) (r2 []float64, err error) {
	half, k := len(order)/2, len(c.Eigenvalues)
	x, y := c.ordered(order, 0, k), targets(q, order)
	x.Scale(1/deviation(x.RawMatrix().Data[:half*k]), x)
	net, err := trainMLP(float32Rows(x, 0, half), float32Rows(y, 0, half), layers)
	if err != nil {
		return nil, fmt.Errorf("training the probe with a hidden layer: %w", err)
	}
	guess := net.predict(float32Rows(x, half, len(order)))
	r2 = make([]float64, q.D)
	for j := range r2 {
		r2[j] = rSquared(mat.Col(nil, j, y.Slice(half, len(order), 0, q.D)), mat.Col(nil, j, guess))
	}
	return r2, nil
}

// deviation returns the standard deviation (divisor n) of all numbers.
func deviation(x []float64) float64 {
	var mean, variance float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return math.Sqrt(variance)
}

// float32Rows returns rows [from, to) of m in float32, the precision of the training.
func float32Rows(m *mat.Dense, from, to int) *tensor.Dense {
	_, cols := m.Dims()
	v := make([]float32, 0, (to-from)*cols)
	for i := from; i < to; i++ {
		for _, x := range m.RawRowView(i) {
			v = append(v, float32(x))
		}
	}
	return tensor.New(tensor.WithShape(to-from, cols), tensor.WithBacking(v))
}

// mlp is the trained probe. Weights are inputs x outputs, and biases are rows.
type mlp struct{ w1, b1, w2, b2 *tensor.Dense }

// trainMLP performs mlpSteps steps of Adam on the mean squared error.
func trainMLP(x, y *tensor.Dense, layers [2]Layer) (net mlp, err error) {
	g := G.NewGraph()
	constant := func(name string, t *tensor.Dense) *G.Node {
		return G.NewMatrix(g, tensor.Float32, G.WithShape(t.Shape()...), G.WithName(name), G.WithValue(t))
	}
	net = mlp{transposed(layers[0]), biases(layers[0]), transposed(layers[1]), biases(layers[1])}
	learnt := G.Nodes{constant("w1", net.w1), constant("b1", net.b1), constant("w2", net.w2), constant("b2", net.b2)}
	cost, err := squaredError(constant("x", x), constant("y", y), learnt)
	if err != nil {
		return net, err
	}
	if _, err = G.Grad(cost, learnt...); err != nil {
		return net, err
	}
	machine := G.NewTapeMachine(g, G.BindDualValues(learnt...))
	defer machine.Close()
	adam := G.NewAdamSolver(G.WithLearnRate(mlpRate), G.WithBeta1(0.9), G.WithBeta2(0.999), G.WithEps(1e-8))
	for range mlpSteps {
		if err = machine.RunAll(); err != nil {
			return net, err
		}
		if err = adam.Step(G.NodesToValueGrads(learnt)); err != nil {
			return net, err
		}
		machine.Reset()
	}
	for i, t := range []**tensor.Dense{&net.w1, &net.b1, &net.w2, &net.b2} {
		*t = learnt[i].Value().(*tensor.Dense)
	}
	return net, nil
}

// squaredError returns the mean of (MLP(x) - y)^2 over samples and components. Biases
// are added as a matrix product with a column of ones, since Gorgonia does not
// broadcast rows in Add.
func squaredError(x, y *G.Node, learnt G.Nodes) (cost *G.Node, err error) {
	ones := tensor.Ones(tensor.Float32, x.Shape()[0], 1)
	one := G.NewMatrix(x.Graph(), tensor.Float32, G.WithShape(ones.Shape()...), G.WithName("ones"), G.WithValue(ones))
	// try keeps the first error, so that the expressions below can be nested.
	try := func(n *G.Node, e error) *G.Node {
		if err == nil {
			err = e
		}
		return n
	}
	linear := func(x, w, b *G.Node) *G.Node {
		return try(G.Add(try(G.Mul(x, w)), try(G.Mul(one, b))))
	}
	hidden := try(G.Rectify(linear(x, learnt[0], learnt[1])))
	difference := try(G.Sub(linear(hidden, learnt[2], learnt[3]), y))
	cost = try(G.Mean(try(G.Square(difference))))
	return cost, err
}

// transposed returns a layer's weights as In x Out.
func transposed(l Layer) *tensor.Dense {
	w := make([]float32, len(l.W))
	for o := range l.Out {
		for i := range l.In {
			w[i*l.Out+o] = l.W[o*l.In+i]
		}
	}
	return tensor.New(tensor.WithShape(l.In, l.Out), tensor.WithBacking(w))
}

// biases returns a copy of a layer's biases as a row.
func biases(l Layer) *tensor.Dense {
	return tensor.New(tensor.WithShape(1, l.Out), tensor.WithBacking(append([]float32(nil), l.B...)))
}

// predict applies the probe, in float64.
func (n mlp) predict(x *tensor.Dense) *mat.Dense {
	hidden := linear(toFloat64(x), n.w1, n.b1)
	hidden.Apply(func(_, _ int, v float64) float64 { return max(0, v) }, hidden)
	return linear(hidden, n.w2, n.b2)
}

// linear returns x*w + b.
func linear(x *mat.Dense, w, b *tensor.Dense) *mat.Dense {
	var out mat.Dense
	out.Mul(x, toFloat64(w))
	bias := toFloat64(b)
	out.Apply(func(_, j int, v float64) float64 { return v + bias.At(0, j) }, &out)
	return &out
}

// toFloat64 returns t as a matrix of float64.
func toFloat64(t *tensor.Dense) *mat.Dense {
	m := mat.NewDense(t.Shape()[0], t.Shape()[1], nil)
	for i, v := range t.Data().([]float32) {
		m.RawMatrix().Data[i] = float64(v)
	}
	return m
}
