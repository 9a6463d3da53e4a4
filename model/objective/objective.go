// Package objective implements the terms of the training losses on the kernels of a
// device: the prediction error, SIGReg, SCALE's distance correlation and the
// regression of Aux.
//
// The table Terms maps the names in a method's list (model.Method) to constructors. A
// training calls Term.Prepare once per batch, which draws random numbers and uploads
// them, and then the Loss that it returns. A Loss writes the unweighted value of the
// term and adds the gradient, multiplied by the term's weight.
//
// The package sees latents and predictions, not the model that computes them. All
// values and gradients stay on the device.
package objective

import (
	"math/rand/v2"

	"scalewm/model/device"
	"scalewm/model/nn"
)

// Directions draws the M random directions of a step for SIGReg, D x M with a
// direction per column, from N(0, 1). They are not normalised yet. The key determines
// them.
func Directions(p *nn.Pass, d, m int, key uint64) device.Mat {
	a := p.Mat(d, m)
	p.Dev.Normal(a, []uint64{key}, 0)
	return a
}

// SIGReg computes the SIGReg loss (docs/sources.md#sigreg), which compares the
// distribution of the latents z, (B*T) x D, with N(0, I). It projects them on the
// directions, D x M, and computes for each direction the Epps-Pulley statistic: the
// weighted squared distance between the empirical characteristic function of the
// projections and that of N(0, 1). The statistic is over the B clips, separately for
// each of the t frames, and then averaged.
//
// loss, 1 x 1, receives the value. If dz is given, weight times the gradient is added
// to it. The statistic depends on z only through u = z*a, where a are the normalised
// directions, so that the gradient is du*a^T.
func SIGReg(p *nn.Pass, loss, dz, z, directions device.Mat, t int, weight float64) {
	a := p.Mat(directions.Rows, directions.Cols)
	p.Dev.NormalizeColumns(a, directions)
	u := p.Mat(z.Rows, a.Cols)
	p.Dev.Gemm(device.NN, u, z, a, device.Epilogue{})
	if !dz.IsSet() {
		p.Dev.SIGReg(loss, device.Mat{}, u, t, weight)
		return
	}
	du := p.Mat(u.Rows, u.Cols)
	p.Dev.SIGReg(loss, du, u, t, weight)
	p.Dev.Gemm(device.NT, dz, du, a, device.Epilogue{Add: true})
}

// DrawPairs draws SCALE's K pairs of frames (docs/sources.md#scale). Half of them are
// two frames of one clip, half are frames of clips from different episodes. episodes
// has the source episode of each clip, and frame t of clip b has index b*T+t.
//
// The pairs are drawn with replacement. If distinct is true, no pair of frames occurs
// twice. A batch has B*T*(T-1)/2 pairs within clips; if K/2 is more, both halves have
// that many.
//
// The result has the first frames of all pairs, then the second ones. It has fewer
// than K pairs if the batch has too few episodes.
func DrawPairs(r *rand.Rand, episodes []int32, t, k int, distinct bool) []int32 {
	var first, second []int32
	seen := map[[2]int32]bool{}
	add := func(i, j int32) {
		if distinct {
			pair := [2]int32{min(i, j), max(i, j)}
			if seen[pair] {
				return
			}
			seen[pair] = true
		}
		first, second = append(first, i), append(second, j)
	}
	if distinct {
		k = 2 * min(k/2, len(episodes)*t*(t-1)/2)
	}
	for len(first) < k/2 {
		clip := int32(r.IntN(len(episodes)) * t)
		// A uniform draw of one of the t(t-1)/2 unordered pairs: draw i, then j among
		// the other t-1 frames, and sort.
		i, j := r.IntN(t), r.IntN(t-1)
		if j >= i {
			j++
		}
		add(clip+int32(min(i, j)), clip+int32(max(i, j)))
	}
	// Rejection sampling as in the authors' code: at most 10 rounds, each with twice
	// as many draws as pairs are missing.
	for round := 0; round < 10 && len(first) < k; round++ {
		for range 2 * (k - len(first)) {
			i, j := r.IntN(len(episodes)*t), r.IntN(len(episodes)*t)
			if episodes[i/t] != episodes[j/t] && len(first) < k {
				add(int32(i), int32(j))
			}
		}
	}
	return append(first, second...)
}

// Correlation computes SCALE's loss: 1 - the correlation, over the K pairs, between
// squared distances in z, (B*T) x D, and in q, (B*T) x d_q. pairs is as returned by
// DrawPairs.
//
// result, 1 x 2, receives the loss, and 1 or 0: 1 if the loss was skipped because the
// distances on one side hardly vary. The correlation divides by their deviations, and
// its gradient would explode; a skipped loss has value and gradient 0. If dz is
// given, weight times the gradient is added to it. q is data and has no gradient.
func Correlation(p *nn.Pass, result, dz, z, q device.Mat, pairs device.Ints, form device.CorrelationForm, weight float64) {
	k := pairs.Len() / 2
	x, y := p.Mat(1, k), p.Mat(1, k)
	p.Dev.PairDistance(x, z, pairs)
	p.Dev.PairDistance(y, q, pairs)
	if !dz.IsSet() {
		p.Dev.Correlation(result, device.Mat{}, x, y, form, weight)
		return
	}
	dx := p.Mat(1, k)
	p.Dev.Correlation(result, dx, x, y, form, weight)
	p.Dev.PairDistanceGrad(dz, dx, z, pairs)
}

// Aux predicts the task state q from the latents with a small MLP, which is trained
// with the model and not part of its checkpoints.
type Aux struct{ mlp *nn.MLP }

// NewAux declares the head D -> hidden -> d_q in s, as aux_head.net.{0,3}.
func NewAux(s *nn.Set, d, hidden, dq int) *Aux {
	return &Aux{&nn.MLP{Act: device.ReLU,
		In:  nn.NewLinear(s, AuxPrefix+"net.0", d, hidden, nn.FanIn(d)),
		Out: nn.NewLinear(s, AuxPrefix+"net.3", hidden, dq, nn.FanIn(hidden))}}
}

// AuxPrefix is the prefix of the names of the head's tensors.
const AuxPrefix = "aux_head."

// Loss writes the mean squared error over frames and dimensions of q, (B*T) x d_q, as
// predicted from z, (B*T) x D, to loss, 1 x 1. If dz is given, it adds weight times
// the gradient to dz and to the gradients of the head's parameters.
func (a *Aux) Loss(p *nn.Pass, loss, dz, z, q device.Mat, weight float64) {
	pred := a.mlp.Forward(p, z)
	if !dz.IsSet() {
		p.Dev.MSE(loss, device.Mat{}, device.Mat{}, pred, q, 0)
		return
	}
	dpred := p.Zero(pred.Rows, pred.Cols)
	p.Dev.MSE(loss, dpred, device.Mat{}, pred, q, weight)
	a.mlp.BackwardInto(p, dz, dpred, true)
}
