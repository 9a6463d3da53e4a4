package objective

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Health describes the latents of a batch (docs/sources.md#latent-health).
type Health struct {
	NormMean, NormStd float64 // of the latents' lengths, ddof 1
	EffectiveRank     float64 // exp of the entropy of the covariance's normalised spectrum
}

// Measure computes Health of n rows of width d.
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
	h.EffectiveRank = rankOf(z, mean)
	return h
}

func rankOf(z, mean []float64) float64 {
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

// EffectiveRank is the exponential of the entropy of a spectrum: eigenvalues of
// a covariance, of any scale, divided by their sum.
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
