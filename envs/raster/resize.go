package raster

import "math"

// Resizer scales square pictures as OpenCV's bilinear resize of bytes does: no
// smoothing, weights of 11 bits, and a vertical pass that drops low bits.
type Resizer struct {
	size int
	tap  []tap
}

// tap is where a row or column of the result comes from: pixels at and at+1.
type tap struct {
	at     int
	w0, w1 uint32
}

const weightOne = 1 << 11

// NewResizer scales pictures of from x from pixels to size x size.
func NewResizer(from, size int) *Resizer {
	r := &Resizer{size: size, tap: make([]tap, size)}
	scale := float64(from) / float64(size)
	for i := range r.tap {
		f := float32(float64((float64(i)+0.5)*scale) - 0.5)
		at := int(math.Floor(float64(f)))
		f -= float32(at)
		if at < 0 {
			at, f = 0, 0
		}
		if at >= from-1 { // the last pixel alone, written as all of the second
			at, f = from-2, 1
		}
		r.tap[i] = tap{at, weight(1 - f), weight(f)}
	}
	return r
}

func weight(f float32) uint32 { return uint32(math.RoundToEven(float64(f * weightOne))) }

// Draw writes into dst, rows of RGB bytes, those pixels of the scaled picture
// that depend on an area of src.
func (r *Resizer) Draw(dst []byte, src *Canvas, area Rect) {
	x0, x1 := r.reach(area.X0, area.X1)
	y0, y1 := r.reach(area.Y0, area.Y1)
	for y := y0; y < y1; y++ {
		v := &r.tap[y]
		top := src.Pix[v.at*src.W : (v.at+1)*src.W]
		bottom := src.Pix[(v.at+1)*src.W : (v.at+2)*src.W]
		out := dst[(y*r.size+x0)*3 : (y*r.size+x1)*3]
		for x := x0; x < x1; x++ {
			h := &r.tap[x]
			a, b, c, d := top[h.at], top[h.at+1], bottom[h.at], bottom[h.at+1]
			if a != b || a != c || a != d { // else the mean is a itself
				a = mix(v, h, a, b, c, d, 0) | mix(v, h, a, b, c, d, 8) | mix(v, h, a, b, c, d, 16)
			}
			out[0], out[1], out[2] = byte(a), byte(a>>8), byte(a>>16)
			out = out[3:]
		}
	}
}

// mix is one channel of a pixel of the scaled picture.
func mix(v, h *tap, a, b, c, d Color, shift uint) Color {
	top := uint32(a>>shift&0xff)*h.w0 + uint32(b>>shift&0xff)*h.w1
	bottom := uint32(c>>shift&0xff)*h.w0 + uint32(d>>shift&0xff)*h.w1
	sum := v.w0*(top>>4)>>16 + v.w1*(bottom>>4)>>16
	return Color((sum+2)>>2) << shift
}

// reach is the run of results that depend on pixels [from, to).
func (r *Resizer) reach(from, to int) (lo, hi int) {
	for lo < r.size && r.tap[lo].at+1 < from {
		lo++
	}
	hi = lo
	for hi < r.size && r.tap[hi].at < to {
		hi++
	}
	return lo, hi
}
