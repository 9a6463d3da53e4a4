package nn

import "math"

// ResamplePositions resamples the position table of a ViT from a grid of from x from
// patches to one of to x to patches. table has 1 + from*from rows of the given number
// of columns. The first row belongs to the class token and is copied.
//
// The interpolation is bicubic, as in PyTorch's interpolate with align_corners=False
// and antialias=False: pixel centres are at half-integers, ratio is the number of old
// patches per new patch, and indices beyond the border are clamped. It computes in
// the type F, as PyTorch does in that of its input.
func ResamplePositions[F float32 | float64](table []F, columns, from, to int, ratio F) []F {
	out := make([]F, (1+to*to)*columns)
	copy(out, table[:columns])
	grid, taps := table[columns:], bicubic(from, to, ratio)
	for y := range to {
		for x := range to {
			row := out[(1+y*to+x)*columns:][:columns]
			for _, v := range taps[y] {
				for _, h := range taps[x] {
					w, src := v.weight*h.weight, grid[(v.at*from+h.at)*columns:]
					for c := range row {
						row[c] += w * src[c]
					}
				}
			}
		}
	}
	return out
}

// tap is an index along an axis of the old grid, and its weight.
type tap[F any] struct {
	at     int
	weight F
}

// bicubic returns the four samples and weights for each of the to points of an axis,
// with Keys' cubic convolution kernel and PyTorch's parameter a = -0.75. near is the
// kernel for distances up to 1, far for distances from 1 to 2.
func bicubic[F float32 | float64](from, to int, ratio F) [][4]tap[F] {
	const a = -0.75
	near := func(d F) F { return ((a+2)*d-(a+3))*d*d + 1 }
	far := func(d F) F { return ((a*d-5*a)*d+8*a)*d - 4*a }
	out := make([][4]tap[F], to)
	for i := range out {
		center := ratio*(F(i)+0.5) - 0.5
		first := F(math.Floor(float64(center)))
		d := center - first
		for k, w := range [4]F{far(1 + d), near(d), near(1 - d), far(2 - d)} {
			out[i][k] = tap[F]{min(max(int(first)-1+k, 0), from-1), w}
		}
	}
	return out
}
