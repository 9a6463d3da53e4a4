package nn

import (
	"math"
	"slices"
	"testing"
)

// TestResamplePositions compares with torch 2.15's interpolate(mode="bicubic",
// align_corners=False) of the 3 x 3 grid, in float64. The second column is 10 minus the
// first, since the weights of a point sum to 1.
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
		got := ResamplePositions(table, 2, 3, to, 3/float64(to))
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
