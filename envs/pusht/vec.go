package pusht

import "math"

// minNormal is the smallest normal float64 (CPFLOAT_MIN). Chipmunk adds it to divisors to
// keep quotients finite.
const minNormal = 0x1p-1022

// vec is a point or a direction in pixels. Products are converted explicitly before they are
// summed: otherwise a compiler may fuse them into multiply-adds on some architectures, which
// would change the last bits.
type vec struct{ x, y float64 }

func (a vec) add(b vec) vec             { return vec{a.x + b.x, a.y + b.y} }
func (a vec) sub(b vec) vec             { return vec{a.x - b.x, a.y - b.y} }
func (a vec) neg() vec                  { return vec{-a.x, -a.y} }
func (a vec) mul(s float64) vec         { return vec{float64(a.x * s), float64(a.y * s)} }
func (a vec) dot(b vec) float64         { return float64(a.x*b.x) + float64(a.y*b.y) }
func (a vec) cross(b vec) float64       { return float64(a.x*b.y) - float64(a.y*b.x) }
func (a vec) left() vec                 { return vec{-a.y, a.x} }
func (a vec) right() vec                { return vec{a.y, -a.x} }
func (a vec) unit() vec                 { return a.mul(1 / (math.Sqrt(a.dot(a)) + minNormal)) }
func (a vec) lerp(b vec, t float64) vec { return a.mul(1 - t).add(b.mul(t)) }

// between interpolates: it returns a for t = -1 and b for t = 1.
func (a vec) between(b vec, t float64) vec {
	h := 0.5 * t
	return a.mul(0.5 - h).add(b.mul(0.5 + h))
}

// rotated returns a rotated by the angle whose cosine and sine are r.
func (a vec) rotated(r vec) vec {
	return vec{float64(r.x*a.x) - float64(r.y*a.y), float64(r.y*a.x) + float64(r.x*a.y)}
}

// lesser returns the smaller of two numbers, the second if they are equal, like Chipmunk's
// cpfmin. The builtin min differs for signed zeros and NaN.
func lesser(a, b float64) float64 {
	if a < b {
		return a
	}
	return b
}

// larger returns the larger of two numbers, the second if they are equal.
func larger(a, b float64) float64 {
	if a > b {
		return a
	}
	return b
}

// clamp01 limits v to [0, 1].
func clamp01(v float64) float64 { return larger(0, lesser(v, 1)) }

// box is an axis-aligned rectangle: left, bottom, right, top, with bottom <= top in y.
type box struct{ l, b, r, t float64 }

func (a *box) overlaps(b *box) bool { return a.l <= b.r && b.l <= a.r && a.b <= b.t && b.b <= a.t }
func (a *box) contains(b *box) bool { return a.l <= b.l && a.r >= b.r && a.b <= b.b && a.t >= b.t }
func (a *box) area() float64        { return float64((a.r - a.l) * (a.t - a.b)) }

// merged returns the smallest box that contains both.
func (a *box) merged(b *box) box {
	return box{lesser(a.l, b.l), lesser(a.b, b.b), larger(a.r, b.r), larger(a.t, b.t)}
}

// distance returns twice the L1 distance between the centres (cpBBProximity).
func (a *box) distance(b *box) float64 {
	return math.Abs(a.l+a.r-b.l-b.r) + math.Abs(a.b+a.t-b.b-b.t)
}

// centre returns the centre of the box.
func (a *box) centre() vec { return vec{a.l, a.b}.lerp(vec{a.r, a.t}, 0.5) }
