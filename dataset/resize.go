package dataset

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Resizer scales frames to one size. It keeps the last one, since most rows of an
// episode's frames are those of the frame before, and scales only what changed.
// It is used by one goroutine at a time.
type Resizer struct {
	from, size int
	taps       []taps
	last       []byte    // (from, from, 3): the last frame; nil before the first
	result     []byte    // (size, size, 3): what was made of it
	changed    []bool    // rows of the frame that are not those of the last one
	rows       []float32 // (from, size, 3): the frame after the columns are scaled
	sum        []float32 // (size, 3): a row of the result
	line       []float32 // (from, 3): a row of the frame
}

// taps are the weights of one output pixel over consecutive input pixels.
type taps struct {
	from    int
	weights []float32
}

// NewResizer prepares scaling frames of an edge of from pixels to size.
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

// Size is the edge of what Resize makes.
func (r *Resizer) Size() int { return r.size }

// Resize scales a frame of (from, from, 3) bytes to (size, size, 3) by torchvision's rule
// for resize(antialias=True) on uint8 (docs/sources.md#resize): bilinear with a filter as wide as the
// scale, columns first, in float32, rounded half to even. Where the exact result
// is a tie, torchvision's own last bit depends on its CPU's instructions: of a
// frame of noise at most 3 bytes differ, by one level. dst has size*size*3 bytes.
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

// round rounds a value of [0, 255], give or take rounding, half to even: adding
// 1.5*2^23 leaves a float32 no fraction.
func round(v float32) byte {
	const shift = 3 << 22
	return byte(min(max(int32((v+shift)-shift), 0), 255))
}

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
