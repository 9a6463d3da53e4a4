package nn

import "math"

// ResamplePositions is a ViT's position table, a class token's row and from x
// from patches' of so many columns, for frames of to x to patches: bicubic as
// transformers' interpolate_pos_encoding asks PyTorch (pixel centres, borders
// repeated, no smoothing when it shrinks).
func ResamplePositions(table []float64, columns, from, to int) []float64 {
	out := make([]float64, (1+to*to)*columns)
	copy(out, table[:columns])
	grid, taps := table[columns:], bicubic(from, to)
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

// tap is a sample and its weight.
type tap struct {
	at     int
	weight float64
}

// bicubic is the samples of each point of an axis, by Keys' kernel with
// PyTorch's a = -0.75.
func bicubic(from, to int) [][4]tap {
	const a = -0.75
	near := func(d float64) float64 { return ((a+2)*d-(a+3))*d*d + 1 }
	far := func(d float64) float64 { return ((a*d-5*a)*d+8*a)*d - 4*a }
	out := make([][4]tap, to)
	for i := range out {
		center := (float64(i)+0.5)*float64(from)/float64(to) - 0.5
		first := math.Floor(center)
		d := center - first
		for k, w := range [4]float64{far(1 + d), near(d), near(1 - d), far(2 - d)} {
			out[i][k] = tap{min(max(int(first)-1+k, 0), from-1), w}
		}
	}
	return out
}
