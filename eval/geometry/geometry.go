// Package geometry measures the geometry of latents
// (docs/sources.md#latent-analyses): how well their distances agree with those of the
// task state, how their variance is distributed over directions, and what probes can
// predict from them.
//
// Compare and Distances.Align compute the correlation of distances. Analyse computes
// principal components, whose methods give the spectrum and the probes
// (Components.Linear, Components.MLP). The package takes numbers and returns numbers.
// It does not depend on models or data sets.
//
//	geometry.go   samples and the distances of their pairs
//	align.go      rank and linear correlation of distances, with their interval
//	leverage.go   what components and a readout of q contribute to distances
//	spectrum.go   principal components, their spectrum, linear probes
//	mlp.go        the probe with a hidden layer
package geometry

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"scalewm/dataset/parallel"
)

// Samples holds N samples of D numbers each, N x D in row-major order: latents, or
// task states.
type Samples[T float32 | float64] struct {
	N, D int
	X    []T
}

// Row returns sample i.
func (s Samples[T]) Row(i int) []T { return s.X[i*s.D : (i+1)*s.D] }

// Standardised returns the samples z-scored by component (divisor N). A component
// that does not vary becomes 0. Sums are added in the order of the samples, as NumPy
// does along the first axis: distances that are equal there are then equal here too,
// which matters for ranks.
func Standardised(s Samples[float64]) Samples[float64] {
	out := Samples[float64]{s.N, s.D, make([]float64, len(s.X))}
	mean := means(s)
	for j := range s.D {
		variance := 0.0
		for i := range s.N {
			d := s.Row(i)[j] - mean[j]
			variance += d * d
		}
		sd := math.Sqrt(variance / float64(s.N))
		for i := range s.N {
			if sd > 0 {
				out.Row(i)[j] = (s.Row(i)[j] - mean[j]) / sd
			}
		}
	}
	return out
}

// wideSamples is the number of components from which distances are computed from dot
// products, which the principal components need anyway, instead of component by
// component.
const wideSamples = 4096

// SquaredDistances returns the squared distances of all pairs of samples i < j, in
// the order (0,1), (0,2), ..., (1,2), ... Each is a sum in the order of the
// components, as in SciPy's pdist, so that pairs with equal distances have equal
// numbers.
//
// For wide samples the distances come from the dot products in c, the samples'
// principal components. Otherwise c may be the zero Components.
func SquaredDistances[T float32 | float64](s Samples[T], c Components) []float64 {
	out := make([]float64, s.N*(s.N-1)/2)
	if g := c.products; g != nil {
		for i, k := 0, 0; i < s.N; i++ {
			for j := i + 1; j < s.N; j, k = j+1, k+1 {
				out[k] = max(0, g.At(i, i)+g.At(j, j)-2*g.At(i, j)) // rounding can make it negative
			}
		}
		return out
	}
	x := make([]float64, len(s.X))
	for i, v := range s.X {
		x[i] = float64(v)
	}
	parallel.For(context.Background(), parallel.Workers(0, s.N), s.N, func(_, i int) error { // no iteration returns an error
		from := i*s.N - i*(i+1)/2
		distancesFrom(out[from:from+s.N-1-i], x[i*s.D:(i+1)*s.D], x[(i+1)*s.D:])
		return nil
	})
	return out
}

// distancesFrom computes the squared distances between a and consecutive samples in
// rest. It computes four sums at a time: they are independent, so that the latencies
// of their additions overlap. The order of additions within a sum does not change.
func distancesFrom(dst, a, rest []float64) {
	d := len(a)
	for len(dst) >= 4 {
		b0, b1, b2, b3 := rest[:d], rest[d:2*d], rest[2*d:3*d], rest[3*d:4*d]
		var s0, s1, s2, s3 float64
		for k, v := range a {
			d0, d1, d2, d3 := v-b0[k], v-b1[k], v-b2[k], v-b3[k]
			s0 += d0 * d0
			s1 += d1 * d1
			s2 += d2 * d2
			s3 += d3 * d3
		}
		dst[0], dst[1], dst[2], dst[3] = s0, s1, s2, s3
		dst, rest = dst[4:], rest[4*d:]
	}
	for i := range dst {
		var s float64
		for k, v := range a {
			s += (v - rest[i*d+k]) * (v - rest[i*d+k])
		}
		dst[i] = s
	}
}

// columns is the number of components of wide samples that gram converts to float64
// at a time, and rows the number of samples in a tile, which stay in the L1 cache
// while all others are read.
const (
	columns = 512
	rows    = 4
)

// gram returns the N x N matrix of dot products of the samples minus their mean. It
// works on blocks of columns, so that latents of 98,304 numbers need no copy in
// float64. Each product is summed in the same order for any number of cores.
func gram[T float32 | float64](s Samples[T], mean []float64) *mat.SymDense {
	g := make([]float64, s.N*s.N)
	tiles := (s.N + rows - 1) / rows
	for from := 0; from < s.D; from += columns {
		b := block(s, from, min(columns, s.D-from), mean)
		parallel.For(context.Background(), parallel.Workers(0, tiles), tiles, func(_, tile int) error { // no iteration returns an error
			for j := tile * rows; j < s.N; j++ {
				for i := tile * rows; i < min(tile*rows+rows, j+1); i++ {
					g[i*s.N+j] += floats.Dot(b.RawRowView(i), b.RawRowView(j))
				}
			}
			return nil
		})
	}
	return mat.NewSymDense(s.N, g)
}

// block returns n components, beginning with from, minus their means, as N x n.
func block[T float32 | float64](s Samples[T], from, n int, mean []float64) *mat.Dense {
	b := mat.NewDense(s.N, n, nil)
	for i := range s.N {
		row := b.RawRowView(i)
		for k, v := range s.Row(i)[from : from+n] {
			row[k] = float64(v) - mean[from+k]
		}
	}
	return b
}

// means returns the mean of each component.
func means[T float32 | float64](s Samples[T]) []float64 {
	m := make([]float64, s.D)
	for i := range s.N {
		for k, v := range s.Row(i) {
			m[k] += float64(v)
		}
	}
	for k := range m {
		m[k] /= float64(s.N)
	}
	return m
}
