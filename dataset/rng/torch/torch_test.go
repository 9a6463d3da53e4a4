package torch

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// fixture is testdata/draws.json, the output of testdata/fixture.py with PyTorch.
// Floats are stored as their bits.
type fixture struct {
	Uniform []struct {
		Seed     uint32
		From, To float64
		Bits     []int32
	}
	Normal []struct {
		Seed uint32
		Bits []int32
	}
	Candidates struct {
		Shape       []int
		SumOfBits   int64 `json:"sum_of_bits"`
		First, Last []int32
	}
	Linear []struct {
		Name      string
		Shape     []int
		SumOfBits int64 `json:"sum_of_bits"`
		First     []int32
	}
}

func load(t *testing.T) (f fixture) {
	t.Helper()
	b, err := os.ReadFile("testdata/draws.json")
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// equal compares the bits of floats with expected ones.
func equal(t *testing.T, what string, got []float32, want []int32) {
	t.Helper()
	wrong := 0
	for i, w := range want {
		if g := int32(math.Float32bits(got[i])); g != w {
			if wrong++; wrong < 4 {
				t.Errorf("%s [%d]: %x, want %x", what, i, g, w)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d differ", what, wrong, len(want))
	}
}

func sumOfBits(x []float32) (sum int64) {
	for _, v := range x {
		sum += int64(int32(math.Float32bits(v)))
	}
	return sum
}

func TestUniform(t *testing.T) {
	for _, c := range load(t).Uniform {
		got := make([]float32, len(c.Bits))
		New(c.Seed).Uniform(got, c.From, c.To)
		equal(t, "uniform", got, c.Bits)
	}
}

func TestNormal(t *testing.T) {
	f := load(t)
	for _, c := range f.Normal {
		got := make([]float32, len(c.Bits))
		New(c.Seed).Normal(got)
		equal(t, "normal", got, c.Bits)
	}
	n := 1
	for _, s := range f.Candidates.Shape {
		n *= s
	}
	got := make([]float32, n)
	New(7).Normal(got)
	equal(t, "candidates", got, f.Candidates.First)
	equal(t, "last candidates", got[n-16:], f.Candidates.Last)
	if sum := sumOfBits(got); sum != f.Candidates.SumOfBits {
		t.Errorf("candidates: sum of bits %d, want %d", sum, f.Candidates.SumOfBits)
	}
}

// nn.Linear draws its weights and then its biases, uniform within ±1/sqrt(inputs).
func TestLinear(t *testing.T) {
	g := New(0)
	in := 0
	for _, c := range load(t).Linear {
		n := c.Shape[0]
		if len(c.Shape) == 2 {
			in = c.Shape[1]
			n *= in
		}
		got := make([]float32, n)
		bound := 1 / math.Sqrt(float64(in))
		g.Uniform(got, -bound, bound)
		equal(t, c.Name, got, c.First)
		if sum := sumOfBits(got); sum != c.SumOfBits {
			t.Errorf("%s: sum of bits %d, want %d", c.Name, sum, c.SumOfBits)
		}
	}
}

// boxMuller is compared with the same transform in float64, by package math.
func TestBoxMullerAgainstMath(t *testing.T) {
	g := New(11)
	u := make([]float32, 16000)
	for i := range u {
		u[i] = g.uniform()
	}
	z := append([]float32(nil), u...)
	for i := 0; i < len(z); i += blockSize {
		boxMuller(z[i : i+blockSize])
		for j := range blockSize / 2 {
			r := math.Sqrt(-2 * math.Log(1-float64(u[i+j])))
			a := 2 * math.Pi * float64(u[i+j+8])
			if d := math.Hypot(float64(z[i+j])-r*math.Cos(a), float64(z[i+j+8])-r*math.Sin(a)); d > 4e-6 {
				t.Fatalf("%v, %v: off by %v", u[i+j], u[i+j+8], d)
			}
		}
	}
}
