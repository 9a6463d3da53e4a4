package objective

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Health describes the latents of a batch (docs/sources.md#latent-health). A falling
// effective rank shows a partial collapse of the latents that the losses may hide.
type Health struct {
	// NormMean and NormStd are the mean and the standard deviation (divisor n-1) of the
	// Euclidean norms of the latents.
	NormMean, NormStd float64
	// EffectiveRank is the effective rank of the covariance, from 1 to D.
	EffectiveRank float64
}

// Measure computes the Health of latents z, n rows of d numbers.
func Measure(z []float64, d int) Health {
	n := len(z) / d
	norms := make([]float64, n)
	mean := make([]float64, d)
	for i := range n {
		for j, v := range z[i*d : (i+1)*d] {
			norms[i] += v * v
			mean[j] += v / float64(n)
		}
		norms[i] = math.Sqrt(norms[i])
	}
	var h Health
	for _, v := range norms {
		h.NormMean += v / float64(n)
	}
	for _, v := range norms {
		h.NormStd += (v - h.NormMean) * (v - h.NormMean) / float64(n-1)
	}
	h.NormStd = math.Sqrt(h.NormStd)
	h.EffectiveRank = covarianceRank(z, mean)
	return h
}

// covarianceRank returns the effective rank of the covariance of the rows of z, or 0
// if the eigenvalue iteration does not converge. It does not divide the sums by n,
// since the effective rank does not depend on the scale.
func covarianceRank(z, mean []float64) float64 {
	d := len(mean)
	x := mat.NewDense(len(z)/d, d, nil)
	for i, v := range z {
		x.Set(i/d, i%d, v-mean[i%d])
	}
	var cov mat.SymDense
	cov.SymOuterK(1, x.T())
	var eig mat.EigenSym
	if !eig.Factorize(&cov, false) {
		return 0 // did not converge
	}
	return EffectiveRank(eig.Values(nil))
}

// EffectiveRank returns the exponential of the entropy of a spectrum, the eigenvalues
// of a covariance divided by their sum. It is k if k eigenvalues are equal and all
// others zero. The scale of the values does not matter, and negative values, which
// rounding produces, count as 0.
func EffectiveRank(values []float64) float64 {
	var sum, entropy float64
	for _, v := range values {
		sum += math.Max(v, 0)
	}
	for _, v := range values {
		if p := v / sum; p > 0 {
			entropy -= p * math.Log(p)
		}
	}
	return math.Exp(entropy)
}
