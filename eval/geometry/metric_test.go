package geometry

import (
	"math"
	"testing"

	"scalewm/dataset/rng"
)

// random returns n samples of d numbers; column j has the deviation 1/(j+1) about j.
func random(n, d int, name string) Samples[float32] {
	r, s := rng.Stream(name), Samples[float32]{N: n, D: d, X: make([]float32, n*d)}
	for i := range s.X {
		j := i % d
		s.X[i] = float32(float64(j) + r.NormFloat64()/float64(j+1))
	}
	return s
}

// plainCost is the squared distance of two latents in a metric, term by term.
func plainCost(m Metric, z, goal []float32) (sum float64) {
	k, d := m.a.Dims()
	for i := range k {
		image := 0.0
		for j := range d {
			image += m.a.At(i, j) * (float64(z[j]) - float64(goal[j]))
		}
		sum += image * image
	}
	return sum
}

// A readout fitted to a q that is linear in the latents gives the distances of that q, with
// more samples than numbers and with fewer (the dual form).
func TestReadoutGivesDistancesOfTheState(t *testing.T) {
	for _, n := range []int{60, 5} {
		z := random(n, 7, "readout")
		q := Samples[float64]{N: n, D: 2, X: make([]float64, 2*n)}
		for i := range n {
			x := z.Row(i)
			q.X[2*i], q.X[2*i+1] = 30*float64(x[0])-20*float64(x[3])+4, 50*float64(x[6])
		}
		m, err := Readout(z, q)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 1)
		m.Costs(got, nil, z.Row(1), z.Row(3), 1)
		want := (q.X[2]-q.X[6])*(q.X[2]-q.X[6]) + (q.X[3]-q.X[7])*(q.X[3]-q.X[7])
		if math.Abs(float64(got[0])-want) > 0.02*want { // the penalty shrinks it
			t.Errorf("%d samples: squared distance %g, that of q is %g", n, got[0], want)
		}
	}
}

// The primal and the dual form of the ridge regression are equal.
func TestReadoutFormsAgree(t *testing.T) {
	z := random(12, 12, "forms") // N = D: primal
	q := Samples[float64]{N: 12, D: 1, X: make([]float64, 12)}
	for i := range q.X {
		q.X[i] = float64(i * i % 7)
	}
	primal, err := Readout(z, q)
	if err != nil {
		t.Fatal(err)
	}
	wide := Samples[float32]{N: 12, D: 13, X: nil} // one more column, of zeros: dual
	for i := range 12 {
		wide.X = append(append(wide.X, z.Row(i)...), 0)
	}
	dual, err := Readout(wide, q)
	if err != nil {
		t.Fatal(err)
	}
	for j := range 12 {
		if a, b := primal.a.At(0, j), dual.a.At(0, j); math.Abs(a-b) > 1e-8*(1+math.Abs(a)) {
			t.Errorf("weight %d is %g in the primal and %g in the dual form", j, a, b)
		}
	}
}

// All components keep all distances, the leading ones have the variance of the components,
// and whitening gives every direction the same mean squared distance.
func TestMetricsOfComponents(t *testing.T) {
	z := random(400, 5, "components")
	c, err := Analyse(z)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Leading(z, 5)
	if err != nil {
		t.Fatal(err)
	}
	a, b := z.Row(7), z.Row(19)
	want := 0.0
	for j := range a {
		want += math.Pow(float64(a[j])-float64(b[j]), 2)
	}
	if got := plainCost(all, a, b); math.Abs(got-want) > 1e-6*want {
		t.Errorf("all components give %g, not the squared distance %g", got, want)
	}
	if got := plainCost(all.Averaged(), a, b); math.Abs(got-want/5) > 1e-6*want {
		t.Errorf("averaged, they give %g, not %g", got, want/5)
	}
	white, err := c.Whitening(z)
	if err != nil {
		t.Fatal(err)
	}
	two, err := c.Leading(z, 2)
	if err != nil {
		t.Fatal(err)
	}
	// Over all ordered pairs the mean squared distance is 2 x the variance (divisor N) in each
	// direction: 2*5*(399/400) whitened, 2*(l1+l2)*(399/400) in two components.
	var whiteSum, twoSum float64
	for i := range z.N {
		for j := range z.N {
			whiteSum += plainCost(white, z.Row(i), z.Row(j)) / float64(z.N*z.N)
			twoSum += plainCost(two, z.Row(i), z.Row(j)) / float64(z.N*z.N)
		}
	}
	share := 399.0 / 400
	if want := 10 * share; math.Abs(whiteSum-want) > 1e-4 {
		t.Errorf("whitened, the mean squared distance is %g, not %g", whiteSum, want)
	}
	if want := 2 * (c.Eigenvalues[0] + c.Eigenvalues[1]) * share; math.Abs(twoSum-want) > 1e-4 {
		t.Errorf("in two components the mean squared distance is %g, not %g", twoSum, want)
	}
	if _, err := c.Leading(z, 6); err == nil {
		t.Error("six components of five are no error")
	}
}

// Wide samples have the same leading components as their Gram matrix says.
func TestLeadingOfWideSamples(t *testing.T) {
	z := random(6, 20, "wide")
	c, err := Analyse(z)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Leading(z, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for j := range z.D { // 6 points have 5 components, which keep their distances
		want += math.Pow(float64(z.Row(0)[j])-float64(z.Row(5)[j]), 2)
	}
	if got := plainCost(m, z.Row(0), z.Row(5)); math.Abs(got-want) > 1e-5*want {
		t.Errorf("five components of six points give %g, not %g", got, want)
	}
}

// Costs of many latents equal those of single ones, and their gradients finite differences.
func TestCostsOfAMetric(t *testing.T) {
	z := random(150, 4, "costs") // more than one batch
	goals := random(3, 4, "goals")
	c, err := Analyse(z)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Leading(z, 3)
	if err != nil {
		t.Fatal(err)
	}
	costs, grad := make([]float32, 150), make([]float32, 600)
	m.Costs(costs, grad, z.X, goals.X, 50)
	for _, i := range []int{0, 49, 50, 63, 64, 149} {
		want := plainCost(m, z.Row(i), goals.Row(i/50))
		if math.Abs(float64(costs[i])-want) > 1e-6*want {
			t.Errorf("latent %d costs %g, not %g", i, costs[i], want)
		}
		for j := range 4 {
			moved := append([]float32(nil), z.Row(i)...)
			const h = 1.0 / 256
			moved[j] += h
			up := plainCost(m, moved, goals.Row(i/50))
			moved[j] -= 2 * h
			slope := (up - plainCost(m, moved, goals.Row(i/50))) / (2 * h)
			if math.Abs(float64(grad[4*i+j])-slope) > 1e-3*(1+math.Abs(slope)) {
				t.Errorf("the gradient of latent %d by number %d is %g, finite differences say %g", i, j, grad[4*i+j], slope)
			}
		}
	}
}
