package analysis

import "testing"

// nearest finds the latent with the smallest squared distance, and the first of
// equally near ones.
func TestNearest(t *testing.T) {
	all := []float32{0, 0, 3, 4, 1, 1, 1, 1}
	for _, c := range []struct {
		z    []float32
		want int
	}{{[]float32{2, 4}, 1}, {[]float32{1, 1}, 2}, {[]float32{-1, -9}, 0}} {
		if got := nearest(all, c.z); got != c.want {
			t.Errorf("nearest to %v is %d, want %d", c.z, got, c.want)
		}
	}
}
