package tworoom

import (
	"math"
	"sync"

	"scalewm/envs"
)

// twoVar is 2 sd² of the dot: its opacity is exp(-d²/twoVar), divided by the
// largest such value in the picture.
const twoVar = 2 * radius * radius

// reach bounds by how much d² of a pixel that the dot changes exceeds the
// smallest d² in the picture: below an opacity of 2^-25 float32 1-a is 1 and
// the colour times a is lost; 25 ln 2 * twoVar = 1698.2, the rest is room for rounding.
const reach = 1700

// vanished is a smallest d² at which every exponential is 0 in float32.
const vanished = 104 * twoVar

// pen draws the frames of one env. A frame equals, byte for byte, the original's float32
// formula taken pixel by pixel with a correctly rounded exp (draw_test.go has
// it so), but costs one exponential a column and a row instead of one a pixel,
// and only where the dot can be seen.
type pen struct {
	floor  []byte // the frame without the agent
	ex, ey axis
}

// axis is what the dot is along x or along y, pixel by pixel.
type axis struct {
	sq       [envs.FrameSize]float32 // squared distance from the centre, rounded
	exp      [envs.FrameSize]float64 // exp(-sq/twoVar)
	nearest  int
	from, to int // the pixels [from, to) that the dot can reach
}

// fill computes the axis for a dot centred at c.
func (a *axis) fill(c float32) {
	a.nearest = 0
	for i := range a.sq {
		d := float32(i) - c
		a.sq[i] = float32(d * d)
		if a.sq[i] < a.sq[a.nearest] {
			a.nearest = i
		}
	}
	a.from, a.to = a.around(a.sq[a.nearest] + reach)
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

func newPen() *pen { return &pen{floor: emptyFloor()} }

// emptyFloor is drawn once and shared by all pens, which only read it.
var emptyFloor = sync.OnceValue(func() []byte {
	floor := make([]byte, envs.FrameBytes)
	for y := range envs.FrameSize {
		for x := range envs.FrameSize {
			if !black(x, y) {
				o := (y*envs.FrameSize + x) * 3
				floor[o], floor[o+1], floor[o+2] = 255, 255, 255
			}
		}
	}
	return floor
})

// black says whether a pixel of the empty floor is wall.
func black(x, y int) bool {
	const line = 4 // thickness of the outer walls
	outer := func(v int) bool {
		return borderSize-line <= v && v < borderSize ||
			envs.FrameSize-borderSize <= v && v < envs.FrameSize-borderSize+line
	}
	wall := wallCentre-wallHalf <= x && x <= wallCentre+wallHalf
	door := doorCentre-doorHalf <= y && y <= doorCentre+doorHalf
	return outer(x) || outer(y) || wall && !door
}

// draw writes the frame with the agent at p.
func (n *pen) draw(dst []byte, p point) {
	copy(dst, n.floor)
	n.ex.fill(p.x)
	n.ey.fill(p.y)
	nx, ny := n.ex.nearest, n.ey.nearest
	limit := n.ex.sq[nx] + n.ey.sq[ny]
	if !(limit < vanished) {
		return // the agent is far outside the picture
	}
	limit += reach
	inverse := 1 / float64(n.opacity(nx, ny, 1))
	for y := n.ey.from; y < n.ey.to; y++ {
		from, to := n.ex.around(limit - n.ey.sq[y])
		row := dst[y*envs.FrameSize*3:][:envs.FrameSize*3]
		for x := from; x < to; x++ {
			blend(row[3*x:3*x+3], n.opacity(x, y, inverse))
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
	const perVar = 1.0 / twoVar
	sx, sy := n.ex.sq[x], n.ey.sq[y]
	t := float32(float64(sx+sy) * perVar)
	rest := (float64(sx)+float64(sy))*perVar - float64(t)
	e := n.ex.exp[x] * n.ey.exp[y]
	return float32(float64(float32(e+e*rest*(1+rest/2))) * inverse)
}

// blend lays red of opacity a over a white or black pixel, truncating as the
// original does: white under the faintest red is 254.
func blend(px []byte, a float32) {
	red := float32(255 * a)
	if px[0] == 0 {
		px[0] = byte(red)
		return
	}
	white := float32(255 * (1 - a))
	px[0] = byte(float32(white + red))
	px[1] = byte(white)
	px[2] = px[1]
}
