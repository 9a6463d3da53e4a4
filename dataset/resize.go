package dataset

import (
	"fmt"
	"math"
)

// Resize scales a frame of FrameBytes to (size, size, 3) by torchvision's rule
// for resize(antialias=True) on uint8: bilinear with a filter as wide as the
// scale, columns first, in float32, rounded half to even (DESIGN, contract 10).
// dst has size*size*3 bytes.
func Resize(dst, src []byte, size int) {
	if len(src) != FrameBytes || len(dst) != size*size*3 {
		panic(fmt.Sprintf("dataset: Resize from %d to %d bytes", len(src), len(dst)))
	}
	if size == FrameSize {
		copy(dst, src)
		return
	}
	NewResizer(size).Resize(dst, src)
}

// Resizer is Resize with its weights kept. It is used by one goroutine at a time.
type Resizer struct {
	size int
	taps []taps
	rows []float32 // (FrameSize, size, 3): the frame after the columns are scaled
}

// taps are the weights of one output pixel over consecutive input pixels.
type taps struct {
	from    int
	weights []float32
}

// NewResizer prepares scaling FrameSize to size.
func NewResizer(size int) *Resizer {
	r := &Resizer{size: size, taps: make([]taps, size), rows: make([]float32, FrameSize*size*3)}
	scale := float32(FrameSize) / float32(size)
	support := max(scale, 1)
	for i := range r.taps {
		center := scale * (float32(i) + 0.5)
		from := max(int(center-support+0.5), 0)
		to := min(int(center+support+0.5), FrameSize)
		w := make([]float32, to-from)
		var sum float32
		for j := range w {
			x := (float32(j+from) - center + 0.5) / support
			w[j] = max(1-float32(math.Abs(float64(x))), 0)
			sum += w[j]
		}
		for j := range w {
			w[j] /= sum
		}
		r.taps[i] = taps{from, w}
	}
	return r
}

// Size is the edge of what Resize makes.
func (r *Resizer) Size() int { return r.size }

// Resize is the package function Resize.
func (r *Resizer) Resize(dst, src []byte) {
	for y := range FrameSize {
		r.scaleColumns(r.rows[y*r.size*3:(y+1)*r.size*3], src[y*FrameSize*3:(y+1)*FrameSize*3])
	}
	w := r.size * 3
	for y, t := range r.taps {
		out := dst[y*w : (y+1)*w]
		for x := range out {
			var s float32
			at := t.from*w + x
			for _, wt := range t.weights {
				s += r.rows[at] * wt
				at += w
			}
			out[x] = byte(min(max(math.RoundToEven(float64(s)), 0), 255))
		}
	}
}

func (r *Resizer) scaleColumns(dst []float32, src []byte) {
	for x, t := range r.taps {
		var a, b, c float32
		p := src[t.from*3:]
		for j, w := range t.weights {
			a += float32(p[3*j]) * w
			b += float32(p[3*j+1]) * w
			c += float32(p[3*j+2]) * w
		}
		dst[3*x], dst[3*x+1], dst[3*x+2] = a, b, c
	}
}
