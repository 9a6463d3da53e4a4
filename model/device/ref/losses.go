package ref

import (
	"math"

	"scalewm/model/device"
)

// MSE: loss = the mean of d^2 with d = pred - target. Its gradient is 2 d/n for pred
// and -2 d/n for target.
func (engine) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	var sum float64
	n := float64(pred.Len())
	for r := range pred.Rows {
		for c, v := range row(pred, r) {
			d := v - row(target, r)[c]
			sum += d * d
			if dpred.IsSet() {
				row(dpred, r)[c] += weight * 2 * d / n
			}
			if dtarget.IsSet() {
				row(dtarget, r)[c] -= weight * 2 * d / n
			}
		}
	}
	set(loss, sum/n)
}

// knots returns SIGReg's 17 points t_k = 3k/16, the characteristic function
// exp(-t^2/2) of the normal distribution there, and the weights: those of the
// trapezoidal rule, doubled, times the window exp(-t^2/2) (docs/sources.md#sigreg).
func knots() (t, ref, weight [17]float64) {
	const step = 3.0 / 16
	for k := range t {
		t[k] = step * float64(k)
		ref[k] = math.Exp(-t[k] * t[k] / 2)
		weight[k] = 2 * step * ref[k]
	}
	weight[0] /= 2
	weight[16] /= 2
	return t, ref, weight
}

// SIGReg, for each frame f and projection m, compares the means c_k and s_k over
// clips of cos(t_k u) and sin(t_k u) with (ref_k, 0). The loss is the mean over f and
// m of clips * sum_k w_k ((c_k - ref_k)^2 + s_k^2). In the gradient the factor
// `clips` cancels with the 1/clips of the means.
func (engine) SIGReg(loss, du, u device.Mat, frames int, weight float64) {
	t, ref, w := knots()
	clips, count := u.Rows/frames, float64(frames*u.Cols)
	var total float64
	for f := range frames {
		for m := range u.Cols {
			// The empirical characteristic function of this projection at every knot.
			var c, s [17]float64
			for b := range clips {
				for k := range t {
					sin, cos := math.Sincos(t[k] * row(u, b*frames+f)[m])
					c[k] += cos / float64(clips)
					s[k] += sin / float64(clips)
				}
			}
			for k := range t {
				total += float64(clips) * w[k] * ((c[k]-ref[k])*(c[k]-ref[k]) + s[k]*s[k]) / count
			}
			for b := range clips {
				if !du.IsSet() {
					break
				}
				// d(c_k)/du_b = -t_k sin(t_k u_b)/clips, d(s_k)/du_b = t_k cos(t_k
				// u_b)/clips.
				var g float64
				for k := range t {
					sin, cos := math.Sincos(t[k] * row(u, b*frames+f)[m])
					g += 2 * w[k] * t[k] * (s[k]*cos - (c[k]-ref[k])*sin) / count
				}
				row(du, b*frames+f)[m] = weight * g
			}
		}
	}
	set(loss, total)
}

// pair returns the two rows of z that pair k names.
func pair(z device.Mat, pairs device.Ints, k int) (a, b []float64) {
	p := pairs.(ints)
	return row(z, int(p[k])), row(z, int(p[len(p)/2+k]))
}

// PairDistance: dst[k] = |z_i - z_j|^2.
func (engine) PairDistance(dst, z device.Mat, pairs device.Ints) {
	out := row(dst, 0)
	for k := range out {
		a, b := pair(z, pairs, k)
		out[k] = 0
		for c := range a {
			out[k] += (a[c] - b[c]) * (a[c] - b[c])
		}
	}
}

// PairDistanceGrad: dz_i += 2 g (z_i - z_j) and dz_j -= the same, with g = ddist[k].
// A row may occur in many pairs.
func (engine) PairDistanceGrad(dz, ddist, z device.Mat, pairs device.Ints) {
	for k, g := range row(ddist, 0) {
		a, b := pair(z, pairs, k)
		da, db := pair(dz, pairs, k)
		for c := range a {
			v := 2 * g * (a[c] - b[c])
			da[c] += v
			db[c] -= v
		}
	}
}

// guard is the standard deviation below which Correlation gives up, as in the code of
// SCALE's authors. It is also the epsilon that is added to deviations.
const guard = 1e-6

// Correlation: corr = mean((x-mx)(y-my)) / (sx sy), where sx and sy are the standard
// deviations plus guard. The mean divides by K in both forms; the deviations divide
// by K-1 in the authors' form and by K in the paper's.
func (e engine) Correlation(result, dx, x, y device.Mat, form device.CorrelationForm, weight float64) {
	xs, ys, n := row(x, 0), row(y, 0), float64(x.Cols)
	divisor := n - 1
	if form == device.Paper {
		divisor = n
	}
	mx, vx := moments(x.Cols, func(i int) float64 { return xs[i] })
	my, vy := moments(y.Cols, func(i int) float64 { return ys[i] })
	// moments divides by n; change the divisor.
	dev, devY := math.Sqrt(vx*n/divisor), math.Sqrt(vy*n/divisor)
	if dx.IsSet() {
		e.Fill(dx, 0)
	}
	if dev < guard || devY < guard {
		row(result, 0)[0], row(result, 0)[1] = 0, 1
		return
	}
	sx, sy := dev+guard, devY+guard // both forms add an epsilon of the guard's size
	var corr float64
	for i := range xs {
		corr += (xs[i] - mx) * (ys[i] - my) / (sx * sy) / n
	}
	row(result, 0)[0], row(result, 0)[1] = 1-corr, 0
	for i := range xs {
		if dx.IsSet() {
			// The derivative of corr has two parts: that of the covariance, in which
			// the means cancel since the deviations sum to zero, and that of 1/sx,
			// with d(sx)/dx_i = (x_i - mx)/(divisor*dev). y is a constant.
			row(dx, 0)[i] = -weight * ((ys[i]-my)/(n*sx*sy) - corr/sx*(xs[i]-mx)/(divisor*dev))
		}
	}
}

// LatentCost: dst[e][c] = the sum (or mean) over patches and columns of (pred -
// goal)^2.
func (engine) LatentCost(dst, pred, goal device.Mat, mean bool) {
	patches := goal.Rows / dst.Rows
	for e := range dst.Rows {
		for c := range dst.Cols {
			var sum float64
			for p := range patches {
				// Every candidate of an episode is compared with the same goal.
				want := row(goal, e*patches+p)
				for d, v := range row(pred, (e*dst.Cols+c)*patches+p) {
					sum += (v - want[d]) * (v - want[d])
				}
			}
			if mean {
				sum /= float64(patches * pred.Cols)
			}
			row(dst, e)[c] = sum
		}
	}
}
