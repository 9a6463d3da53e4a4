package ref

import (
	"math"

	"scalewm/model/device"
)

func (engine) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	var sum float64
	n := float64(pred.Len())
	for r := range pred.Rows {
		for c, v := range row(pred, r) {
			d := v - row(target, r)[c]
			sum += d * d
			if dpred.Given() {
				row(dpred, r)[c] += weight * 2 * d / n
			}
			if dtarget.Given() {
				row(dtarget, r)[c] -= weight * 2 * d / n
			}
		}
	}
	set(loss, sum/n)
}

// knots are SIGReg's 17 points t_k = 3k/16, the reference's characteristic
// function there and the trapezoid's weights times the window (docs/sources.md#sigreg).
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

func (engine) SIGReg(loss, du, u device.Mat, frames int, weight float64) {
	t, ref, w := knots()
	clips, count := u.Rows/frames, float64(frames*u.Cols)
	var total float64
	for f := range frames {
		for m := range u.Cols {
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
				if !du.Given() {
					break
				}
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

// pair are the two rows of z that pair k joins.
func pair(z device.Mat, pairs device.Ints, k int) (a, b []float64) {
	p := pairs.(ints)
	return row(z, int(p[k])), row(z, int(p[len(p)/2+k]))
}

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

// guard is the deviation below which Correlation gives up (SCALE's authors).
const guard = 1e-6

func (e engine) Correlation(result, dx, x, y device.Mat, form device.CorrelationForm, weight float64) {
	xs, ys, n := row(x, 0), row(y, 0), float64(x.Cols)
	divisor := n - 1
	if form == device.Paper {
		divisor = n
	}
	mx, vx := moments(x.Cols, func(i int) float64 { return xs[i] })
	my, vy := moments(y.Cols, func(i int) float64 { return ys[i] })
	dev, devY := math.Sqrt(vx*n/divisor), math.Sqrt(vy*n/divisor)
	if dx.Given() {
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
		if dx.Given() {
			// d(sx)/dx_i = (x_i - mx) / (divisor*dev)
			row(dx, 0)[i] = -weight * ((ys[i]-my)/(n*sx*sy) - corr/sx*(xs[i]-mx)/(divisor*dev))
		}
	}
}

func (engine) LatentCost(dst, pred, goal device.Mat, mean bool) {
	patches := goal.Rows / dst.Rows
	for e := range dst.Rows {
		for c := range dst.Cols {
			var sum float64
			for p := range patches {
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
