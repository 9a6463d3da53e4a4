package hdf5test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The expected numbers are those that testdata/tree.py writes with h5py.
func TestTree(t *testing.T) {
	f := Open(t, "testdata/tree.h5")
	if d := cmp.Diff([]string{"a/deep/double", "a/half", "a/single", "bytes", "flags", "long", "none", "scalar", "words"}, f.Names()); d != "" {
		t.Error(d)
	}
	double := make([]float64, 24)
	for i := range double {
		double[i] = float64(i)
	}
	for name, want := range map[string]struct {
		values []float64
		shape  []int
	}{
		"a/half": {[]float64{1, -0.5, 65504}, []int{1, 3}}, "a/single": {[]float64{float64(float32(1.0 / 3))}, []int{1}},
		"a/deep/double": {double, []int{2, 3, 4}}, "bytes": {[]float64{0, 255}, []int{2}}, "flags": {[]float64{1, 0, 1}, []int{3}},
		"long": {[]float64{-1 << 40}, []int{1}}, "scalar": {[]float64{7.5}, nil}, "none": {[]float64{}, []int{0, 3}},
	} {
		values, shape, err := f.Read(name)
		if err != nil || !cmp.Equal(want.values, values) || !cmp.Equal(want.shape, shape) {
			t.Errorf("%s: %v of %v, %v", name, values, shape, err)
		}
	}
	for _, name := range []string{"nothing", "a", "words"} {
		if _, _, err := f.Read(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTreeAttributes(t *testing.T) {
	f := Open(t, "testdata/tree.h5")
	for name, want := range map[string]float64{"lr": 5e-5, "steps": 12, "on": 1} {
		if v, text, err := f.Attr("a", name); v != want || text != "" || err != nil {
			t.Errorf("%s: %g %q %v", name, v, text, err)
		}
	}
	for name, want := range map[string]string{"recipe": "z: plain; q: 3z + é", "fixed": "fixed"} {
		if _, text, err := f.Attr("a", name); text != want || err != nil {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	for _, name := range []string{"list", "missing"} {
		if _, _, err := f.Attr("a", name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
