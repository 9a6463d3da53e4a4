package tworoom

import (
	"math"

	"scalewm/envs"
)

// reach bounds by how much d² of a pixel that a dot changes exceeds the
// smallest d² in the picture, in units of 2 sd²: below an opacity of 2^-25
// float32 1-a is 1 and the colour times a is lost; 25 ln 2 = 17.329, the rest is
// room for rounding.
const reach = 1700.0 / 98

// vanished is a smallest d², in the same units, at which every exponential is 0 in float32.
const vanished = 104

// pen draws the frames of one env. A frame equals, byte for byte, the original's float32
// formula taken pixel by pixel with a correctly rounded exp (draw_test.go has
// it so), but costs one exponential a column and a row instead of one a pixel,
// and only where the dot can be seen.
type pen struct {
	look   *look  // that floor shows
	floor  []byte // the frame without agent and target
	ex, ey axis
	// twoVar is 2 sd² of the dot that is drawn: its opacity is exp(-d²/twoVar),
	// divided by the largest such value in the picture. It is a float32 number.
	twoVar, perVar float64
}

// axis is what the dot is along x or along y, pixel by pixel.
type axis struct {
	sq       [envs.FrameSize]float32 // squared distance from the centre, rounded
	exp      [envs.FrameSize]float64 // exp(-sq/twoVar)
	nearest  int
	from, to int // the pixels [from, to) that the dot can reach
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

// around is the run of pixels round the nearest with sq <= limit.
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

func newPen() *pen { return &pen{floor: make([]byte, envs.FrameBytes)} }

// show draws the empty floor of a look.
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

// at is the colour of a pixel of the empty floor.
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

// draw writes the frame of a state.
func (n *pen) draw(dst []byte, s *state) {
	n.show(s.look)
	copy(dst, n.floor)
	if s.look.showTarget {
		n.dot(dst, s.target, s.look.targetRadius, s.look.target)
	}
	n.dot(dst, s.agent, s.look.radius, s.look.agent)
}

// dot lays a dot centred at p over the picture.
func (n *pen) dot(dst []byte, p point, sd float32, c color) {
	n.twoVar = float64(float32(2 * float64(sd) * float64(sd)))
	n.perVar = 1 / n.twoVar
	n.ex.fill(p.x, n.twoVar)
	n.ey.fill(p.y, n.twoVar)
	nx, ny := n.ex.nearest, n.ey.nearest
	limit := n.ex.sq[nx] + n.ey.sq[ny]
	if !(float64(limit) < vanished*n.twoVar) {
		return // it is far outside the picture
	}
	limit += float32(reach * n.twoVar)
	inverse := 1 / float64(n.opacity(nx, ny, 1))
	paint := newBrush(c)
	for y := n.ey.from; y < n.ey.to; y++ {
		from, to := n.ex.around(limit - n.ey.sq[y])
		row := dst[y*envs.FrameSize*3:][:envs.FrameSize*3]
		for x := from; x < to; x++ {
			px, a := row[3*x:3*x+3:3*x+3], n.opacity(x, y, inverse)
			if paint.twin && px[0] == px[1] && px[1] == px[2] {
				paint.layTwin(px, a)
			} else {
				paint.lay(px, a)
			}
		}
	}
}

// opacity is float32(exp(-t)) * inverse, rounded, where t is the float32 chain
// (sq+sq)/twoVar of the original. The product of the axes' exponentials
// belongs to the unrounded sum; the difference to t, below 1e-6, is put right
// by two terms of its series, which leaves an error of 1e-16.
//
// Both divisions of the original, by twoVar and by the largest value, are
// multiplications in float64 here. The results are the same: a quotient of two
// float32 numbers keeps 2^-49 of its size away from every rounding boundary.
func (n *pen) opacity(x, y int, inverse float64) float32 {
	sx, sy := n.ex.sq[x], n.ey.sq[y]
	t := float32(float64(sx+sy) * n.perVar)
	rest := (float64(sx)+float64(sy))*n.perVar - float64(t)
	e := n.ex.exp[x] * n.ey.exp[y]
	return float32(float64(float32(e+e*rest*(1+rest/2))) * inverse)
}

// brush is a colour to blend with.
type brush struct {
	r, g, b float32
	twin    bool // green and blue are equal
}

func newBrush(c color) brush {
	return brush{float32(c[0]), float32(c[1]), float32(c[2]), c[1] == c[2]}
}

// lay blends with opacity a over a pixel, truncating as the original does:
// white under the faintest red is 254.
func (c *brush) lay(px []byte, a float32) {
	px = px[:3:3]
	under := 1 - a
	px[0] = byte(int32(float32(float32(px[0])*under) + float32(c.r*a)))
	px[1] = byte(int32(float32(float32(px[1])*under) + float32(c.g*a)))
	px[2] = byte(int32(float32(float32(px[2])*under) + float32(c.b*a)))
}

// layTwin is lay for a grey pixel and a brush of equal green and blue, most of
// what is drawn by default: equal channels are computed once.
func (c *brush) layTwin(px []byte, a float32) {
	old := float32(float32(px[0]) * (1 - a))
	px[0] = byte(int32(old + float32(c.r*a)))
	px[1] = byte(int32(old + float32(c.g*a)))
	px[2] = px[1]
}
