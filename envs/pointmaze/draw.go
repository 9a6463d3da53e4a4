package pointmaze

import (
	"math"

	"scalewm/envs"
)

// The ball is drawn as a larger sphere that sinks into the walls it touches.
const discRadius = 0.2

var discColour = colour{0.3, 0.6, 0.3}

// draw writes the frame with the ball at q.
func draw(dst, scene []byte, q vec) {
	copy(dst, scene)
	d := disc{toWorld(q)}
	x0, x1 := extent(d.at.x - eyeX)
	y0, y1 := extent(d.at.y - eyeY)
	for y := y0; y < y1; y++ {
		for x := x0; x < x1; x++ {
			d.pixel(dst, x, y)
		}
	}
}

// extent is the run of pixels [from, to) along an axis that the disc can cover,
// for a ball at x from the camera's foot. Its rim appears farthest out where it
// is nearest to the camera.
func extent(x float64) (from, to int) {
	const far, near = eyeHeight + discRadius, eyeHeight - discRadius
	lo, hi := x-discRadius, x+discRadius
	lo, hi = min(lo/near, lo/far), max(hi/near, hi/far)
	return clip(math.Floor(middle + lo/slopePerPx)), clip(math.Ceil(middle + hi/slopePerPx))
}

// clip is the pixel border nearest to a coordinate, however large.
func clip(px float64) int { return int(min(max(px, 0), envs.FrameSize)) }

// disc is the drawn sphere at a place of the world.
type disc struct{ at vec }

func (d disc) pixel(dst []byte, x, y int) {
	var sum mixture
	corner := vec{float64(x), float64(y)}
	covered := false
	for _, at := range samples {
		p, ok := d.sample(slope(corner.add(at)))
		if !ok {
			p = background(corner, at)
		}
		covered = covered || ok
		sum.add(p)
	}
	if covered { // the scene has the others already
		sum.store(dst, x, y)
	}
}

// sample is the colour of the disc in a direction, false where it does not show.
func (d disc) sample(s vec) (pixel, bool) {
	from := vec{eyeX, eyeY}.sub(d.at)
	a, b := 1+s.dot(s), from.dot(s)-eyeHeight
	c := from.dot(from) + eyeHeight*eyeHeight - discRadius*discRadius
	root := b*b - a*c
	if !(root > 0) { // also where it overflows
		return pixel{}, false
	}
	t := (-b - math.Sqrt(root)) / a
	n := from.add(s.times(t)).times(1 / discRadius)
	if walled(d.at.add(n.times(discRadius))) || walled(seenAt(s, wallHeight)) {
		return pixel{}, false
	}
	nz := (eyeHeight - t) / discRadius
	return lit(discColour, max(nz, 0), max(reflected(s, n, nz), 0)), true
}
