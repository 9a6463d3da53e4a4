package cuda

import "scalewm/model/device"

// The structures of kernels/args.cuh, field by field.

type mat struct {
	p                        Pointer
	rows, cols, stride, bf16 int64
}

type eachArgs struct {
	out      [3]mat
	in       [5]mat
	alpha    float64
	key      uint64
	act, add int64
}

type columnArgs struct {
	table, src mat
	part       Pointer
	chunks     int64
}

type normArgs struct {
	y, xhat, rstd, x, gamma, beta mat
	eps                           float64
}

type adaLNArgs struct {
	y, x, scale, shift, gamma, beta, outer, outerInv, inner, innerInv mat
	outerEps, innerEps                                                float64
}

type normGradArgs struct {
	dx, dgamma, dbeta, dy, xhat, rstd, gamma, rounded mat
	part                                              Pointer
	chunks, add                                       int64
}

type batchArgs struct {
	y, xhat, rstd, x, gamma, beta, mean, variance mat
	momentum, eps                                 float64
}

type gemmArgs struct {
	dst, a, b, scale, bias, pre, grad, gate, ungated, sumA mat
	part                                                   Pointer
	m, n, k, act, add, splits, span, vec, vecA, vecB       int64
	drop                                                   float64
	dropKey                                                uint64
}

type attentionArgs struct {
	out, lse, q, k, v, dq, dk, dv, dout                 mat
	delta                                               Pointer
	seqs, len, heads, dim, block, queries, byToken, vec int64
	p                                                   float64
	key                                                 uint64
}

type patchArgs struct {
	dst                 mat
	px, list, fault     Pointer
	frames, size, patch int64
	scale, shift        [3]float64
}

type mseArgs struct {
	loss, dpred, dtarget, pred, target mat
	part                               Pointer
	weight                             float64
	chunks                             int64
}

type sigregArgs struct {
	loss, du, u mat
	part        Pointer
	frames      int64
	weight      float64
}

type sumArgs struct {
	dst, x mat
	part   Pointer
	chunks int64
	scale  float64
}

type distanceArgs struct {
	dst, ddist, z mat
	pairs, fault  Pointer
	count         int64
}

type correlationArgs struct {
	result, dx, x, y mat
	weight           float64
	paper            int64
}

type costArgs struct {
	dst, pred, goal mat
	mean            int64
}

type adamArgs struct {
	p, g, m, v, sumsq                                         mat
	lr, beta1, beta2, eps, decay, maxNorm, correct1, correct2 float64
}

// keysOfLaunch is the count of streams in one launch of normal.
const keysOfLaunch = 256

type normalArgs struct {
	dst    mat
	offset uint64
	group  int64
	keys   [keysOfLaunch]uint64
}

type eliteArgs struct {
	mean, std, cand, costs mat
	idx, fault             Pointer
	k, first               int64
	temperature            float64
}

// view is m as kernels see it; without an address where m is not given.
func view(m device.Mat) mat {
	if !m.Given() {
		return mat{}
	}
	b := m.Buf.(*buffer)
	return mat{b.p + Pointer(width(b.elem)*m.Off), int64(m.Rows), int64(m.Cols), int64(m.Stride), flag(b.elem == device.BFloat16)}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
