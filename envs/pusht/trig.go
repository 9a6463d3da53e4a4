package pusht

import (
	"math"
	"math/big"
	"sync"
)

// The block's pose depends on the sine and cosine of its angle, and the reference
// implementation takes them from the C library. Their last bits must be the same, so sincos
// is a port of glibc's algorithm (2.28 and later, on processors with fused multiply-add). Its
// results are within 0.52 units in the last place, so they are not always the nearest
// float64, and Go's math.Sincos differs. The algorithm uses a table of sines and cosines at
// multiples of 1/128 and short series around them. math.FMA gives the same bits on every
// machine.

// knots is the size of the table: the number of multiples of 1/128 that can be nearest to an
// angle reduced to ±π/4, or to an unreduced angle below 0.8555.
const knots = 112

// knot holds a sine and a cosine, each as the sum of two float64 numbers.
type knot struct{ sin, sinLow, cos, cosLow float64 }

// table is computed on first use instead of stored, since exact arithmetic reproduces glibc's.
var table = sync.OnceValue(func() *[knots]knot {
	t := new([knots]knot)
	for i := range t {
		s, c := exact(float64(i) / 128)
		t[i].sin, t[i].sinLow = twoParts(s)
		t[i].cos, t[i].cosLow = twoParts(c)
	}
	return t
})

// exact computes sine and cosine from their series with 200-bit arithmetic, far beyond
// float64.
func exact(x float64) (sin, cos *big.Float) {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	sin, cos = number(0), number(1)
	term := number(1)
	for n := 1; n < 40; n++ {
		term.Mul(term, number(x))
		term.Quo(term, number(float64(n)))
		sum := []*big.Float{cos, sin}[n%2]
		if n%4 < 2 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
	}
	return sin, cos
}

// twoParts splits v into the nearest float64 and the nearest float64 of the rest.
func twoParts(v *big.Float) (high, low float64) {
	high, _ = v.Float64()
	low, _ = new(big.Float).Sub(v, new(big.Float).SetFloat64(high)).Float64()
	return high, low
}

// sincos returns the sine and cosine of an angle in radians with the bits of glibc. For
// |x| > 105414350, which no episode reaches, it falls back to math.Sincos.
func sincos(x float64) (sin, cos float64) {
	switch a := math.Abs(x); {
	case !(a < 105414350):
		return math.Sincos(x)
	case a < 0x1p-27:
		return x, 1
	case a < 0.85546875:
		return sinNear(x, 0), cosNear(x, 0)
	case a < 2.426265:
		// cos(π/2 - a) and sin(π/2 - a); π/2 has two parts, so the difference is accurate.
		y := halfPiHigh - a
		d := y + halfPiLow
		rest := (y - d) + halfPiLow
		return math.Copysign(cosNear(d, rest), x), sinNear(d, rest)
	}
	d, rest, quarter := reduce(x)
	return byQuarter(d, rest, quarter), byQuarter(d, rest, quarter+1)
}

const (
	halfPiHigh = 0x1.921fb54442d18p0
	halfPiLow  = 0x1.1a62633145c07p-54
	// π/2 in four parts. The first ones have few bits, so that their products with a
	// multiple n are exact.
	pi1        = 0x1.921fb58p0
	pi2        = -0x1.dde973cp-27
	pi3        = -0x1.cb3b398p-55
	pi4        = -0x1.d747f23e32ed7p-83
	roundToInt = 0x1.8p52 // adding it to a float64 rounds to an integer, in its low bits
)

// reduce returns x minus the nearest multiple of π/2, as a sum of two numbers, and that
// multiple modulo 4 (Cody-Waite reduction).
func reduce(x float64) (d, rest float64, quarter int) {
	t := math.FMA(x, 2/math.Pi, roundToInt)
	n := t - roundToInt
	y := math.FMA(-n, pi2, math.FMA(-n, pi1, x))
	quarter = int(math.Float64bits(t) & 3)
	t1 := float64(n * pi3)
	t2 := y - t1
	da := (y - t2) - t1
	t1 = float64(n * pi4)
	d = t2 - t1
	rest = da + ((t2 - d) - t1)
	return d, rest, quarter
}

// byQuarter returns the sine of (d + rest) + quarter·π/2.
func byQuarter(d, rest float64, quarter int) float64 {
	v := 0.0
	if quarter&1 != 0 {
		v = cosNear(d, rest)
	} else {
		v = sinNear(d, rest)
	}
	if quarter&2 != 0 {
		return -v
	}
	return v
}

// Coefficients of the short series around a knot (bySin, byCos), and of the series around 0
// (near). They are glibc's, so they must not be "improved".
const (
	bySin3 = -1.66666666666664880952546298448555e-01
	bySin5 = 8.33333214285722277379541354343671e-03
	byCos2 = 4.99999999999999999999950396842453e-01
	byCos4 = -4.16666666666664434524222570944589e-02
	byCos6 = 1.38888874007937613028114285595617e-03

	near1 = -0.16666666666666666
	near2 = 0.0083333333333323288
	near3 = -0.00019841269834414642
	near4 = 2.755729806860771e-06
	near5 = -2.5022014848318398e-08

	roundToKnot = 0x1.8p45 // adding it to a float64 rounds to a multiple of 1/128
)

// sinNear returns the sine of x + dx for |x| < 0.86, where dx is a small correction to x.
func sinNear(x, dx float64) float64 {
	if math.Abs(x) < 0.126 {
		xx := float64(x * x)
		p := math.FMA(math.FMA(math.FMA(math.FMA(near5, xx, near4), xx, near3), xx, near2), xx, near1)
		t := math.FMA(math.FMA(p, x, -float64(0.5*dx)), xx, dx)
		return x + t
	}
	if x <= 0 {
		dx = -dx
	}
	u := roundToKnot + math.Abs(x)
	k := &table()[math.Float64bits(u)&0xff]
	y := math.Abs(x) - (u - roundToKnot)
	yy := float64(y * y)
	s := y + math.FMA(float64(y*yy), math.FMA(yy, bySin5, bySin3), dx)
	c := math.FMA(y, dx, float64(yy*math.FMA(yy, math.FMA(yy, byCos6, byCos4), byCos2)))
	low := math.FMA(k.cos, s, math.FMA(-k.sin, c, math.FMA(s, k.cosLow, k.sinLow)))
	return math.Copysign(k.sin+low, x)
}

// cosNear returns the cosine of x + dx for |x| < 0.86.
func cosNear(x, dx float64) float64 {
	if x < 0 {
		dx = -dx
	}
	u := roundToKnot + math.Abs(x)
	k := &table()[math.Float64bits(u)&0xff]
	y := math.Abs(x) - (u - roundToKnot) + dx
	yy := float64(y * y)
	s := math.FMA(float64(y*yy), math.FMA(yy, bySin5, bySin3), y)
	c := float64(yy * math.FMA(yy, math.FMA(yy, byCos6, byCos4), byCos2))
	low := math.FMA(-k.sin, s, math.FMA(-k.cos, c, math.FMA(-s, k.sinLow, k.cosLow)))
	return k.cos + low
}
