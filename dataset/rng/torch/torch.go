// Package torch reproduces PyTorch's CPU generator bit for bit, for float32 tensors.
// Analyses whose candidates or initial weights are published as "seed 7" need it to
// repeat the published numbers (docs/sources.md#torch-generator). Everything of this
// project's own is seeded by package rng instead.
//
// Bit equality needs more than the Mersenne Twister. PyTorch vectorises randn with
// polynomial approximations of log, sin and cos (Cephes, in avx_mathfun.h), which its
// compiler contracts to fused multiply-adds. The functions here repeat these
// operations one by one in float32; Go's math functions would differ in the last
// bits.
package torch

import "math"

// Generator is torch.Generator("cpu"): the Mersenne Twister MT19937. It must not be
// used by several goroutines at once.
type Generator struct {
	state [624]uint32
	// at is the number of words of state that Uint32 has returned since the last
	// twist.
	at int
}

// New returns the generator after torch.manual_seed(seed), for seeds of 32 bits. The
// state starts as used up, so that the first draw twists it.
func New(seed uint32) *Generator {
	g := &Generator{at: 624}
	g.state[0] = seed
	for i := 1; i < len(g.state); i++ {
		last := g.state[i-1]
		g.state[i] = 1812433253*(last^last>>30) + uint32(i)
	}
	return g
}

// Uint32 returns the next word: a word of the state, tempered by MT19937's shifts and
// masks.
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

// twist replaces all 624 words of the state, in place and in ascending order, by the
// recurrence of MT19937. The order matters: words i+1 and i+397 wrap around to words
// that are already new.
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

// uniform returns a float32 in [0, 1) from the low 24 bits of a word.
func (g *Generator) uniform() float32 { return float32(g.Uint32()&(1<<24-1)) / (1 << 24) }

// Uniform fills dst as Tensor.uniform_(from, to) fills a float32 tensor. The range is
// computed in float32, and scale and shift are one fused multiply-add.
func (g *Generator) Uniform(dst []float32, from, to float64) {
	lo, span := float32(from), float32(to)-float32(from)
	for i := range dst {
		dst[i] = fma(g.uniform(), span, lo)
	}
}

// blockSize is the number of normals that PyTorch makes at once: 8 radii and 8
// angles.
const blockSize = 16

// Normal fills dst, of at least 16 numbers, as torch.randn of that size does on an
// x86 processor with AVX2. PyTorch first fills the tensor with uniforms and then
// transforms it in blocks of 16. If 16 does not divide the size, it draws 16 further
// uniforms for the last 16 elements, which overwrites some normals of the previous
// block. Normal panics for fewer than 16 numbers, since PyTorch then uses a scalar
// algorithm in float64.
func (g *Generator) Normal(dst []float32) {
	if len(dst) < blockSize {
		panic("torch: Normal of fewer than 16 numbers, which PyTorch draws otherwise")
	}
	for i := range dst {
		dst[i] = g.uniform()
	}
	for i := 0; i+blockSize <= len(dst); i += blockSize {
		boxMuller(dst[i : i+blockSize])
	}
	if len(dst)%blockSize != 0 {
		last := dst[len(dst)-blockSize:]
		for i := range last {
			last[i] = g.uniform()
		}
		boxMuller(last)
	}
}

// boxMuller turns 16 uniforms into normals in place: u[0:8] become radii and u[8:16]
// angles. Number i of both halves gives the cosine at i and the sine at i+8. The
// logarithm is of 1-u, since u can be 0 and never 1.
func boxMuller(u []float32) {
	for i := range u[:blockSize/2] {
		radius := float32(math.Sqrt(float64(-2 * log(1-u[i]))))
		sin, cos := sincos(float32(2*math.Pi) * u[i+blockSize/2])
		u[i], u[i+blockSize/2] = radius*cos, radius*sin
	}
}

// log is Cephes' logf for a positive normal x. Each product and sum of its polynomial
// is fused where PyTorch's compiler fuses them, so the order of the operations must
// not be changed.
func log(x float32) float32 {
	bits := math.Float32bits(x)
	e := float32(int32(bits>>23)-127) + 1
	// The mantissa with the exponent of 0.5: x is in [0.5, 1), and the argument
	// is x * 2^e.
	x = math.Float32frombits(bits&^0x7f800000 | math.Float32bits(0.5))
	// Centre x on 0: below sqrt(1/2), use 2x-1 and one less in the exponent.
	if x < 0.707106781186547524 {
		e--
		x = x - 1 + x
	} else {
		x--
	}
	z := x * x
	y := polynomial(x, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1) * x
	// ln 2 is split into 0.693359375, exact in few bits, and a small correction, so
	// that e times the first part is exact.
	y = fma(y, z, float32(e*-2.12194440e-4))
	y = fma(z, -0.5, y)
	return fma(e, 0.693359375, x+y)
}

// sincos is Cephes' sinf and cosf for an angle in [0, 8192). It subtracts a multiple
// of pi/4, evaluates both polynomials on the remainder, and swaps and negates them
// according to the octant.
func sincos(x float32) (sin, cos float32) {
	octant := (int32(float32(x*1.27323954473516)) + 1) &^ 1
	y := float32(octant)
	// Cody-Waite reduction: pi/4 as a sum of three floats, since a single float32 is
	// too coarse and the remainder would lose bits.
	for _, part := range []float32{-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8} {
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

// polynomial evaluates a polynomial by Horner's rule, with the coefficient of the
// highest power first.
func polynomial(x float32, c ...float32) float32 {
	y := c[0]
	for _, next := range c[1:] {
		y = fma(y, x, next)
	}
	return y
}

// fma returns x*y + z rounded once to float32, without relying on the hardware. The
// product of two float32 is exact in float64. Rounding the float64 sum to float32
// would round twice, so the sum is rounded to odd first: its lowest bit records that
// something was lost, and the second rounding is then correct because float64 has
// more than two bits beyond float32.
func fma(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	sum := p + c
	// Knuth's TwoSum: lost is exactly what rounding p + c to sum dropped.
	back := sum - p
	lost := (p - (sum - back)) + (c - back)
	// An inexact sum with an even last bit moves one step towards the exact value, to
	// the odd neighbour.
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
