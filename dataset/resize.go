package dataset

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Resizer scales square frames to one size. It remembers the previous frame and
// scales only rows that differ from it, because consecutive frames of an episode are
// mostly equal. A Resizer must not be used by several goroutines at once.
type Resizer struct {
	// from and size are the edges of input and output, in pixels.
	from, size int
	taps       []taps
	// last is the previous frame, (from, from, 3); nil before the first one.
	last []byte
	// result is the previous output, (size, size, 3).
	result []byte
	// changed marks the rows that differ from those of the previous frame.
	changed []bool
	// rows is the frame after the horizontal pass, (from, size, 3).
	rows []float32
	// sum is one row of the output before rounding, (size, 3).
	sum []float32
	// line is one row of the frame as floats, (from, 3).
	line []float32
}

// taps are the filter weights of one output pixel, for consecutive input pixels
// starting at from.
type taps struct {
	from    int
	weights []float32
}

// NewResizer returns a Resizer from frames with an edge of from pixels to size. It
// computes the taps, which are the same for rows and columns: a triangle filter whose
// half-width is the scale when shrinking and one pixel when enlarging, cut off at the
// border and normalised. All of it is float32, in the order of torchvision's
// implementation.
func NewResizer(from, size int) *Resizer {
	r := &Resizer{from: from, size: size, taps: make([]taps, size), result: make([]byte, size*size*3), changed: make([]bool, from), rows: make([]float32, from*size*3),
		sum: make([]float32, size*3), line: make([]float32, from*3)}
	scale := float32(from) / float32(size)
	support := max(scale, 1)
	inv := 1 / support
	for i := range r.taps {
		center := scale * (float32(i) + 0.5)
		first := max(int(center-support+0.5), 0)
		to := min(int(center+support+0.5), from)
		w := make([]float32, to-first)
		var sum float32
		for j := range w {
			x := (float32(j+first) - center + 0.5) * inv
			w[j] = max(1-float32(math.Abs(float64(x))), 0)
			sum += w[j]
		}
		for j := range w {
			w[j] /= sum
		}
		r.taps[i] = taps{first, w}
	}
	return r
}

// Size returns the edge of the output in pixels.
func (r *Resizer) Size() int { return r.size }

// Resize scales a frame of (from, from, 3) bytes to dst of (size, size, 3) bytes,
// like torchvision's resize(antialias=True) on floats: horizontally first, in float32,
// then rounded half to even. On bytes, torchvision computes in fixed point on some
// CPUs, and a share of the values differs by one level (docs/sources.md#resize).
// Resize panics if a length is wrong.
func (r *Resizer) Resize(dst, src []byte) {
	w := r.size * 3
	if len(src) != r.from*r.from*3 || len(dst) != r.size*w {
		panic(fmt.Sprintf("dataset: Resize from %d to %d bytes", len(src), len(dst)))
	}
	if r.size == r.from {
		copy(dst, src)
		return
	}
	for y := range r.from {
		from, to := y*r.from*3, (y+1)*r.from*3
		if r.changed[y] = r.last == nil || !bytes.Equal(src[from:to], r.last[from:to]); r.changed[y] {
			r.scaleColumns(r.rows[y*w:(y+1)*w], src[from:to])
		}
	}
	r.last = append(r.last[:0], src...)
	for y, t := range r.taps {
		if !slices.Contains(r.changed[t.from:t.from+len(t.weights)], true) {
			continue
		}
		clear(r.sum)
		for j, wt := range t.weights {
			row := r.rows[(t.from+j)*w:][:len(r.sum)]
			for x := range r.sum {
				r.sum[x] += row[x] * wt
			}
		}
		out := r.result[y*w:][:len(r.sum)]
		for x, v := range r.sum {
			out[x] = round(v)
		}
	}
	copy(dst, r.result)
}

// round rounds a value in [0, 255], possibly slightly outside, half to even. Adding
// 1.5*2^23 leaves no bits for a fraction in a float32, so the addition rounds; this
// is faster than math.RoundToEven in the inner loop.
func round(v float32) byte {
	const shift = 3 << 22
	return byte(min(max(int32((v+shift)-shift), 0), 255))
}

// scaleColumns is the horizontal pass for one row: (from, 3) bytes to (size, 3)
// floats. The three channels are summed in separate variables, which stay in
// registers.
func (r *Resizer) scaleColumns(dst []float32, src []byte) {
	for i, v := range src {
		r.line[i] = float32(v)
	}
	for x, t := range r.taps {
		var a, b, c float32
		p := r.line[t.from*3:]
		for _, w := range t.weights {
			q := p[:3:3]
			a += q[0] * w
			b += q[1] * w
			c += q[2] * w
			p = p[3:]
		}
		dst[3*x], dst[3*x+1], dst[3*x+2] = a, b, c
	}
}
