package envs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var factorSpec = &Spec{Name: "varied", Switches: []Switch{{Name: "mode", Values: []string{"plain", "fancy"}}}, Factors: []Factor{
	{Name: "color", DType: "uint8", High: 255, Init: []float64{1, 2, 3}},
	{Name: "size", DType: "float32", Low: 1, High: 2, Init: []float64{1.5}},
	{Name: "place", DType: "float64", Low: -1, High: 1, Init: []float64{0, 0}, Sampled: true},
	{Name: "doors", DType: "int64", Low: 1, High: 3, Init: []float64{1}},
}}

// boxed is a factor with a range for each number.
var boxed = Factor{Name: "corner", DType: "float64", Low: -3, High: 5, Ranges: [][2]float64{{4, 5}, {-3, -2}}, Init: []float64{4, -3}}

func TestRangesOfEachNumber(t *testing.T) {
	for text, ok := range map[string]bool{"4,-3": true, "5,-2": true, "-3,4": false, "4.5,-1.9": false} {
		if _, err := boxed.parse(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	var sum, x [2]float64
	for range 1000 {
		boxed.Draw(r, x[:])
		if err := boxed.check(x[:]); err != nil {
			t.Fatal(err)
		}
		sum[0], sum[1] = sum[0]+x[0], sum[1]+x[1]
	}
	// Means of 4.5 and -2.5, with a standard error of 0.009.
	if sum[0] < 4450 || sum[0] > 4550 || sum[1] < -2550 || sum[1] > -2450 {
		t.Errorf("sums %v", sum)
	}
}

func variation(t *testing.T, o Options) *Variation {
	t.Helper()
	o, err := factorSpec.Resolve(o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := factorSpec.Variation(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func anything(string, []float64) bool { return true }

// Factors that no option names have no effect: no option, no column, no draw.
func TestFactorsAreOffByDefault(t *testing.T) {
	o, err := factorSpec.Resolve(nil)
	if err != nil || len(o) != 1 || len(factorSpec.Recorded(o)) != 0 {
		t.Errorf("%v, %v, columns %v", o, err, factorSpec.Recorded(o))
	}
	v := variation(t, nil)
	values, err := v.Draw(nil, anything)
	if err != nil || &values[0] != &v.Start()[0] || !slices.Equal(values, []float64{1, 2, 3, 1.5, 0, 0, 1}) {
		t.Errorf("%v, %v", values, err)
	}
	if n := testing.AllocsPerRun(10, func() { v.Draw(nil, anything) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestResolveFactors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"color", "0, 255,7", "0,255,7"}, {"color", Sample, Sample}, {"size", "1.10", "1.1"}, {"place", "-1e0,1", "-1,1"}, {"doors", "2", "2"},
		{"color", "0,1", ""}, {"color", "0,1,256", ""}, {"color", "0,1,-1", ""}, {"color", "0,1,1.5", ""}, {"color", "", ""},
		{"size", "NaN", ""}, {"size", "Inf", ""}, {"size", "0.999", ""}, {"size", "big", ""}, {"doors", "2.5", ""}, {"colour", "0,0,0", ""},
	} {
		o, err := factorSpec.Resolve(Options{c.name: c.value})
		if (err != nil) != (c.want == "") || o[c.name] != c.want {
			t.Errorf("%s=%s: %v, %v", c.name, c.value, o, err)
		}
		if err != nil && !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("no hint: %v", err)
		}
	}
}

func TestDrawnFactors(t *testing.T) {
	v := variation(t, Options{"color": Sample, "size": Sample, "doors": Sample, "place": Sample})
	if !v.Drawn("size") || v.Drawn("place") || v.Fixed("size") {
		t.Error("what is drawn")
	}
	r := rand.New(rand.NewPCG(1, 1))
	doors := map[float64]int{}
	for range 3000 {
		x, err := v.Draw(r, func(name string, values []float64) bool { return name != "size" || v.Of(values, "size")[0] < 1.25 })
		if err != nil {
			t.Fatal(err)
		}
		size := v.Of(x, "size")[0]
		if size < 1 || size >= 1.25 || size != float64(float32(size)) || !slices.Equal(v.Of(x, "place"), []float64{0, 0}) {
			t.Fatalf("%v", x)
		}
		for _, c := range v.Of(x, "color") {
			if c != float64(byte(c)) {
				t.Fatalf("%v", x)
			}
		}
		doors[v.Of(x, "doors")[0]]++
	}
	if len(doors) != 3 || doors[1] < 850 || doors[3] < 850 {
		t.Errorf("doors %v", doors)
	}
	never := func(name string, _ []float64) bool { return name != "size" }
	if _, err := v.Draw(r, never); err == nil || !strings.Contains(err.Error(), "none of 1000 draws of size") {
		t.Errorf("a factor that nothing fits: %v", err)
	}
	if _, err := variation(t, Options{"size": "1.25"}).Draw(r, never); err == nil || !strings.Contains(err.Error(), "size=1.25 does not fit") {
		t.Errorf("a fixed factor that does not fit: %v", err)
	}
}

func TestReadFactors(t *testing.T) {
	v := variation(t, nil)
	x, err := v.Read(Row{"variation.size": {1.5}, "state": {7}, "variation.place": {1, 1}}, v.Start())
	if err != nil || &x[0] != &v.Start()[0] {
		t.Errorf("nothing new: %v, %v", x, err)
	}
	x, err = v.Read(Row{"variation.size": {2}, "variation.doors": {3}}, v.Start())
	if err != nil || !slices.Equal(x, []float64{1, 2, 3, 2, 0, 0, 3}) || v.Start()[3] != 1.5 {
		t.Errorf("%v, %v", x, err)
	}
	dst := make([]float64, 3)
	if err := v.Observe(x, "variation.color", dst); err != nil || !slices.Equal(dst, []float64{1, 2, 3}) {
		t.Errorf("%v, %v", dst, err)
	}
	for _, row := range []Row{{"variation.size": {3}}, {"variation.size": {1, 1}}, {"variation.doors": {1.5}}} {
		if _, err := v.Read(row, x); err == nil || !strings.Contains(err.Error(), "variation.") {
			t.Errorf("%v: %v", row, err)
		}
	}
	for _, column := range []string{"color", "variation.colour", "variation.size"} {
		if err := v.Observe(x, column, dst); err == nil {
			t.Errorf("observed %s", column)
		}
	}
}
