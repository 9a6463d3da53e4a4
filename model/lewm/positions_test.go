package lewm

import (
	"math"
	"slices"
	"testing"
)

// resamplePositions is a ViT's position table, a class token's row and from x
// from patches' of so many columns, for frames of to x to patches: bicubic as
// transformers' interpolate_pos_encoding asks PyTorch (pixel centres, borders
// repeated, no smoothing when it shrinks).
func resamplePositions(table []float64, columns, from, to int) []float64 {
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

// TestResamplePositions: the numbers are torch 2.15's interpolate(mode="bicubic",
// align_corners=False) of the 3 x 3 grid, in float64; the second column is 10
// minus the first, since the weights of a point sum to 1.
func TestResamplePositions(t *testing.T) {
	table := []float64{77, 78}
	for _, v := range []float64{0, 1, 4, 2, 8, 3, 5, 7, 6} {
		table = append(table, v, 10-v)
	}
	for to, want := range map[int][]float64{
		2: {0.825927734375, 3.510711669922, 5.165802001953, 5.889114379883},
		3: {0, 1, 4, 2, 8, 3, 5, 7, 6},
		4: {-0.189572095871, -0.126142978668, 1.85596871376, 4.328325271606, 0.616825580597, 4.197082519531, 5.175625324249, 2.847252845764,
			2.934149026871, 7.055566310883, 7.370803117752, 3.652679443359, 5.092385292053, 6.389300346375, 6.859515190125, 6.164162635803},
	} {
		got := resamplePositions(table, 2, 3, to)
		if !slices.Equal(got[:2], table[:2]) || len(got) != 2+2*len(want) {
			t.Fatalf("%d x %d: the class token's row is %v, %d numbers", to, to, got[:2], len(got))
		}
		for i, w := range want {
			if a, b := got[2+2*i], got[3+2*i]; math.Abs(a-w) > 1e-11 || math.Abs(b-(10-w)) > 1e-11 {
				t.Errorf("%d x %d, patch %d: %g and %g, want %g", to, to, i, a, b, w)
			}
		}
	}
}
