// Package torch draws what PyTorch's generator of the CPU draws, float by float,
// so that analyses whose candidates and initial weights were published as "seed 7"
// see the published numbers (docs/sources.md#torch-generator). Nothing of our own
// is seeded by it.
package torch

import "math"

// Generator is torch.Generator("cpu"): the Mersenne Twister MT19937.
type Generator struct {
	state [624]uint32
	at    int // words of state that were used
}

// New is torch.manual_seed(seed) for seeds of 32 bits.
func New(seed uint32) *Generator {
	g := &Generator{at: 624}
	g.state[0] = seed
	for i := 1; i < len(g.state); i++ {
		last := g.state[i-1]
		g.state[i] = 1812433253*(last^last>>30) + uint32(i)
	}
	return g
}

// Uint32 is the next word.
func (g *Generator) Uint32() uint32 {
	if g.at == len(g.state) {
		g.twist()
	}
	y := g.state[g.at]
	g.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (g *Generator) twist() {
	n := len(g.state)
	for i := range n {
		y := g.state[i]&0x80000000 | g.state[(i+1)%n]&0x7fffffff
		next := g.state[(i+397)%n] ^ y>>1
		if y&1 != 0 {
			next ^= 0x9908b0df
		}
		g.state[i] = next
	}
	g.at = 0
}

// uniform is in [0, 1) with 24 random bits.
func (g *Generator) uniform() float32 { return float32(g.Uint32()&(1<<24-1)) / (1 << 24) }

// Uniform fills dst as Tensor.uniform_(from, to) of float32 does.
func (g *Generator) Uniform(dst []float32, from, to float64) {
	lo, span := float32(from), float32(to)-float32(from)
	for i := range dst {
		dst[i] = fma(g.uniform(), span, lo)
	}
}

// pair is how many numbers Normal makes at once: 8 radii and 8 angles.
const pair = 16

// Normal fills dst, of at least 16 numbers, as torch.randn of that size does on
// an x86 processor with AVX2. The last 16 numbers are drawn anew where 16 does not
// divide their count.
func (g *Generator) Normal(dst []float32) {
	if len(dst) < pair {
		panic("torch: Normal of fewer than 16 numbers, which PyTorch draws otherwise")
	}
	for i := range dst {
		dst[i] = g.uniform()
	}
	for i := 0; i+pair <= len(dst); i += pair {
		boxMuller(dst[i : i+pair])
	}
	if len(dst)%pair != 0 {
		last := dst[len(dst)-pair:]
		for i := range last {
			last[i] = g.uniform()
		}
		boxMuller(last)
	}
}

// boxMuller turns 16 uniform numbers into normal ones: the first 8 give radii,
// the others angles.
func boxMuller(u []float32) {
	for i := range u[:pair/2] {
		radius := float32(math.Sqrt(float64(-2 * log(1-u[i]))))
		sin, cos := sincos(float32(2*math.Pi) * u[i+pair/2])
		u[i], u[i+pair/2] = radius*cos, radius*sin
	}
}

// log is Cephes' logf of a normal positive number, each product and sum of its
// polynomial fused as PyTorch's compiler fuses them.
func log(x float32) float32 {
	bits := math.Float32bits(x)
	e := float32(int32(bits>>23)-127) + 1
	x = math.Float32frombits(bits&^0x7f800000 | math.Float32bits(0.5)) // in [0.5, 1)
	if x < 0.707106781186547524 {
		e--
		x = x - 1 + x
	} else {
		x--
	}
	z := x * x
	y := polynomial(x, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1) * x
	y = fma(y, z, float32(e*-2.12194440e-4))
	y = fma(z, -0.5, y)
	return fma(e, 0.693359375, x+y)
}

// sincos is Cephes' sinf and cosf of an angle in [0, 8192).
func sincos(x float32) (sin, cos float32) {
	octant := (int32(float32(x*1.27323954473516)) + 1) &^ 1
	y := float32(octant)
	for _, part := range []float32{-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8} { // of pi/4
		x = fma(y, part, x)
	}
	z := x * x
	c := polynomial(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2) * z
	c = fma(c, z, -0.5*z) + 1
	s := polynomial(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1) * z
	s = fma(s, x, x)
	if octant&2 != 0 {
		s, c = c, s
	}
	if octant&4 != 0 {
		s = -s
	}
	if (octant-2)&4 == 0 {
		c = -c
	}
	return s, c
}

// polynomial is Horner's rule, highest power first.
func polynomial(x float32, c ...float32) float32 {
	y := c[0]
	for _, next := range c[1:] {
		y = fma(y, x, next)
	}
	return y
}

// fma is x*y + z rounded once. The product is exact in float64; the sum is
// rounded to odd there, which makes rounding it again harmless.
func fma(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	sum := p + c
	back := sum - p
	lost := (p - (sum - back)) + (c - back)
	if bits := math.Float64bits(sum); lost != 0 && bits&1 == 0 {
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}
