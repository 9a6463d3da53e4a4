package stats

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// PCA are the principal components of n samples.
type PCA struct {
	// Eigenvalues of the covariance (divisor n-1), descending; those below
	// 1e-10 of the largest are left out (SCALE authors' analyses).
	Eigenvalues []float64
	scores      *mat.Dense // n x components: coordinates of the centred samples
}

// minEigenvalue is the share of the largest eigenvalue below which a component
// is rounding noise.
const minEigenvalue = 1e-10

// Components analyses the rows of z, one sample each. It decomposes the smaller
// one of the covariance and the Gram matrix of the centred samples, so wide
// latents cost no more than narrow ones.
func Components(z [][]float64) (PCA, error) {
	c := centred(z)
	n, d := c.Dims()
	var product mat.SymDense
	if d <= n {
		product.SymOuterK(1, c.T())
	} else {
		product.SymOuterK(1, c)
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(&product, true) {
		return PCA{}, errors.New("the eigenvalues of the latents do not converge (hint: look for NaN or infinite latents)")
	}
	values := eigen.Values(nil) // ascending
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	kept := 0
	top := len(values) - 1
	for kept <= top && values[top-kept] > values[top]*minEigenvalue {
		kept++
	}
	p := PCA{Eigenvalues: make([]float64, kept), scores: &mat.Dense{}}
	if kept == 0 { // all samples are equal
		return p, nil
	}
	axes := mat.NewDense(top+1, kept, nil)
	for k := range kept {
		p.Eigenvalues[k] = values[top-k] / float64(n-1)
		axes.SetCol(k, mat.Col(nil, top-k, &vectors))
	}
	if d <= n {
		p.scores.Mul(c, axes)
	} else {
		p.scores.Apply(func(_, k int, v float64) float64 { return v * math.Sqrt(values[top-k]) }, axes)
	}
	return p, nil
}

// centred is z as a matrix whose columns have mean 0.
func centred(z [][]float64) *mat.Dense {
	m := mat.NewDense(len(z), len(z[0]), nil)
	for i, row := range z {
		m.SetRow(i, row)
	}
	center(m, len(z))
	return m
}

// Spectrum is the share of each component in the variance.
func (p PCA) Spectrum() []float64 {
	s := append([]float64(nil), p.Eigenvalues...)
	floats.Scale(1/floats.Sum(s), s)
	return s
}

// ParticipationRatio is (sum of eigenvalues)^2 / sum of their squares.
func (p PCA) ParticipationRatio() float64 {
	sum := floats.Sum(p.Eigenvalues)
	return sum * sum / floats.Dot(p.Eigenvalues, p.Eigenvalues)
}

// RidgeR2 predicts q (a row a sample) linearly from the first k components. The
// samples are taken in the given order: the first half is fitted with the ridge
// penalty, the second half gives R2 for each dimension of q
// (docs/sources.md#latent-analyses).
func (p PCA) RidgeR2(q [][]float64, k int, order []int, ridge float64) ([]float64, error) {
	half := len(order) / 2
	x, y := rows(p.scores, order, k), mat.NewDense(len(order), len(q[0]), nil)
	for i, at := range order {
		y.SetRow(i, q[at])
	}
	center(x, half)
	center(y, half)
	fitX, fitY := x.Slice(0, half, 0, k), y.Slice(0, half, 0, len(q[0]))
	var gram mat.SymDense
	gram.SymOuterK(1, fitX.T())
	for i := range k {
		gram.SetSym(i, i, gram.At(i, i)+ridge)
	}
	var chol mat.Cholesky
	var target, w, guess mat.Dense
	target.Mul(fitX.T(), fitY)
	if !chol.Factorize(&gram) {
		return nil, errors.New("the ridge regression on the components is singular (hint: look for NaN or infinite latents)")
	}
	if err := chol.SolveTo(&w, &target); err != nil {
		return nil, err
	}
	guess.Mul(x.Slice(half, len(order), 0, k), &w)
	r2 := make([]float64, len(q[0]))
	for j := range r2 {
		r2[j] = rSquared(mat.Col(nil, j, y.Slice(half, len(order), 0, len(r2))), mat.Col(nil, j, &guess))
	}
	return r2, nil
}

// rows takes rows of m in an order, and their first k columns.
func rows(m *mat.Dense, order []int, k int) *mat.Dense {
	out := mat.NewDense(len(order), k, nil)
	for i, at := range order {
		out.SetRow(i, m.RawRowView(at)[:k])
	}
	return out
}

// center subtracts from each column the mean of its first n rows.
func center(m *mat.Dense, n int) {
	r, c := m.Dims()
	for j := range c {
		mean, _ := MeanSD(mat.Col(nil, j, m)[:n])
		for i := range r {
			m.Set(i, j, m.At(i, j)-mean)
		}
	}
}

// rSquared is 1 - residual / total variation of y.
func rSquared(y, guess []float64) float64 {
	mean, _ := MeanSD(y)
	var residual, total float64
	for i := range y {
		residual += (y[i] - guess[i]) * (y[i] - guess[i])
		total += (y[i] - mean) * (y[i] - mean)
	}
	return 1 - residual/total
}

// Alignment says how distances of latents follow distances of task states.
type Alignment struct {
	Pearson, Spearman float64
	Pairs             int
}

// DistanceAlignment correlates the squared Euclidean distances of all pairs of
// samples in z with those in q. The caller standardises q
// (docs/sources.md#latent-analyses).
func DistanceAlignment(z, q [][]float64) Alignment {
	dz, dq := squaredDistances(z), squaredDistances(q)
	return Alignment{Pearson: Pearson(dz, dq), Spearman: Spearman(dz, dq), Pairs: len(dz)}
}

// squaredDistances of the pairs i < j, i-major.
func squaredDistances(x [][]float64) []float64 {
	out := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i, a := range x {
		for _, b := range x[i+1:] {
			var d float64
			for k := range a {
				d += (a[k] - b[k]) * (a[k] - b[k])
			}
			out = append(out, d)
		}
	}
	return out
}
