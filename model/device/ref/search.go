package ref

import (
	"math"
	"slices"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

// SumSquares: dst = the sum of x^2.
func (engine) SumSquares(dst, x device.Mat) {
	var sum float64
	for r := range x.Rows {
		sum += dot(row(x, r), row(x, r))
	}
	set(dst, sum)
}

// AdamW is PyTorch's AdamW with clipping by the global norm in front of it. c1 and c2
// are the bias corrections of the first and second moment.
func (engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	clip := 1.0
	// 1e-6 as in torch.nn.utils.clip_grad_norm_.
	if o.MaxNorm > 0 {
		clip = min(1, o.MaxNorm/(math.Sqrt(scalar(sumsq))+1e-6))
	}
	c1, c2 := 1-math.Pow(o.Beta1, float64(o.Step)), 1-math.Pow(o.Beta2, float64(o.Step))
	ps, ms, vs := row(p, 0), row(m, 0), row(v, 0)
	for i, grad := range row(g, 0) {
		grad *= clip
		// Decoupled decay first, then the moments, then the step.
		ps[i] *= 1 - o.LR*o.Decay
		ms[i] = o.Beta1*ms[i] + (1-o.Beta1)*grad
		vs[i] = o.Beta2*vs[i] + (1-o.Beta2)*grad*grad
		ps[i] -= o.LR / c1 * ms[i] / (math.Sqrt(vs[i])/math.Sqrt(c2) + o.Eps)
	}
}

// Normal: element i of group e is number offset+i of stream keys[e].
func (engine) Normal(dst device.Mat, keys []uint64, offset uint64) {
	rows := dst.Rows / len(keys)
	for r := range dst.Rows {
		// A group's elements are numbered row-major from offset, whatever dst's
		// stride.
		out, first := row(dst, r), offset+uint64(r%rows*dst.Cols)
		for c := range out {
			out[c] = rng.Normal(keys[r/rows], first+uint64(c))
		}
	}
}

// Candidates: dst = mean + std*noise, except that candidate 0 of each episode is the
// mean.
func (engine) Candidates(dst, mean, std, noise device.Mat) {
	count := dst.Rows / mean.Rows
	for r := range dst.Rows {
		out, n, mu, sd := row(dst, r), row(noise, r), row(mean, r/count), row(std, r/count)
		for c := range out {
			if r%count == 0 {
				out[c] = mu[c]
				continue
			}
			out[c] = mu[c] + sd[c]*n[c]
		}
	}
}

// NaNToInf: !(v < +Inf) holds for NaN and +Inf.
func (engine) NaNToInf(x, count device.Mat) {
	for r := range x.Rows {
		for c, v := range row(x, r) {
			if !(v < math.Inf(1)) {
				row(x, r)[c] = math.Inf(1)
				row(count, r)[0]++
			}
		}
	}
}

// SmallestK sorts all costs. The stable sort resolves ties by the lower index.
func (engine) SmallestK(idx device.Ints, costs device.Mat, k int) {
	for r := range costs.Rows {
		cost := row(costs, r)
		order := make([]int32, len(cost))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortStableFunc(order, func(a, b int32) int { return worse(cost[a], cost[b]) })
		copy(idx.(ints)[r*k:], order[:k])
	}
}

// worse compares two costs for sorting; NaN comes after every number.
func worse(a, b float64) int {
	switch {
	case a < b || (!math.IsNaN(a) && math.IsNaN(b)):
		return -1
	case b < a || (!math.IsNaN(b) && math.IsNaN(a)):
		return 1
	}
	return 0
}

// Moments: mean and, with divisor k-1, standard deviation of the chosen candidates of
// each episode.
func (engine) Moments(mean, std, cand device.Mat, idx device.Ints, k int) {
	count := cand.Rows / mean.Rows
	for e := range mean.Rows {
		chosen := idx.(ints)[e*k : (e+1)*k]
		for c := range mean.Cols {
			m, variance := moments(k, func(i int) float64 { return row(cand, e*count+int(chosen[i]))[c] })
			row(mean, e)[c] = m
			if std.IsSet() {
				row(std, e)[c] = math.Sqrt(variance * float64(k) / float64(k-1))
			}
		}
	}
}

// Color convolves each series circularly with taps and divides it by its standard
// deviation (divisor H-1), at least 1e-8.
func (engine) Color(dst, noise, taps device.Mat) {
	h, tap := taps.Cols, row(taps, 0)
	a := noise.Cols / h
	for r := range noise.Rows {
		x, y := row(noise, r), row(dst, r)
		for c := range a {
			for i := range h {
				sum := 0.0
				for j := range h {
					sum += tap[(i-j+h)%h] * x[j*a+c]
				}
				y[i*a+c] = sum
			}
			// moments divides by h; the divisor of the contract is h-1.
			_, variance := moments(h, func(i int) float64 { return y[i*a+c] })
			std := max(math.Sqrt(variance*float64(h)/float64(h-1)), 1e-8)
			for i := range h {
				y[i*a+c] /= std
			}
		}
	}
}

// Clip: Go's min and max return NaN if an operand is NaN.
func (engine) Clip(dst, low, high device.Mat) {
	lo, hi := row(low, 0), row(high, 0)
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = min(max(out[c], lo[c]), hi[c])
		}
	}
}

// chosen returns, as rows of cand, the k candidates of episode e that idx lists.
func chosen(cand device.Mat, idx device.Ints, e, k int) [][]float64 {
	episodes := idx.Len() / k
	rows := make([][]float64, k)
	for i := range rows {
		rows[i] = row(cand, e*(cand.Rows/episodes)+int(idx.(ints)[e*k+i]))
	}
	return rows
}

// Softmin: w_i = exp(-(cost_i - lowest)/temperature), normalised. A cost equal to the
// lowest has weight 1 before normalisation even if both are infinite, when the
// difference would be NaN.
func (engine) Softmin(weights, costs device.Mat, idx device.Ints, temperature float64) {
	for e := range weights.Rows {
		w, lowest, sum := row(weights, e), math.Inf(1), 0.0
		for i := range w {
			// w holds the costs of the chosen candidates first.
			w[i] = row(costs, e)[idx.(ints)[e*len(w)+i]]
			lowest = min(lowest, w[i])
		}
		for i, cost := range w {
			w[i] = 1
			if cost != lowest {
				w[i] = math.Exp(-(cost - lowest) / temperature)
			}
			sum += w[i]
		}
		for i := range w {
			w[i] /= sum
		}
	}
}

// WeightedMean: mean = the sum of w_i x_i over the chosen candidates x_i.
func (engine) WeightedMean(mean, cand, weights device.Mat, idx device.Ints) {
	for e := range mean.Rows {
		out, w := row(mean, e), row(weights, e)
		clear(out)
		for i, x := range chosen(cand, idx, e, len(w)) {
			for c, v := range x {
				out[c] += w[i] * v
			}
		}
	}
}

// Gather copies the first n of the k chosen candidates of each episode.
func (engine) Gather(dst, cand device.Mat, idx device.Ints, k int) {
	episodes := idx.Len() / k
	n := dst.Rows / episodes
	for e := range episodes {
		for i, x := range chosen(cand, idx, e, k)[:n] {
			copy(row(dst, e*n+i), x)
		}
	}
}

// Lerp: dst = keep*dst + (1-keep)*x.
func (engine) Lerp(dst, x device.Mat, keep float64) {
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = keep*out[c] + (1-keep)*row(x, r)[c]
		}
	}
}
