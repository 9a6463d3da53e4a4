package nn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
	"scalewm/model/objective"
)

// oracle states a formula a second time in Gorgonia, whose automatic differentiation then
// gives the expected gradients. It uses matrix products with constant matrices where the
// package uses views and sums, so that the tests depend on few operations of Gorgonia.
type oracle struct {
	*testing.T
	dev    device.Device
	g      *G.ExprGraph
	inputs []*G.Node
	grads  []device.Mat // this package's gradients of the same inputs
}

func newOracle(t *testing.T) *oracle { return &oracle{T: t, dev: ref.New(), g: G.NewGraph()} }

func (o *oracle) values(m device.Mat) []float64 {
	v := make([]float64, m.Len())
	o.dev.Download64(v, m)
	return v
}

func (o *oracle) matrix(rows, cols int, v []float64) *G.Node {
	return G.NewMatrix(o.g, tensor.Float64, G.WithShape(rows, cols), G.WithName(string(rune('a'+len(o.g.AllNodes())))+"x"),
		G.WithValue(tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(append([]float64(nil), v...)))))
}

// input adds a matrix whose gradient is compared with grad.
func (o *oracle) input(m, grad device.Mat) *G.Node {
	n := o.matrix(m.Rows, m.Cols, o.values(m))
	o.inputs, o.grads = append(o.inputs, n), append(o.grads, grad)
	return n
}

// fill returns a constant matrix.
func (o *oracle) fill(rows, cols int, f func(r, c int) float64) *G.Node {
	v := make([]float64, rows*cols)
	for i := range v {
		v[i] = f(i/cols, i%cols)
	}
	return o.matrix(rows, cols, v)
}

func (o *oracle) constant(rows, cols int, v float64) *G.Node {
	return o.fill(rows, cols, func(int, int) float64 { return v })
}

// columns returns columns [from, from+n) of x, by a matrix product.
func (o *oracle) columns(x *G.Node, from, n int) *G.Node {
	return mul(x, o.fill(x.Shape()[1], n, func(r, c int) float64 { return one(r == from+c) }))
}

