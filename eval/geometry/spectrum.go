package geometry

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"scalewm/eval/stats"
)

// Components are the principal components of samples.
type Components struct {
	// Eigenvalues are those of the covariance (divisor N-1), in descending order.
	// Those up to 1e-10 of the largest are omitted, as in the authors' analyses.
	Eigenvalues []float64
	scores      *mat.Dense    // N x components: coordinates of the centred samples
	products    *mat.SymDense // N x N dot products of the centred samples, if they are wide
}

// minEigenvalue is the share of the largest eigenvalue up to which a component is
// considered rounding noise.
const minEigenvalue = 1e-10

// ErrConstant is returned if all latents are equal, so that they have no geometry.
var ErrConstant = errors.New("all latents are equal (hint: the model has collapsed, or its weights are not those of a training)")

// Analyse computes the principal components of samples. It decomposes the covariance,
// D x D, or the Gram matrix of the centred samples, N x N, whichever is smaller. Both
// have the same nonzero eigenvalues, up to the factor N-1.
func Analyse[T float32 | float64](s Samples[T]) (Components, error) {
	mean := means(s)
	product := mat.NewSymDense(min(s.N, s.D), nil)
	narrow := s.D <= s.N
	var centred *mat.Dense
	if narrow {
		centred = block(s, 0, s.D, mean)
		product.SymOuterK(1, centred.T())
	} else {
		product = gram(s, mean)
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(product, true) {
		return Components{}, errors.New("the eigenvalues of the latents do not converge (hint: look for NaN or infinite latents)")
	}
	values := eigen.Values(nil) // ascending
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	// Count the eigenvalues to retain, from the largest down.
	kept, top := 0, len(values)-1
	for kept <= top && values[top-kept] > values[top]*minEigenvalue {
		kept++
	}
	if kept == 0 || !(values[top] > 0) {
		return Components{}, ErrConstant
	}
	c := Components{Eigenvalues: make([]float64, kept), scores: &mat.Dense{}}
	axes := mat.NewDense(top+1, kept, nil)
	for k := range kept {
		c.Eigenvalues[k] = values[top-k] / float64(s.N-1)
		axes.SetCol(k, mat.Col(nil, top-k, &vectors))
	}
	if s.D >= wideSamples && !narrow {
		c.products = product
	}
	// Scores are the samples projected on the covariance's eigenvectors, or the Gram
	// matrix's eigenvectors scaled by the square roots of their eigenvalues.
	if narrow {
		c.scores.Mul(centred, axes)
	} else {
		c.scores.Apply(func(_, k int, v float64) float64 { return v * math.Sqrt(values[top-k]) }, axes)
	}
	c.fixSigns()
	return c, nil
}

// fixSigns makes the largest score of each component, by absolute value, positive.
// The sign of an eigenvector is arbitrary, but a probe with a hidden layer depends on
// it.
func (c Components) fixSigns() {
	for k := range c.Eigenvalues {
		column := mat.Col(nil, k, c.scores)
		far := 0
		for i, v := range column {
			if math.Abs(v) > math.Abs(column[far]) {
				far = i
			}
		}
		if column[far] < 0 {
			floats.Scale(-1, column)
			c.scores.SetCol(k, column)
		}
	}
}

// Spectrum returns the share of each component in the variance.
func (c Components) Spectrum() []float64 {
	s := append([]float64(nil), c.Eigenvalues...)
	floats.Scale(1/floats.Sum(s), s)
	return s
}

// ParticipationRatio returns (sum of eigenvalues)^2 / (sum of squared eigenvalues),
// an effective number of dimensions.
func (c Components) ParticipationRatio() float64 {
	sum := floats.Sum(c.Eigenvalues)
	return sum * sum / floats.Dot(c.Eigenvalues, c.Eigenvalues)
}

// Stretch returns the ratio of the 90th and the 10th percentile of |dz| / |dq| over
// pairs of samples. It is 1 for an isometry. Pairs with equal q are left out. If
// there are no other pairs, Stretch returns NaN.
func Stretch[T float32 | float64](z Samples[T], q Samples[float64], pairs [][2]int) float64 {
	q = Standardised(q)
	var ratios []float64
	for _, p := range pairs {
		if dq := distance(q.Row(p[0]), q.Row(p[1])); dq > 0 {
			ratios = append(ratios, distance(z.Row(p[0]), z.Row(p[1]))/dq)
		}
	}
	if len(ratios) == 0 {
		return math.NaN()
	}
	slices.Sort(ratios)
	return stats.Quantile(ratios, 0.9) / stats.Quantile(ratios, 0.1)
}

// ridge is the penalty of the linear probe, as in scikit-learn's Ridge(alpha=1e-2).
const ridge = 1e-2

// Linear fits a ridge regression with intercept that predicts the standardised q from
// the first k components, or from all of them if there are fewer. It is fitted on the
// first half of the samples in order. Linear returns R2 on the second half for each
// component of q, or NaN for one that does not vary there.
func (c Components) Linear(q Samples[float64], order []int, k int) (r2 []float64, err error) {
	return c.linear(q, order, 0, min(k, len(c.Eigenvalues)))
}

// LinearOfLast is Linear for the last k components, as a control.
func (c Components) LinearOfLast(q Samples[float64], order []int, k int) (r2 []float64, err error) {
	k = min(k, len(c.Eigenvalues))
	return c.linear(q, order, len(c.Eigenvalues)-k, k)
}

// LinearOfOne is Linear for component k alone, counted from 0.
func (c Components) LinearOfOne(q Samples[float64], order []int, k int) (r2 []float64, err error) {
	return c.linear(q, order, k, 1)
}

// linear is Linear for the k components that begin with from.
func (c Components) linear(q Samples[float64], order []int, from, k int) ([]float64, error) {
	half := len(order) / 2
	x, y, w, err := c.fit(q, order, from, k)
	if err != nil {
		return nil, err
	}
	var guess mat.Dense
	guess.Mul(x.Slice(half, len(order), 0, k), w)
	r2 := make([]float64, q.D)
	for j := range r2 {
		r2[j] = rSquared(mat.Col(nil, j, y.Slice(half, len(order), 0, q.D)), mat.Col(nil, j, &guess))
	}
	return r2, nil
}

// fit returns the scores x of k components, beginning with from, and the standardised q
// as y, both in the given order and centred with the means of the fitted half, which is
// equivalent to an intercept without penalty. w has the k x D weights of the ridge
// regression, from a Cholesky decomposition of the normal equations.
func (c Components) fit(q Samples[float64], order []int, from, k int) (x, y, w *mat.Dense, err error) {
	half := len(order) / 2
	x, y, w = c.ordered(order, from, k), targets(q, order), &mat.Dense{}
	center(x, half)
	center(y, half)
	fitX, fitY := x.Slice(0, half, 0, k), y.Slice(0, half, 0, q.D)
	var gram mat.SymDense
	gram.SymOuterK(1, fitX.T())
	for i := range k {
		gram.SetSym(i, i, gram.At(i, i)+ridge)
	}
	var chol mat.Cholesky
	var target mat.Dense
	target.Mul(fitX.T(), fitY)
	if !chol.Factorize(&gram) {
		return nil, nil, nil, fmt.Errorf("the ridge regression on %d components is singular (hint: look for NaN or infinite latents)", k)
	}
	return x, y, w, chol.SolveTo(w, &target)
}

// ordered returns the scores of k components, beginning with from, of the samples in
// the given order.
func (c Components) ordered(order []int, from, k int) *mat.Dense {
	out := mat.NewDense(len(order), k, nil)
	for i, at := range order {
		out.SetRow(i, c.scores.RawRowView(at)[from:from+k])
	}
	return out
}

// targets returns the standardised q of the samples in the given order.
func targets(q Samples[float64], order []int) *mat.Dense {
	q = Standardised(q)
	y := mat.NewDense(len(order), q.D, nil)
	for i, at := range order {
		y.SetRow(i, q.Row(at))
	}
	return y
}

// center subtracts from each column the mean of its first n rows.
func center(m *mat.Dense, n int) {
	r, c := m.Dims()
	for j := range c {
		mean, _ := stats.MeanSD(mat.Col(nil, j, m)[:n])
		for i := range r {
			m.Set(i, j, m.At(i, j)-mean)
		}
	}
}

// rSquared returns 1 - residual variation / total variation of y, or NaN if y does
// not vary.
func rSquared(y, guess []float64) float64 {
	mean, _ := stats.MeanSD(y)
	var residual, total float64
	for i := range y {
		residual += (y[i] - guess[i]) * (y[i] - guess[i])
		total += (y[i] - mean) * (y[i] - mean)
	}
	if total == 0 {
		return math.NaN()
	}
	return 1 - residual/total
}

// distance returns the Euclidean distance.
func distance[T float32 | float64](a, b []T) float64 {
	var s float64
	for k := range a {
		d := float64(a[k]) - float64(b[k])
		s += d * d
	}
	return math.Sqrt(s)
}
