package tworoom

import (
	"math"

	"scalewm/envs"
)

// reach bounds how far a dot is visible, in units of 2 sd². A pixel's opacity a is relative
// to the largest one in the picture, so it is exp(-(d² - dmin²)/2sd²). Below 2^-25, 1-a rounds
// to 1 in float32 and colour times a is lost, so the pixel does not change. That is at
// 25 ln 2 = 17.329; 1700/98 = 17.347 leaves room for rounding.
const reach = 1700.0 / 98

// vanished is a value of dmin², in the same units, beyond which every exponential is 0 in
// float32.
const vanished = 104

// pen draws the frames of one env. A frame equals, byte for byte, the reference
// implementation's float32 formula evaluated at each pixel with a correctly rounded exp
// (draw_test.go has that formula). pen needs one exponential per column and row instead of
// one per pixel, and only where the dot is visible.
type pen struct {
	look   *look  // the one that floor shows
	floor  []byte // the frame without agent and target, cached per look
	ex, ey axis
	// twoVar is 2 sd² of the dot being drawn, a float32 number. A pixel's opacity is
	// exp(-d²/twoVar) divided by the largest such value in the picture. perVar is 1/twoVar.
	twoVar, perVar float64
}

// axis is the contribution of x or of y to a dot, pixel by pixel.
type axis struct {
	sq       [envs.FrameSize]float32 // squared distance from the centre, rounded to float32
	exp      [envs.FrameSize]float64 // exp(-sq/twoVar)
	nearest  int                     // the pixel with the smallest sq
	from, to int                     // the pixels [from, to) that the dot can reach
}

// fill computes the axis for a dot centred at c.
func (a *axis) fill(c float32, twoVar float64) {
	a.nearest = 0
	for i := range a.sq {
		d := float32(i) - c
		a.sq[i] = float32(d * d)
		if a.sq[i] < a.sq[a.nearest] {
			a.nearest = i
		}
	}
	a.from, a.to = a.around(a.sq[a.nearest] + float32(reach*twoVar))
	for i := a.from; i < a.to; i++ {
		a.exp[i] = math.Exp(-float64(a.sq[i]) / twoVar)
	}
}

// around returns the range of pixels around the nearest one with sq <= limit.
func (a *axis) around(limit float32) (from, to int) {
	from, to = a.nearest, a.nearest+1
	for from > 0 && a.sq[from-1] <= limit {
		from--
	}
	for to < len(a.sq) && a.sq[to] <= limit {
		to++
	}
	return from, to
}

// newPen returns a pen that has not drawn a floor yet.
func newPen() *pen { return &pen{floor: make([]byte, envs.FrameBytes)} }

// show draws the empty floor of a look, unless it is the current one.
func (n *pen) show(l *look) {
	if n.look == l {
		return
	}
	n.look = l
	for y := range envs.FrameSize {
		for x := range envs.FrameSize {
			c := l.at(x, y)
			copy(n.floor[(y*envs.FrameSize+x)*3:], c[:])
		}
	}
}

// at returns the colour of a pixel of the empty floor.
func (l *look) at(x, y int) color {
	const line = 4 // thickness of the outer walls
	outer := func(v int) bool {
		return borderSize-line <= v && v < borderSize ||
			envs.FrameSize-borderSize <= v && v < envs.FrameSize-borderSize+line
	}
	if outer(x) || outer(y) {
		return l.wall
	}
	if !l.vertical {
		x, y = y, x
	}
	if x < wallCentre-l.half || x > wallCentre+l.half {
		return l.floor
	}
	for _, d := range l.doors {
		if d.at-d.half <= y && y <= d.at+d.half {
			return l.doorway
		}
	}
	return l.wall
}

// draw draws the frame of a state into dst: floor, target, agent.
func (n *pen) draw(dst []byte, s *state) {
	n.show(s.look)
	copy(dst, n.floor)
	if s.look.showTarget {
		n.dot(dst, s.target, s.look.targetRadius, s.look.target)
	}
	n.dot(dst, s.agent, s.look.radius, s.look.agent)
}

// dot blends a dot with centre p and standard deviation sd over the picture.
func (n *pen) dot(dst []byte, p point, sd float32, c color) {
	n.twoVar = float64(float32(2 * float64(sd) * float64(sd)))
	n.perVar = 1 / n.twoVar
	n.ex.fill(p.x, n.twoVar)
	n.ey.fill(p.y, n.twoVar)
	nx, ny := n.ex.nearest, n.ey.nearest
	limit := n.ex.sq[nx] + n.ey.sq[ny]
	if !(float64(limit) < vanished*n.twoVar) {
		return // the dot is so far outside the picture that nothing is visible
	}
	limit += float32(reach * n.twoVar)
	inverse := 1 / float64(n.opacity(nx, ny, 1))
	paint := newBrush(c)
	for y := n.ey.from; y < n.ey.to; y++ {
		from, to := n.ex.around(limit - n.ey.sq[y])
		row := dst[y*envs.FrameSize*3:][:envs.FrameSize*3]
		for x := from; x < to; x++ {
			px, a := row[3*x:3*x+3:3*x+3], n.opacity(x, y, inverse)
			if paint.equalGB && px[0] == px[1] && px[1] == px[2] {
				paint.layGrey(px, a)
			} else {
				paint.lay(px, a)
			}
		}
	}
}

// opacity returns float32(exp(-t)) * inverse, rounded to float32, where t is the reference
// implementation's float32 expression (sq+sq)/twoVar.
//
// The product of the axes' exponentials is the exponential of the unrounded sum. It differs
// from t by rest, below 1e-6, which two terms of the series of exp(rest) correct with an
// error of 1e-16.
//
// The reference implementation divides by twoVar and by the largest value; here both are
// multiplications in float64, which are faster. The results are the same: the quotient of
// two float32 numbers is at least 2^-49 of its size away from every rounding boundary.
func (n *pen) opacity(x, y int, inverse float64) float32 {
	sx, sy := n.ex.sq[x], n.ey.sq[y]
	t := float32(float64(sx+sy) * n.perVar)
	rest := (float64(sx)+float64(sy))*n.perVar - float64(t)
	e := n.ex.exp[x] * n.ey.exp[y]
	return float32(float64(float32(e+e*rest*(1+rest/2))) * inverse)
}

// brush is a colour to blend with, as float32.
type brush struct {
	r, g, b float32
	equalGB bool // green and blue are equal
}

// newBrush returns the brush of a colour.
func newBrush(c color) brush {
	return brush{float32(c[0]), float32(c[1]), float32(c[2]), c[1] == c[2]}
}

// lay blends with opacity a over a pixel. It truncates as the reference implementation does,
// so white under the faintest red becomes 254.
func (c *brush) lay(px []byte, a float32) {
	px = px[:3:3]
	under := 1 - a
	px[0] = byte(int32(float32(float32(px[0])*under) + float32(c.r*a)))
	px[1] = byte(int32(float32(float32(px[1])*under) + float32(c.g*a)))
	px[2] = byte(int32(float32(float32(px[2])*under) + float32(c.b*a)))
}

// layGrey is lay for a grey pixel and a brush with equal green and blue, which covers most
// pixels with the default colours. It computes the equal channels once.
func (c *brush) layGrey(px []byte, a float32) {
	old := float32(float32(px[0]) * (1 - a))
	px[0] = byte(int32(old + float32(c.r*a)))
	px[1] = byte(int32(old + float32(c.g*a)))
	px[2] = px[1]
}
