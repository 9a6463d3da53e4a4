package pointmaze

import (
	"math"
	"sync"

	"scalewm/envs"
)

// The camera stands above the middle of the maze and looks straight down;
// right in the frame is x, down is y (docs/sources.md#pointmaze-drawing).
const (
	eyeHeight   = 9.734846922834954
	eyeX, eyeY  = 3.0, 3.0
	halfView    = 0.41421356237309503 // tangent of half the vertical field of view of 45°
	middle      = envs.FrameSize / 2
	slopePerPx  = halfView / middle
	groundLevel = -0.1
)

// Materials as MuJoCo shades them with its head light, which shines straight
// down: ambient 0.4, diffuse 0.8, and a highlight of strength 0.05 and exponent 64.
const (
	ambient   = 0.4
	diffuse   = 0.8
	highlight = 0.05
)

// colour is red, green and blue from 0 to 1.
type colour [3]float64

// pixel is a colour as it is stored.
type pixel [3]byte

var wallColour = colour{0.7, 0.5, 0.3}

// The floor is a checker of squares of 2 m; its texture has texels of 4 cm,
// between which the renderer interpolates.
var light, dark = colour{51, 76, 102}, colour{25, 51, 76}

const (
	square = 2.0
	texel  = 0.04
)

// samples are the four places in a pixel whose colours are averaged.
var samples = [4]vec{{0.375, 0.125}, {0.875, 0.375}, {0.125, 0.625}, {0.625, 0.875}}

// slope is the direction in which the camera sees a place of the frame, in
// metres sidewards for one downwards. Places are in pixels from the corner.
func slope(at vec) vec { return at.sub(vec{middle, middle}).times(slopePerPx) }

// seenAt is the place of the world that lies in a direction at height z.
func seenAt(s vec, z float64) vec { return vec{eyeX, eyeY}.add(s.times(eyeHeight - z)) }

// surface is what a direction meets, the disc left out.
type surface int

const (
	floor surface = iota
	wallSide
	wallTop
)

// meets follows a direction to the maze.
func meets(s vec) surface {
	switch {
	case walled(seenAt(s, wallHeight)):
		return wallTop
	case walled(seenAt(s, groundLevel)):
		return wallSide
	}
	return floor
}

// shade is the colour of a surface in a direction.
func shade(f surface, s vec) pixel {
	switch f {
	case wallTop:
		return lit(wallColour, 1, reflected(s, vec{}, 1))
	case wallSide:
		return lit(wallColour, 0, 0)
	}
	return checker(seenAt(s, groundLevel))
}

// lit is the colour of a material whose normal has the vertical part nz, with
// the given cosine between the normal and the direction of reflection.
func lit(material colour, nz, cosine float64) pixel {
	var p pixel
	shine := highlight * math.Pow(cosine, 64)
	for i, c := range material {
		p[i] = stored(255 * (c*(ambient+diffuse*nz) + shine))
	}
	return p
}

// reflected is the cosine between a normal and the half-way direction of the
// light, which is vertical, and of the camera in direction s.
func reflected(s, n vec, nz float64) float64 {
	toEye := 1 / math.Sqrt(1+s.dot(s))
	half, halfZ := s.times(-toEye), 1+toEye
	return (n.dot(half) + nz*halfZ) / math.Sqrt(half.dot(half)+halfZ*halfZ)
}

func stored(v float64) byte { return byte(min(max(v, 0), 255) + 0.5) }

// checker is the floor's colour at a place.
func checker(at vec) pixel {
	var p pixel
	mix := (1 - side(at.x)*side(at.y)) / 2
	for i := range p {
		p[i] = stored(dark[i] + (light[i]-dark[i])*mix)
	}
	return p
}

// side is +1 in even squares along an axis, -1 in odd ones, and between them within a texel.
func side(x float64) float64 {
	edge := math.Round(x / square)
	f := min(max((x-edge*square)/texel+0.5, 0), 1)
	s := 2*math.Round(256*f)/256 - 1
	if math.Mod(edge, 2) != 0 {
		return -s
	}
	return s
}

// emptyScene is the frame without the disc, drawn once and only read afterwards.
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

// background is the colour of one sample of a pixel. What the sample meets is
// shaded as it looks in the middle of the pixel, as graphics hardware does.
func background(corner, sample vec) pixel {
	return shade(meets(slope(corner.add(sample))), slope(corner.add(vec{0.5, 0.5})))
}

// mixture adds up the samples of a pixel.
type mixture [3]int

func (m *mixture) add(p pixel) {
	for i, v := range p {
		m[i] += int(v)
	}
}

func (m *mixture) store(frame []byte, x, y int) {
	o := (y*envs.FrameSize + x) * 3
	for i, v := range m {
		frame[o+i] = byte((v + len(samples)/2) / len(samples))
	}
}
