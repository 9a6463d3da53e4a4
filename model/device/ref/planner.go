package ref

import (
	"math"

	"scalewm/model/device"
)

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
			_, variance := moments(h, func(i int) float64 { return y[i*a+c] })
			std := max(math.Sqrt(variance*float64(h)/float64(h-1)), 1e-8)
			for i := range h {
				y[i*a+c] /= std
			}
		}
	}
}

func (engine) Clip(dst, low, high device.Mat) {
	lo, hi := row(low, 0), row(high, 0)
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = min(max(out[c], lo[c]), hi[c])
		}
	}
}

// chosen are the candidates in idx of episode e, of k each, as rows of cand.
func chosen(cand device.Mat, idx device.Ints, e, k int) [][]float64 {
	episodes := idx.Len() / k
	rows := make([][]float64, k)
	for i := range rows {
		rows[i] = row(cand, e*(cand.Rows/episodes)+int(idx.(ints)[e*k+i]))
	}
	return rows
}

func (engine) Softmin(weights, costs device.Mat, idx device.Ints, temperature float64) {
	for e := range weights.Rows {
		w, lowest, sum := row(weights, e), math.Inf(1), 0.0
		for i := range w {
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

func (engine) Gather(dst, cand device.Mat, idx device.Ints, k int) {
	episodes := idx.Len() / k
	n := dst.Rows / episodes
	for e := range episodes {
		for i, x := range chosen(cand, idx, e, k)[:n] {
			copy(row(dst, e*n+i), x)
		}
	}
}

func (engine) Lerp(dst, x device.Mat, keep float64) {
	for r := range dst.Rows {
		for c, out := 0, row(dst, r); c < dst.Cols; c++ {
			out[c] = keep*out[c] + (1-keep)*row(x, r)[c]
		}
	}
}
