package pointmaze

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// slowDraw shades every sample of every pixel, without draw's bounds. It is the reference that
// draw is tested against.
func slowDraw(dst []byte, q vec) {
	d := disc{toWorld(q)}
	for y := range envs.FrameSize {
		for x := range envs.FrameSize {
			var sum mixture
			corner := vec{float64(x), float64(y)}
			for _, at := range samples {
				p, ok := d.sample(slope(corner.add(at)))
				if !ok {
					p = background(corner, at)
				}
				sum.add(p)
			}
			sum.store(dst, x, y)
		}
	}
}

func TestDrawEqualsSlowTwin(t *testing.T) {
	places := []vec{{0.8, 0.8}, {1.8, 1.8}, {0.342, 0.344}, {3.25, 3.257}, {-2.3, 1}, {5.85, 5.9}, {1, -2.21}, {1e3, -1e9}, {1e300, 0}, {1.8, 0.8}}
	r := rand.New(rand.NewPCG(1, 3))
	for range 8 {
		q, _ := drawStart(r)
		places = append(places, q)
	}
	fast, slow := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	for _, q := range places {
		draw(fast, emptyScene(), q)
		slowDraw(slow, q)
		for i := range slow {
			if fast[i] != slow[i] {
				t.Errorf("ball at %v: byte %d (x %d, y %d) is %d, slow twin %d", q, i, i/3%envs.FrameSize, i/3/envs.FrameSize, fast[i], slow[i])
				break
			}
		}
	}
}

// Pixels drawn by MuJoCo 2.3.7 with the ball far away; they may differ by one level: both
// colours of the floor, a blend of them, tops of walls near and far from the camera, edges.
func TestScenePixels(t *testing.T) {
	scene := emptyScene()
	for _, c := range []struct {
		x, y int
		want [3]byte
	}{
		{0, 0, [3]byte{25, 51, 76}},
		{29, 0, [3]byte{37, 63, 88}},
		{29, 41, [3]byte{39, 64, 90}},
		{60, 0, [3]byte{51, 76, 102}},
		{112, 20, [3]byte{25, 51, 76}},
		{112, 60, [3]byte{224, 163, 101}},
		{112, 110, [3]byte{227, 166, 105}},
		{41, 41, [3]byte{219, 158, 96}},
		{182, 182, [3]byte{219, 158, 96}},
		{150, 112, [3]byte{51, 76, 102}},
		{69, 112, [3]byte{148, 107, 66}},
		{70, 112, [3]byte{66, 57, 49}},
		{97, 112, [3]byte{76, 80, 83}},
		{125, 90, [3]byte{226, 165, 104}},
		{126, 90, [3]byte{75, 80, 83}},
		{112, 152, [3]byte{51, 76, 102}},
		{112, 154, [3]byte{148, 107, 66}},
		{83, 70, [3]byte{60, 51, 42}},
		{40, 40, [3]byte{25, 51, 76}},
		{183, 100, [3]byte{51, 76, 102}},
		{98, 130, [3]byte{25, 51, 76}},
		{90, 154, [3]byte{148, 107, 66}},
		{223, 223, [3]byte{25, 51, 76}},
	} {
		o := (c.y*envs.FrameSize + c.x) * 3
		for i, v := range c.want {
			if math.Abs(float64(scene[o+i])-float64(v)) > 1 {
				t.Errorf("pixel (%d, %d) is %v, MuJoCo draws %v", c.x, c.y, scene[o:o+3], c.want)
				break
			}
		}
	}
}

// centroid returns the centroid of the pixels that differ between two frames, in pixels from
// the middle of the frame.
func centroid(a, b []byte) (c vec, area int) {
	for i := range envs.FrameSize * envs.FrameSize {
		if !bytes.Equal(a[3*i:3*i+3], b[3*i:3*i+3]) {
			c = c.add(vec{float64(i % envs.FrameSize), float64(i / envs.FrameSize)})
			area++
		}
	}
	return c.times(1 / float64(area)), area
}

// The disc is where the ball is: x to the right, y down, 27.8 pixels a metre
// (docs/sources.md#pointmaze-drawing), 5.56 pixels in radius. It follows moves of a fraction of a pixel.
func TestDiscIsWhereTheBallIs(t *testing.T) {
	frame := make([]byte, envs.FrameBytes)
	r := rand.New(rand.NewPCG(2, 3))
	for range 50 {
		q := vec{0.65 + 0.3*r.Float64(), 0.65 + 2.3*r.Float64()} // the left leg, clear of the walls
		draw(frame, emptyScene(), q)
		c, area := centroid(frame, emptyScene())
		want := toWorld(q).sub(vec{3, 3}).times(112 / 4.0324).add(vec{111.5, 111.5})
		if off := c.sub(want); math.Sqrt(off.dot(off)) > 0.3 {
			t.Errorf("ball at %v: disc at pixel %v, want %v", q, c, want)
		}
		if area < 97 || area > 150 {
			t.Errorf("ball at %v: %d pixels", q, area)
		}
	}
}

// The frame after a step shows the ball where the last sub-step began.
func TestFrameLags(t *testing.T) {
	e := at(t, vec{0.8, 1.2}, vec{0, 4})
	step(t, e, 0, 1)
	lagging, drawn := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	if err := e.Frame(lagging); err != nil {
		t.Fatal(err)
	}
	now := e.s.q
	for _, c := range []struct {
		q    vec
		same bool
	}{{e.s.drawn, true}, {now, false}} {
		e.put(c.q, vec{})
		if err := e.Frame(drawn); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(lagging, drawn) != c.same {
			t.Errorf("the frame after a step shows the ball at %v: %v, want %v", c.q, !c.same, c.same)
		}
	}
}
