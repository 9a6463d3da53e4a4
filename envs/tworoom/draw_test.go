package tworoom

import (
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// slowDraw is stable-worldmodel's drawing code, translated literally: every operation in
// float32, at every pixel. It is the reference that pen.draw is tested against.
func slowDraw(dst []byte, s *state) {
	for i := range envs.FrameSize * envs.FrameSize {
		c := s.look.at(i%envs.FrameSize, i/envs.FrameSize)
		copy(dst[3*i:], c[:])
	}
	if s.look.showTarget {
		slowDot(dst, s.target, s.look.targetRadius, s.look.target)
	}
	slowDot(dst, s.agent, s.look.radius, s.look.agent)
}

func slowDot(dst []byte, p point, sd float32, paint color) {
	var alpha [envs.FrameSize * envs.FrameSize]float32
	twoVar, largest := float32(2*float64(sd)*float64(sd)), float32(0)
	for i := range alpha {
		dx := float32(i%envs.FrameSize) - p.x
		dy := float32(i/envs.FrameSize) - p.y
		d2 := float32(dx*dx) + float32(dy*dy)
		alpha[i] = float32(math.Exp(float64(-d2 / twoVar)))
		largest = max(largest, alpha[i])
	}
	for i, a := range alpha {
		if largest > 0 {
			a = a / largest
		}
		for c, v := range paint {
			under := float32(float32(dst[3*i+c]) * float32(1-a))
			dst[3*i+c] = byte(float32(under + float32(float32(v)*a)))
		}
	}
}

func TestDrawEqualsSlowTwin(t *testing.T) {
	places := []point{{60, 112}, {60.3, 111.6}, {112, 49}, {14, 14}, {209, 209}, {0, 0}, {223, 223},
		{-30.5, 100}, {223.4, -8}, {300, 112}, {1e6, 5}, {99.5, 67.5}}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		places = append(places, drawPlace(r))
	}
	fast, slow := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	plain, varied := made(t, nil), made(t, everythingVaries())
	for _, e := range []*env{plain, varied} {
		for _, p := range places {
			if err := e.Reset(r); err != nil {
				t.Fatal(err)
			}
			e.s.agent = p
			if err := e.Frame(fast); err != nil {
				t.Fatal(err)
			}
			slowDraw(slow, &e.s)
			for i := range slow {
				if fast[i] != slow[i] {
					t.Errorf("agent at %v of %v: byte %d (x %d, y %d) is %d, slow twin %d", p, e.s.look.values, i, i/3%envs.FrameSize, i/3/envs.FrameSize, fast[i], slow[i])
					break
				}
			}
		}
	}
}
