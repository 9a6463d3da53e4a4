package clear

import (
	"math"
	"testing"

	"scalewm/eval/success"
)

func init() { families["rotation"] = testRotation }

// degreesTolerance is the tolerance of an angle that is an arccosine, which is inexact near 1.
func degreesTolerance(degrees float64) float64 {
	if degrees < 0.01 {
		return 2e-6
	}
	return 1e-8
}

func testRotation(t *testing.T, path string) {
	var f struct {
		Pairs []struct {
			A         [4]float64 `json:"a"`
			B         [4]float64 `json:"b"`
			Degrees   float64    `json:"degrees"`
			Symmetric float64    `json:"degrees_symmetric"`
		} `json:"pairs"`
	}
	load(t, path, &f)
	for i, c := range f.Pairs {
		if got := success.Turn(c.A, c.B); !(math.Abs(got-c.Degrees) <= degreesTolerance(c.Degrees)) {
			t.Errorf("pair %d: %.12g degrees, want %.12g", i, got, c.Degrees)
		}
		if got := success.CubeTurn(c.A, c.B); !(math.Abs(got-c.Symmetric) <= degreesTolerance(c.Symmetric)) {
			t.Errorf("pair %d: %.12g degrees up to symmetry, want %.12g", i, got, c.Symmetric)
		}
	}
}
