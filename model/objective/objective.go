// Package objective holds the terms of the training losses on the kernels of a
// device: the prediction error, SIGReg, SCALE's distance correlation and the Aux
// regression. Each writes its value and, given a gradient, adds weight times its
// own to it. Terms, the table of what the names in a method's list stand for, is
// where a new one is added. It knows latents, not how a model makes them.
package objective

import (
	"math/rand/v2"

	"scalewm/model/device"
	"scalewm/model/nn"
)

// Directions draws SIGReg's D x M random projections of a step, not yet normalised.
func Directions(p *nn.Pass, d, m int, key uint64) device.Mat {
	a := p.Mat(d, m)
	p.Dev.Normal(a, []uint64{key}, 0)
	return a
}

// SIGReg is the Epps-Pulley statistic of the latents z, (B*T) x D with row
// b*T+t, along directions (docs/sources.md#sigreg): statistics over the clips,
// separately for each of the t frames. dz zero: the value only.
func SIGReg(p *nn.Pass, loss, dz, z, directions device.Mat, t int, weight float64) {
	a := p.Mat(directions.Rows, directions.Cols)
	p.Dev.NormalizeColumns(a, directions)
	u := p.Mat(z.Rows, a.Cols)
	p.Dev.Gemm(device.NN, u, z, a, device.Epilogue{})
	if !dz.Given() {
		p.Dev.SIGReg(loss, device.Mat{}, u, t, weight)
		return
	}
	du := p.Mat(u.Rows, u.Cols)
	p.Dev.SIGReg(loss, du, u, t, weight)
	p.Dev.Gemm(device.NT, dz, du, a, device.Epilogue{Add: true})
}

// DrawPairs draws SCALE's K frame pairs (docs/sources.md#scale): half
// within a clip, half across clips of different episodes, all with replacement.
// episodes has the source episode of each clip; frames are counted b*T+t. The
// result holds all first frames, then all second ones. A batch of too few
// episodes gives fewer pairs.
func DrawPairs(r *rand.Rand, episodes []int32, t, k int) []int32 {
	var first, second []int32
	for range k / 2 {
		clip := int32(r.IntN(len(episodes)) * t)
		// One of the t(t-1)/2 unordered pairs, uniform: an ordered pair, sorted.
		i, j := r.IntN(t), r.IntN(t-1)
		if j >= i {
			j++
		}
		first, second = append(first, clip+int32(min(i, j))), append(second, clip+int32(max(i, j)))
	}
	// Twice the shortfall is drawn in each of at most 10 rounds.
	for round := 0; round < 10 && len(first) < k; round++ {
		for range 2 * (k - len(first)) {
			i, j := r.IntN(len(episodes)*t), r.IntN(len(episodes)*t)
			if episodes[i/t] != episodes[j/t] && len(first) < k {
				first, second = append(first, int32(i)), append(second, int32(j))
			}
		}
	}
	return append(first, second...)
}

// Correlation is SCALE's loss: 1 - correlation of the squared distances of
// pairs in z and in q. result is 1 x 2, the loss and 1 if it was skipped
// because one side hardly varies. dz zero: the value only.
func Correlation(p *nn.Pass, result, dz, z, q device.Mat, pairs device.Ints, form device.CorrelationForm, weight float64) {
	k := pairs.Len() / 2
	x, y := p.Mat(1, k), p.Mat(1, k)
	p.Dev.PairDistance(x, z, pairs)
	p.Dev.PairDistance(y, q, pairs)
	if !dz.Given() {
		p.Dev.Correlation(result, device.Mat{}, x, y, form, weight)
		return
	}
	dx := p.Mat(1, k)
	p.Dev.Correlation(result, dx, x, y, form, weight)
	p.Dev.PairDistanceGrad(dz, dx, z, pairs)
}

// Aux regresses q from the latents with a small head that is dropped after
// training.
type Aux struct{ mlp *nn.MLP }

// NewAux declares the head D -> hidden -> d_q as aux_head.net.{0,3}.
func NewAux(s *nn.Set, d, hidden, dq int) *Aux {
	return &Aux{&nn.MLP{Act: device.ReLU,
		In:  nn.NewLinear(s, AuxPrefix+"net.0", d, hidden, nn.FanIn(d)),
		Out: nn.NewLinear(s, AuxPrefix+"net.3", hidden, dq, nn.FanIn(hidden))}}
}

// AuxPrefix begins the names of the head's tensors.
const AuxPrefix = "aux_head."

// Loss writes the mean squared error of the head's q over frames and dimensions,
// adds the head's gradients, and adds the latents' to dz. dz zero: the value only.
func (a *Aux) Loss(p *nn.Pass, loss, dz, z, q device.Mat, weight float64) {
	pred := a.mlp.Forward(p, z)
	if !dz.Given() {
		p.Dev.MSE(loss, device.Mat{}, device.Mat{}, pred, q, 0)
		return
	}
	dpred := p.Zero(pred.Rows, pred.Cols)
	p.Dev.MSE(loss, dpred, device.Mat{}, pred, q, weight)
	a.mlp.BackwardInto(p, dz, dpred, true)
}
