package raster

import "math"

// Resizer scales square pictures like OpenCV's bilinear resize for 8-bit images: no
// low-pass filter, fixed-point weights with 11 fractional bits, and a vertical pass that
// drops low bits before it multiplies.
type Resizer struct {
	size int   // edge of the result in pixels
	tap  []tap // one per row, and, the pictures being square, per column
}

// tap gives the two source pixels of a row or column of the result, at and at+1, and
// their fixed-point weights.
type tap struct {
	at     int
	w0, w1 uint32
}

// weightOne is 1 in fixed-point notation (INTER_RESIZE_COEF_SCALE of OpenCV).
const weightOne = 1 << 11

// NewResizer returns a Resizer from pictures of from x from pixels to size x size.
func NewResizer(from, size int) *Resizer {
	r := &Resizer{size: size, tap: make([]tap, size)}
	scale := float64(from) / float64(size)
	for i := range r.tap {
		// Pixel centres are at i + 0.5. OpenCV computes in double and stores a float.
		f := float32(float64((float64(i)+0.5)*scale) - 0.5)
		at := int(math.Floor(float64(f)))
		f -= float32(at)
		if at < 0 {
			at, f = 0, 0
		}
		// At the edge there is no second pixel. OpenCV uses the last pixel alone, which
		// is expressed here as weight 1 on the second of a pair.
		if at >= from-1 {
			at, f = from-2, 1
		}
		r.tap[i] = tap{at, weight(1 - f), weight(f)}
	}
	return r
}

// weight converts a weight in [0, 1] to fixed-point, halves to even (cvRound).
func weight(f float32) uint32 { return uint32(math.RoundToEven(float64(f * weightOne))) }

// Draw scales src, but writes to dst (size x size RGB bytes) only the pixels that depend
// on the given area of src.
func (r *Resizer) Draw(dst []byte, src *Canvas, area Rect) {
	x0, x1 := r.affected(area.X0, area.X1)
	y0, y1 := r.affected(area.Y0, area.Y1)
	for y := y0; y < y1; y++ {
		v := &r.tap[y]
		top := src.Pix[v.at*src.W : (v.at+1)*src.W]
		bottom := src.Pix[(v.at+1)*src.W : (v.at+2)*src.W]
		out := dst[(y*r.size+x0)*3 : (y*r.size+x1)*3]
		for x := x0; x < x1; x++ {
			h := &r.tap[x]
			a, b, c, d := top[h.at], top[h.at+1], bottom[h.at], bottom[h.at+1]
			// Most pixels lie in an area of one colour, whose mean is that colour exactly.
			if a != b || a != c || a != d {
				a = mix(v, h, a, b, c, d, 0) | mix(v, h, a, b, c, d, 8) | mix(v, h, a, b, c, d, 16)
			}
			out[0], out[1], out[2] = byte(a), byte(a>>8), byte(a>>16)
			out = out[3:]
		}
	}
}

// mix returns one channel of a pixel of the result. The shifts by 4, 16 and 2 and the
// rounding are those of OpenCV's vertical pass (VResizeLinear for uchar).
func mix(v, h *tap, a, b, c, d Color, shift uint) Color {
	top := uint32(a>>shift&0xff)*h.w0 + uint32(b>>shift&0xff)*h.w1
	bottom := uint32(c>>shift&0xff)*h.w0 + uint32(d>>shift&0xff)*h.w1
	sum := v.w0*(top>>4)>>16 + v.w1*(bottom>>4)>>16
	return Color((sum+2)>>2) << shift
}

// affected returns the range [lo, hi) of results that depend on source pixels [from, to).
func (r *Resizer) affected(from, to int) (lo, hi int) {
	for lo < r.size && r.tap[lo].at+1 < from {
		lo++
	}
	hi = lo
	for hi < r.size && r.tap[hi].at < to {
		hi++
	}
	return lo, hi
}
