package pointmaze

import (
	"math"

	"scalewm/envs"
)

// The ball is drawn as a site larger than the ball, which therefore sinks into the walls
// that the ball touches.
const discRadius = 0.2

var discColour = colour{0.3, 0.6, 0.3}

// draw copies the scene to dst and draws the disc for a ball at q. Only pixels that the disc
// can cover are shaded again.
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

// extent returns the range of pixels [from, to) along an axis that the disc can cover, for a
// ball at x relative to the camera. The rim of the sphere appears farthest out where it is
// nearest to the camera, hence the two bounds.
func extent(x float64) (from, to int) {
	const far, near = eyeHeight + discRadius, eyeHeight - discRadius
	lo, hi := x-discRadius, x+discRadius
	lo, hi = min(lo/near, lo/far), max(hi/near, hi/far)
	return clip(math.Floor(middle + lo/slopePerPx)), clip(math.Ceil(middle + hi/slopePerPx))
}

// clip returns the pixel border nearest to a coordinate of any size.
func clip(px float64) int { return int(min(max(px, 0), envs.FrameSize)) }

// disc is the drawn sphere; at is its position in world coordinates.
type disc struct{ at vec }

// pixel draws one pixel from its four samples (multisampling).
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
	if covered { // otherwise the pixel of the scene is already correct
		sum.store(dst, x, y)
	}
}

// sample returns the colour of the disc in a direction, or false if it is not visible there:
// it intersects the ray with the sphere and rejects points inside or below walls.
func (d disc) sample(s vec) (pixel, bool) {
	from := vec{eyeX, eyeY}.sub(d.at)
	a, b := 1+s.dot(s), from.dot(s)-eyeHeight
	c := from.dot(from) + eyeHeight*eyeHeight - discRadius*discRadius
	root := b*b - a*c
	if !(root > 0) { // false for NaN too, if root overflows
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
