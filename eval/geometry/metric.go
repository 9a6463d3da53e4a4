package geometry

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"scalewm/dataset/parallel"
)

// Metric is a linear map of latents of D numbers to K. It compares latents by the squared
// distance of their images. The mean of the latents does not matter, nor does the intercept
// of a readout.
type Metric struct {
	a *mat.Dense // K x D
}

// Readout returns the metric of the ridge regression that predicts q from latents z, with
// the penalty of the linear probes and an intercept without penalty. Its distances are
// those of q, in q's units.
func Readout(z Samples[float32], q Samples[float64]) (Metric, error) {
	mean := means(z)
	y := mat.NewDense(q.N, q.D, q.X)
	y.CloneFrom(y) // center changes it
	center(y, q.N)
	// With fewer samples than numbers, the weights are X'(XX' + ridge)^-1 Y, which equals
	// (X'X + ridge)^-1 X'Y.
	wide := z.D > z.N
	var gramian *mat.SymDense
	if wide {
		gramian = gram(z, mean)
	} else {
		gramian = mat.NewSymDense(z.D, nil)
		gramian.SymOuterK(1, block(z, 0, z.D, mean).T())
	}
	for i := range gramian.SymmetricDim() {
		gramian.SetSym(i, i, gramian.At(i, i)+ridge)
	}
	target := y
	if !wide {
		target = sumsOver(z, mean, y)
	}
	var chol mat.Cholesky
	var w mat.Dense
	if !chol.Factorize(gramian) {
		return Metric{}, fmt.Errorf("the ridge regression on %d latents is singular (hint: look for NaN or infinite latents)", z.N)
	}
	if err := chol.SolveTo(&w, target); err != nil {
		return Metric{}, err
	}
	if wide {
		w = *sumsOver(z, mean, &w)
	}
	return Metric{mat.DenseCopyOf(w.T())}, nil
}

// sumsOver returns X'Y, D x Y's columns, for the centred samples X.
func sumsOver(z Samples[float32], mean []float64, y *mat.Dense) *mat.Dense {
	_, k := y.Dims()
	out := mat.NewDense(z.D, k, nil)
	for from := 0; from < z.D; from += columns {
		n := min(columns, z.D-from)
		out.Slice(from, from+n, 0, k).(*mat.Dense).Mul(block(z, from, n, mean).T(), y)
	}
	return out
}

// Leading returns the metric of the first k components of the samples z, of which c are the
// components. It returns an error if there are fewer.
func (c Components) Leading(z Samples[float32], k int) (Metric, error) {
	if k > len(c.Eigenvalues) {
		return Metric{}, fmt.Errorf("the latents have %d principal components, not %d (hint: topk=%d or less)", len(c.Eigenvalues), k, len(c.Eigenvalues))
	}
	// The sum over samples of score k times the sample is axis k, times the squared norm of
	// the scores.
	scores := mat.DenseCopyOf(c.scores.Slice(0, z.N, 0, k))
	a := mat.DenseCopyOf(sumsOver(z, means(z), scores).T())
	for i := range k {
		row := a.Slice(i, i+1, 0, z.D).(*mat.Dense)
		row.Scale(1/(c.Eigenvalues[i]*float64(z.N-1)), row)
	}
	return Metric{a}, nil
}

// whitened is the share of the largest eigenvalue up to which Whitening leaves components
// out: predictions of bf16 GEMMs differ by more than such components vary.
const whitened = 1e-6

// Whitening returns the metric of the components of z, of which c are the components, each
// divided by its standard deviation: Mahalanobis distance.
func (c Components) Whitening(z Samples[float32]) (Metric, error) {
	k := 0
	for k < len(c.Eigenvalues) && c.Eigenvalues[k] > whitened*c.Eigenvalues[0] {
		k++
	}
	m, err := c.Leading(z, k)
	return m.scaled(func(i int) float64 { return 1 / math.Sqrt(c.Eigenvalues[i]) }), err
}

// Averaged returns the metric whose squared distances are divided by D, as the costs of
// models are that average over a latent.
func (m Metric) Averaged() Metric {
	_, d := m.a.Dims()
	return m.scaled(func(int) float64 { return 1 / math.Sqrt(float64(d)) })
}

// scaled returns the metric with row i of its map multiplied by by(i).
func (m Metric) scaled(by func(i int) float64) Metric {
	if m.a == nil {
		return m
	}
	k, d := m.a.Dims()
	out := mat.NewDense(k, d, nil)
	out.Apply(func(i, _ int, v float64) float64 { return v * by(i) }, m.a)
	return Metric{out}
}

// metricRows is the number of latents that Costs maps at a time. Results do not depend on it.
const metricRows = 64

// Costs sets costs[i] to the squared distance between latent i of z, n x D, and goal i/each
// of goals. If grad is not nil, it receives the gradients with respect to z, n x D.
func (m Metric) Costs(costs, grad, z, goals []float32, each int) {
	k, d := m.a.Dims()
	batches := (len(costs) + metricRows - 1) / metricRows
	parallel.For(context.Background(), parallel.Workers(0, batches), batches, func(_, b int) error { // no iteration returns an error
		from := b * metricRows
		n := min(metricRows, len(costs)-from)
		diff, image := mat.NewDense(n, d, nil), mat.NewDense(n, k, nil)
		for i := range n {
			row, goal := diff.RawRowView(i), goals[(from+i)/each*d:]
			for j, v := range z[(from+i)*d:][:d] {
				row[j] = float64(v) - float64(goal[j])
			}
		}
		image.Mul(diff, m.a.T())
		for i := range n {
			sum := 0.0
			for _, v := range image.RawRowView(i) {
				sum += v * v
			}
			costs[from+i] = float32(sum)
		}
		if grad == nil {
			return nil
		}
		diff.Mul(image, m.a)
		for i := range n {
			for j, v := range diff.RawRowView(i) {
				grad[(from+i)*d+j] = float32(2 * v)
			}
		}
		return nil
	})
}
