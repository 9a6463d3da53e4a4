package geometry

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Leverage returns the metric leverage of each component: its part 2*lambda in the
// expected squared distance of two samples (docs/sources.md#latent-analyses).
func (c Components) Leverage() []float64 {
	out := append([]float64(nil), c.Eigenvalues...)
	floats.Scale(2, out)
	return out
}

// Readout returns the share of the expected squared distance of two samples that a
// linear readout of q carries: the share of the variance that regressing the samples on
// the prediction of q from all components explains. It is 1 if the samples vary in
// nothing but q, and small if q is read from directions of little variance. A readout
// that predicts noise carries about D of the number of components.
//
// With weights W, variances L (diagonal) and the left singular vectors u of sqrt(L)*W,
// the explained variance is the sum of u'Lu.
func (c Components) Readout(q Samples[float64], order []int) (float64, error) {
	_, _, w, err := c.fit(q, order, 0, len(c.Eigenvalues))
	if err != nil {
		return 0, err
	}
	w.Apply(func(k, _ int, v float64) float64 { return v * math.Sqrt(c.Eigenvalues[k]) }, w)
	var svd mat.SVD
	if !svd.Factorize(w, mat.SVDThin) {
		return 0, errors.New("the readout of the task state has no singular values (hint: look for NaN or infinite latents)")
	}
	var u mat.Dense
	svd.UTo(&u)
	explained := 0.0
	for j, v := range svd.Values(nil) {
		if v <= 1e-9 { // q is standardised: a component that does not vary adds no direction
			continue
		}
		for k, lambda := range c.Eigenvalues {
			explained += lambda * u.At(k, j) * u.At(k, j)
		}
	}
	return explained / floats.Sum(c.Eigenvalues), nil
}

// Contrast is a pair of samples whose distances disagree.
type Contrast struct {
	Samples [2]int
	Z, Q    float64 // percentiles of its distances among those of all pairs, 0 to 100
}

// Contrasts returns up to n pairs that are near in z and far in q, and as many that are
// far in z and near in q. Each is the pair with the largest difference of percentiles
// among those of episodes that no earlier pair of its list is from. Of equal pairs it is
// the first.
func (d *Distances) Contrasts(n int) (near, far []Contrast) {
	z, q := d.z.percentiles(), d.q.percentiles()
	find := func(sign float64) (out []Contrast) {
		used := make([]bool, d.episodes)
		for range n {
			best, most := Contrast{}, 0.0
			k := 0
			for i, e := range d.episode {
				for j, f := range d.episode[i+1:] {
					if by := sign * float64(q[k]-z[k]); by > most && !used[e] && !used[f] {
						best, most = Contrast{[2]int{i, i + 1 + j}, float64(z[k]), float64(q[k])}, by
					}
					k++
				}
			}
			if most == 0 {
				break
			}
			used[d.episode[best.Samples[0]]], used[d.episode[best.Samples[1]]] = true, true
			out = append(out, best)
		}
		return out
	}
	return find(1), find(-1)
}

// percentiles returns the percentile of each pair's distance, 0 for the smallest and 100
// for the largest. Equal distances have the same one.
func (s sorted) percentiles() []float32 {
	n := len(s.pairs)
	ones, inOrder, out := make([]float64, n), make([]float32, n), make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	s.ranks(inOrder, ones)
	for k, pair := range s.pairs {
		out[pair] = 100 * (inOrder[k] - 1) / float32(max(n-1, 1))
	}
	return out
}
