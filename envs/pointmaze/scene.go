package pointmaze

import (
	"math"
	"sync"

	"scalewm/envs"
)

// The camera is above the middle of the maze and looks straight down. In the frame, x
// increases to the right and y downwards (docs/sources.md#pointmaze-drawing).
const (
	eyeHeight   = 9.734846922834954 // metres above the origin
	eyeX, eyeY  = 3.0, 3.0
	halfView    = 0.41421356237309503 // tangent of half the vertical field of view of 45°
	middle      = envs.FrameSize / 2
	slopePerPx  = halfView / middle
	groundLevel = -0.1 // height of the floor
)

// Parameters of MuJoCo's head light, which shines straight down: ambient, diffuse, and a
// highlight with strength 0.05 and exponent 64.
const (
	ambient   = 0.4
	diffuse   = 0.8
	highlight = 0.05
)

// colour is red, green and blue from 0 to 1 (0 to 255 for the floor's texture).
type colour [3]float64

// pixel is a colour as stored in a frame.
type pixel [3]byte

var wallColour = colour{0.7, 0.5, 0.3}

// The floor is a checker pattern with squares of 2 m. Its texture has texels of 4 cm, between
// which OpenGL interpolates.
var light, dark = colour{51, 76, 102}, colour{25, 51, 76}

const (
	square = 2.0  // metres
	texel  = 0.04 // metres
)

// samples are the four sample positions in a pixel, the standard pattern of 4x multisampling.
// Their colours are averaged.
var samples = [4]vec{{0.375, 0.125}, {0.875, 0.375}, {0.125, 0.625}, {0.625, 0.875}}

// slope returns the direction in which the camera sees a position of the frame, given in
// pixels from the corner: horizontal metres per metre downwards.
func slope(at vec) vec { return at.sub(vec{middle, middle}).times(slopePerPx) }

// seenAt returns the world position at height z in a direction.
func seenAt(s vec, z float64) vec { return vec{eyeX, eyeY}.add(s.times(eyeHeight - z)) }

// surface is what a view direction hits, apart from the disc.
type surface int

const (
	floor surface = iota
	wallSide
	wallTop
)

// meets returns the surface that a direction hits. A direction that passes a wall's top but
// is under the wall at ground level hits the wall's side.
func meets(s vec) surface {
	switch {
	case walled(seenAt(s, wallHeight)):
		return wallTop
	case walled(seenAt(s, groundLevel)):
		return wallSide
	}
	return floor
}

// shade returns the colour of a surface in a direction.
func shade(f surface, s vec) pixel {
	switch f {
	case wallTop:
		return lit(wallColour, 1, reflected(s, vec{}, 1))
	case wallSide:
		return lit(wallColour, 0, 0)
	}
	return checker(seenAt(s, groundLevel))
}

// lit returns the colour of a material under the head light, where nz is the vertical
// component of its normal and cosine that between the normal and the half vector.
func lit(material colour, nz, cosine float64) pixel {
	var p pixel
	shine := highlight * math.Pow(cosine, 64)
	for i, c := range material {
		p[i] = stored(255 * (c*(ambient+diffuse*nz) + shine))
	}
	return p
}

// reflected returns the cosine between a normal and the half vector of Blinn-Phong shading:
// between the light, which is vertical, and the camera in direction s.
func reflected(s, n vec, nz float64) float64 {
	toEye := 1 / math.Sqrt(1+s.dot(s))
	half, halfZ := s.times(-toEye), 1+toEye
	return (n.dot(half) + nz*halfZ) / math.Sqrt(half.dot(half)+halfZ*halfZ)
}

// stored rounds a channel to a byte.
func stored(v float64) byte { return byte(min(max(v, 0), 255) + 0.5) }

// checker returns the floor's colour at a position.
func checker(at vec) pixel {
	var p pixel
	mix := (1 - side(at.x)*side(at.y)) / 2
	for i := range p {
		p[i] = stored(dark[i] + (light[i]-dark[i])*mix)
	}
	return p
}

// side returns +1 in even squares along an axis, -1 in odd ones, and interpolates within a
// texel between them. Graphics hardware has 8 fractional bits for this weight.
func side(x float64) float64 {
	edge := math.Round(x / square)
	f := min(max((x-edge*square)/texel+0.5, 0), 1)
	s := 2*math.Round(256*f)/256 - 1
	if math.Mod(edge, 2) != 0 {
		return -s
	}
	return s
}

// emptyScene returns the frame without the disc. It is drawn once and must not be written to.
var emptyScene = sync.OnceValue(func() []byte {
	scene := make([]byte, envs.FrameBytes)
	for y := range envs.FrameSize {
		for x := range envs.FrameSize {
			var sum mixture
			for _, at := range samples {
				sum.add(background(vec{float64(x), float64(y)}, at))
			}
			sum.store(scene, x, y)
		}
	}
	return scene
})

// background returns the colour of one sample of a pixel. The sample position decides which
// surface is hit, but the colour is computed at the pixel's centre: with multisampling,
// OpenGL runs shading once per pixel and surface.
func background(corner, sample vec) pixel {
	return shade(meets(slope(corner.add(sample))), slope(corner.add(vec{0.5, 0.5})))
}

// mixture sums the samples of a pixel.
type mixture [3]int

// add adds a sample.
func (m *mixture) add(p pixel) {
	for i, v := range p {
		m[i] += int(v)
	}
}

// store writes the mean, rounded, to a pixel of a frame.
func (m *mixture) store(frame []byte, x, y int) {
	o := (y*envs.FrameSize + x) * 3
	for i, v := range m {
		frame[o+i] = byte((v + len(samples)/2) / len(samples))
	}
}
