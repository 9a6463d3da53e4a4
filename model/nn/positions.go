package nn

import "math"

// ResamplePositions is a ViT's position table, a class token's row and to x to
// patches', made from one of from x from patches: rows of so many columns. It is
// bicubic as PyTorch's interpolate without smoothing, in the same precision: pixel
// centres, ratio old pixels a new one, borders repeated.
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

// tap is a sample and its weight.
type tap[F any] struct {
	at     int
	weight F
}

// bicubic is the samples of each point of an axis, by Keys' kernel with
// PyTorch's a = -0.75.
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