// rows returns rows from, from+step, ... of x, by a matrix product.
func (o *oracle) rows(x *G.Node, from, step, n int) *G.Node {
	return mul(o.fill(n, x.Shape()[0], func(r, c int) float64 { return one(c == from+r*step) }), x)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func mul(a, b *G.Node) *G.Node   { return G.Must(G.Mul(a, b)) }
func add(a, b *G.Node) *G.Node   { return G.Must(G.Add(a, b)) }
func sub(a, b *G.Node) *G.Node   { return G.Must(G.Sub(a, b)) }
func times(a, b *G.Node) *G.Node { return G.Must(G.HadamardProd(a, b)) }
func over(a, b *G.Node) *G.Node  { return G.Must(G.HadamardDiv(a, b)) }
func flip(a *G.Node) *G.Node     { return G.Must(G.Transpose(a)) }

func (o *oracle) scale(x *G.Node, v float64) *G.Node {
	return times(x, o.constant(x.Shape()[0], x.Shape()[1], v))
}

func (o *oracle) shift(x *G.Node, v float64) *G.Node {
	return add(x, o.constant(x.Shape()[0], x.Shape()[1], v))
}

// spread repeats a row once for every row of like.
func (o *oracle) spread(row *G.Node, rows int) *G.Node { return mul(o.constant(rows, 1, 1), row) }

func (o *oracle) linear(x *G.Node, l *nn.Linear) *G.Node {
	y := mul(x, flip(o.input(l.W.Value, l.W.Grad)))
	if l.B != nil {
		y = add(y, o.spread(o.input(l.B.Value, l.B.Grad), x.Shape()[0]))
	}
	return y
}

// normal computes LayerNorm without its affine part.
func (o *oracle) normal(x *G.Node, eps float64) *G.Node {
	n := x.Shape()[1]
	mean := o.constant(n, n, 1/float64(n))
	d := sub(x, mul(x, mean))
	return over(d, G.Must(G.Sqrt(o.shift(mul(times(d, d), mean), eps))))
}

func (o *oracle) affine(x *G.Node, gamma, beta *nn.Param) *G.Node {
	rows := x.Shape()[0]
	return add(times(x, o.spread(o.input(gamma.Value, gamma.Grad), rows)), o.spread(o.input(beta.Value, beta.Grad), rows))
}

func (o *oracle) act(x *G.Node, act device.Act) *G.Node {
	switch act {
	case device.ReLU:
		return G.Must(G.Rectify(x))
	case device.SiLU:
		return times(x, G.Must(G.Sigmoid(x)))
	}
	o.Fatalf("no formula for activation %d", act)
	return nil
}

// attend computes softmax attention per sequence and head. Masked positions have
// weight 0.
func (o *oracle) attend(qkv *G.Node, s nn.Seqs, a *nn.Attention) *G.Node {
	width := a.Heads * a.Dim
	var out *G.Node
	for i := range s.Count {
		tokens := o.rows(qkv, i*s.Len, 1, s.Len)
		for h := range a.Heads {
			q, k, v := o.columns(tokens, h*a.Dim, a.Dim), o.columns(tokens, width+h*a.Dim, a.Dim), o.columns(tokens, 2*width+h*a.Dim, a.Dim)
			e := G.Must(G.Exp(o.scale(mul(q, flip(k)), 1/math.Sqrt(float64(a.Dim)))))
			if a.Block == 1 {
				e = times(e, o.fill(s.Len, s.Len, func(r, c int) float64 { return one(c <= r) }))
			}
			p := over(e, mul(e, o.constant(s.Len, s.Len, 1)))
			// Back to the rows of the sequence and the columns of the head.
			place := mul(mul(o.fill(s.Count*s.Len, s.Len, func(r, c int) float64 { return one(r == i*s.Len+c) }), mul(p, v)),
				o.fill(a.Dim, width, func(r, c int) float64 { return one(c == h*a.Dim+r) }))
			if out == nil {
				out = place
			} else {
				out = add(out, place)
			}
		}
	}
	return out
}

// compare evaluates sum(weight*y) and its gradients and compares them with this
// package's.
func (o *oracle) compare(y *G.Node, ours, weight []float64) {
	o.Helper()
	s := y.Shape()
	cost := G.Must(G.Sum(times(y, o.matrix(s[0], s[1], weight))))
	grads, err := G.Grad(cost, o.inputs...)
	if err != nil {
		o.Fatal(err)
	}
	var value G.Value
	G.Read(y, &value)
	vm := G.NewTapeMachine(o.g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		o.Fatal(err)
	}
	o.near("value", ours, data(value))
	for i, g := range grads {
		o.near(o.grads[i].String()+" gradient", o.values(o.grads[i]), data(g.Value()))
	}
}

func data(v G.Value) []float64 {
	if f, ok := v.Data().(float64); ok {
		return []float64{f}
	}
	return v.Data().([]float64)
}

func (o *oracle) near(what string, got, want []float64) {
	o.Helper()
	if len(got) != len(want) {
		o.Fatalf("%s: %d numbers, the oracle has %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i]))) {
			o.Errorf("%s %d: %.12g, the oracle has %.12g", what, i, got[i], want[i])
			return
		}
	}
}

func random(o *oracle, r *rand.Rand, rows, cols int) device.Mat {
	m := device.NewMat(o.dev, rows, cols)
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	o.dev.Upload64(m, v)
	return m
}

// prepare fills a set with random values and returns a pass to run it in.
func (o *oracle) prepare(s *nn.Set, r *rand.Rand) *nn.Pass {
	s.Alloc(o.dev, true)
	s.Init(o.dev, func(string) *rand.Rand { return r })
	v := o.values(s.Value)
	for i := range v {
		v[i] += 0.3 * r.NormFloat64()
	}
	o.dev.Upload64(s.Value, v)
	return &nn.Pass{Dev: o.dev, Arena: device.NewArena(o.dev), Train: true}
}

var inits = nn.Inits{Weight: nn.Normal(0.5), Bias: nn.Normal(0.5)}

func TestAutodiffMLP(t *testing.T) {
	for _, act := range []device.Act{device.ReLU, device.SiLU} {
		o, r := newOracle(t), rand.New(rand.NewPCG(1, uint64(act)))
		var s nn.Set
		m := &nn.MLP{In: nn.NewLinear(&s, "i", 4, 6, inits), Out: nn.NewLinear(&s, "o", 6, 3, inits), Act: act}
		p, x, w := o.prepare(&s, r), random(o, r, 5, 4), random(o, r, 5, 3)
		y, weight := o.values(m.Forward(p, x)), o.values(w)
		in := o.input(x, m.Backward(p, w))
		o.compare(o.linear(o.act(o.linear(in, m.In), act), m.Out), y, weight)
	}
}

func TestAutodiffLayerNorm(t *testing.T) {
	o, r := newOracle(t), rand.New(rand.NewPCG(2, 2))
	var s nn.Set
	l := nn.NewLayerNorm(&s, "n", 6, 1e-5)
	p, x, w := o.prepare(&s, r), random(o, r, 4, 6), random(o, r, 4, 6)
	y, dx := o.values(l.Forward(p, x)), p.Mat(4, 6)
	l.BackwardInto(p, dx, w, false)
	o.compare(o.affine(o.normal(o.input(x, dx), 1e-5), l.Gamma, l.Beta), y, o.values(w))
}

func TestAutodiffAttention(t *testing.T) {
	for block := range 2 {
		o, r := newOracle(t), rand.New(rand.NewPCG(3, uint64(block)))
		var s nn.Set
		a := &nn.Attention{QKV: nn.NewLinear(&s, "qkv", 4, 12, inits), Out: nn.NewLinear(&s, "o", 4, 4, inits), Heads: 2, Dim: 2, Block: block}
		seqs := nn.Seqs{Count: 2, Len: 3}
		p, x, w := o.prepare(&s, r), random(o, r, 6, 4), random(o, r, 6, 4)
		y := p.Mat(6, 4)
		a.Into(p, y, x, seqs, nn.All, device.Epilogue{})
		values, weight := o.values(y), o.values(w)
		in := o.input(x, a.Backward(p, w))
		o.compare(o.linear(o.attend(o.linear(in, a.QKV), seqs, a), a.Out), values, weight)
	}
}

func TestAutodiffAdaLN(t *testing.T) {
	o, r := newOracle(t), rand.New(rand.NewPCG(4, 4))
	var s nn.Set
	b := nn.NewAdaLNBlockForTest(&s, nn.PredictorConfig{Frames: 3, Dim: 4, Heads: 2, HeadDim: 3, MLP: 5}, device.SiLU)
	seqs := nn.Seqs{Count: 2, Len: 3}
	p, x, c, w := o.prepare(&s, r), random(o, r, 6, 4), random(o, r, 6, 4), random(o, r, 6, 4)
	weight, in := o.values(w), p.Mat(6, 4)
	o.dev.Copy(in, x)
	b.Forward(p, in, c, seqs, nn.All)
	dc := p.Zero(6, 4)
	b.Backward(p, w, dc)

	param := func(i int) *nn.Param { return s.Params[i] }
	layer := func(i int) *nn.Linear { return &nn.Linear{W: param(i), B: param(i + 1)} }
	// In declaration order: attention norm, qkv, out; MLP norm, in, out; modulation.
	xs, cs := o.input(x, w), o.input(c, dc) // the block changed w into the gradient of x
	mod := o.linear(cs, layer(11))
	half := func(i int) (shift, scale, gate *G.Node) {
		return o.columns(mod, 12*i, 4), o.columns(mod, 12*i+4, 4), o.columns(mod, 12*i+8, 4)
	}
	shift, scale, gate := half(0)
	h := add(times(o.normal(xs, 1e-6), o.shift(scale, 1)), shift)
	h = o.affine(o.normal(h, 1e-5), param(0), param(1))
	att := &nn.Attention{Heads: 2, Dim: 3, Block: 1}
	h = o.linear(o.attend(o.linear(h, &nn.Linear{W: param(2)}), seqs, att), layer(3))
	xs = add(xs, times(gate, h))
	shift, scale, gate = half(1)
	h = add(times(o.normal(xs, 1e-6), o.shift(scale, 1)), shift)
	h = o.affine(o.normal(h, 1e-5), param(5), param(6))
	h = o.linear(o.act(o.linear(h, layer(7)), device.SiLU), layer(9))
	o.compare(add(xs, times(gate, h)), o.values(in), weight)
}

func TestAutodiffSIGReg(t *testing.T) {
	o, r := newOracle(t), rand.New(rand.NewPCG(5, 5))
	var s nn.Set
	s.Vector("unused", 1, nn.Const(0))
	p := o.prepare(&s, r)
	const clips, frames, d, m = 4, 2, 3, 5
	z, raw, loss, dz := random(o, r, clips*frames, d), random(o, r, d, m), p.Mat(1, 1), p.Zero(clips*frames, d)
	objective.SIGReg(p, loss, dz, z, raw, frames, 1)
	norm := p.Mat(d, m)
	o.dev.NormalizeColumns(norm, raw)
	u := mul(o.input(z, dz), o.matrix(d, m, o.values(norm)))
	var total *G.Node
	for f := range frames {
		uf := o.rows(u, f, frames, clips)
		for k := range 17 {
			at, weight := 3*float64(k)/16, 2*3.0/16
			if k == 0 || k == 16 {
				weight /= 2
			}
			phi := math.Exp(-at * at / 2)
			mean := o.constant(1, clips, 1/float64(clips))
			c, sn := o.shift(mul(mean, G.Must(G.Cos(o.scale(uf, at)))), -phi), mul(mean, G.Must(G.Sin(o.scale(uf, at))))
			term := o.scale(add(times(c, c), times(sn, sn)), weight*phi*clips/(frames*m))
			if total == nil {
				total = term
			} else {
				total = add(total, term)
			}
		}
	}
	o.compare(mul(total, o.constant(m, 1, 1)), o.values(loss), []float64{1})
}

func TestAutodiffCorrelation(t *testing.T) {
	for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
		o, r := newOracle(t), rand.New(rand.NewPCG(6, uint64(form)))
		var s nn.Set
		s.Vector("unused", 1, nn.Const(0))
		p := o.prepare(&s, r)
		const n, d, k = 8, 3, 12
		z, q, result, dz := random(o, r, n, d), random(o, r, n, 2), p.Mat(1, 2), p.Zero(n, d)
		pairs := objective.DrawPairs(r, []int32{0, 1}, n/2, k, false)
		objective.Correlation(p, result, dz, z, q, device.NewInts(o.dev, pairs), form, 1)
		difference := o.fill(k, n, func(r, c int) float64 { return one(int(pairs[r]) == c) - one(int(pairs[k+r]) == c) })
		divisor := float64(k - 1)
		if form == device.Paper {
			divisor = k
		}
		// distances, k x 1, centred and divided by their deviation plus 1e-6
		standard := func(x *G.Node, width int) *G.Node {
			diff := mul(difference, x)
			dist := mul(times(diff, diff), o.constant(width, 1, 1))
			c := sub(dist, mul(o.constant(k, k, 1.0/k), dist))
			return over(c, o.shift(G.Must(G.Sqrt(mul(o.constant(k, k, 1/divisor), times(c, c)))), 1e-6))
		}
		x, y := standard(o.input(z, dz), d), standard(o.matrix(n, 2, o.values(q)), 2)
		loss := o.shift(o.scale(mul(o.constant(1, k, 1.0/k), times(x, y)), -1), 1)
		o.compare(loss, o.values(result)[:1], []float64{1})
	}
}
