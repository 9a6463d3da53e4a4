package pusht

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// Comparison with the GNU C library (testdata/make_sincos.py), bit for bit.
func TestSincos(t *testing.T) {
	b, err := os.ReadFile("testdata/sincos.txt")
	if err != nil {
		t.Fatal(err)
	}
	nearest, n := 0, 0
	for line := range strings.Lines(string(b)) {
		var x, sin, cos float64
		if _, err := fmt.Sscan(line, &x, &sin, &cos); err != nil {
			t.Fatal(err)
		}
		if s, c := sincos(x); s != sin || c != cos {
			t.Errorf("sincos(%v) = %v, %v; want %v, %v", x, s, c, sin, cos)
		}
		if s, c := math.Sincos(x); s == sin && c == cos {
			nearest++
		}
		n++
	}
	if n != 600 || nearest == n {
		t.Errorf("%d angles, of which math.Sincos gets %d right: too easy", n, nearest)
	}
}

func TestSincosOfAnything(t *testing.T) {
	for _, c := range []struct{ x, sin, cos float64 }{
		{0, 0, 1}, {math.Copysign(0, -1), 0, 1}, {1e-300, 1e-300, 1}, {math.Pi / 2, 1, 6.123233995736766e-17}, {-math.Pi / 2, -1, 6.123233995736766e-17},
	} {
		if s, k := sincos(c.x); s != c.sin || k != c.cos {
			t.Errorf("sincos(%g) = %g, %g", c.x, s, k)
		}
	}
	for _, x := range []float64{1e8, -1e12, 1e300, 105414350, 105414349.9} {
		s, c := sincos(x)
		ws, wc := math.Sincos(x)
		if math.Abs(s-ws) > 1e-15 || math.Abs(c-wc) > 1e-15 {
			t.Errorf("sincos(%g) = %g, %g; want %g, %g", x, s, c, ws, wc)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		if s, c := sincos(x); s == s || c == c {
			t.Errorf("sincos(%g) = %g, %g", x, s, c)
		}
	}
}
