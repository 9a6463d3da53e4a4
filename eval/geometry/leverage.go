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

// Explained returns the share of the expected squared distance of two samples that is
// due to q: the share of the variance that a linear regression of the samples on q
// explains. It is 0 if q says nothing about the samples.
func (c Components) Explained(q Samples[float64]) (float64, error) {
	u, err := columnSpace(mat.NewDense(q.N, q.D, Standardised(q).X))
	if err != nil || u == nil {
		return 0, err
	}
	var part mat.Dense
	part.Mul(u.T(), c.scores)
	of := mat.Norm(&part, 2) / mat.Norm(c.scores, 2) // Frobenius
	return of * of, nil
}

// columnSpace returns an orthonormal basis of the columns of m, or nil if all are 0. A
// column that is a combination of others, up to rounding, adds nothing.
func columnSpace(m *mat.Dense) (mat.Matrix, error) {
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDThin) {
		return nil, errors.New("the singular values of the task state do not converge (hint: look for NaN or infinite values)")
	}
	rank, values := 0, svd.Values(nil) // descending
	for rank < len(values) && values[rank] > 1e-9*values[0] {
		rank++
	}
	if rank == 0 {
		return nil, nil
	}
	var u mat.Dense
	svd.UTo(&u)
	rows, _ := u.Dims()
	return u.Slice(0, rows, 0, rank), nil
}

// Readout returns the share of the expected squared distance of two samples that a
// linear readout of q carries, be it accurate or not: the share of the variance that
// regressing the samples on the readout from all components explains. It is small if q
// is read from directions of little variance. A readout that predicts noise carries
// about D of the number of components.
//
// With weights W, variances L (diagonal) and an orthonormal basis u of the columns of
// sqrt(L)*W, the explained variance is the sum of u'Lu.
func (c Components) Readout(q Samples[float64], order []int) (float64, error) {
	_, _, w, err := c.fit(q, order, 0, len(c.Eigenvalues))
	if err != nil {
		return 0, err
	}
	w.Apply(func(k, _ int, v float64) float64 { return v * math.Sqrt(c.Eigenvalues[k]) }, w)
	u, err := columnSpace(w)
	if err != nil || u == nil {
		return 0, err
	}
	_, rank := u.Dims()
	explained := 0.0
	for k, lambda := range c.Eigenvalues {
		for j := range rank {
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
