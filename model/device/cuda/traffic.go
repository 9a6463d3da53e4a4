package cuda

import (
	"fmt"
	"strings"
	"unsafe"
)

// Traffic is what a launch asks of a GPU's memory, each number read once and
// written once, and of its tensor cores: the least that it can take, whatever
// its kernel does on the way.
type Traffic struct {
	Read, Written int64   // bytes
	FLOP          float64 // of matrix products
}

func (t Traffic) plus(u Traffic) Traffic {
	return Traffic{t.Read + u.Read, t.Written + u.Written, t.FLOP + u.FLOP}
}

// bytes is the memory of m's numbers.
func (m mat) bytes() int64 {
	if m.p == 0 {
		return 0
	}
	width := int64(4)
	if m.bf16 != 0 {
		width = 2
	}
	if m.stride == 0 { // one row, again and again
		return m.cols * width
	}
	return m.rows * m.cols * width
}

func reads(ms ...mat) (t Traffic) {
	for _, m := range ms {
		t.Read += m.bytes()
	}
	return t
}

func writes(ms ...mat) (t Traffic) {
	for _, m := range ms {
		t.Written += m.bytes()
	}
	return t
}

// adds is for numbers that are added to.
func adds(ms ...mat) Traffic { return reads(ms...).plus(writes(ms...)) }

// writesOr is adds where add is set.
func writesOr(add int64, m mat) Traffic {
	if add != 0 {
		return adds(m)
	}
	return writes(m)
}

// as sees a launch's arguments.
func as[Args any](args []byte) *Args { return (*Args)(unsafe.Pointer(unsafe.SliceData(args))) }

// Traffic of a launch with its arguments; false for a kernel that nobody has described.
func (k Kernel) Traffic(args []byte) (Traffic, bool) {
	for _, of := range []func(Kernel, []byte) (Traffic, bool){eachTraffic, rowTraffic, productTraffic, lossTraffic, searchTraffic} {
		if t, ok := of(k, args); ok {
			return t, true
		}
	}
	return Traffic{}, false
}

// Label is a launch's kernel and, where its time depends on them most, shapes: of a product
// rows x columns x inner dimension, of attention sequences x heads x queries x keys, of
// what goes by rows those and columns.
func (k Kernel) Label(args []byte) string {
	shape := func(sizes ...int64) string {
		label := k.String()
		for i, n := range sizes {
			label += fmt.Sprintf("%c%d", " x"[min(i, 1)], n)
		}
		return label
	}
	switch name := k.String(); {
	case strings.HasPrefix(name, "gemm"), k.warpgroups():
		a := as[gemmArgs](args)
		return shape(a.m, a.n, a.k)
	case strings.HasPrefix(name, "attention"):
		a := as[attentionArgs](args)
		return shape(a.seqs, a.heads, a.queries, a.len)
	}
	switch k {
	case kLayerNorm, kAdaLN, kLayerNormGrad, kNormGradSums, kCopy, kGateGrad, kModulateGrad, kTokens:
		m := *as[mat](args) // the first of the arguments
		return shape(m.rows, m.cols)
	}
	return k.String()
}

func eachTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kFill, kCopy, kActivate, kActivateGrad, kGateGrad, kModulateGrad, kDropout, kCandidates, kAddRepeated, kTokens, kNormalizeColumns, kColor:
		a := as[eachArgs](args)
		return reads(a.in[:]...).plus(writes(a.out[1:]...)).plus(writesOr(a.add, a.out[0])), true
	case kAxpy, kClip, kLerp:
		a := as[eachArgs](args)
		return reads(a.in[:]...).plus(adds(a.out[:]...)), true
	case kNaNToInf:
		a := as[eachArgs](args)
		return reads(a.in[0]).plus(adds(a.out[0])), true
	case kAdamW:
		a := as[adamArgs](args)
		return reads(a.g).plus(adds(a.p, a.m, a.v)), true
	case kPatches, kPatchesBF16:
		a := as[patchArgs](args)
		return writes(a.dst).plus(Traffic{Read: a.dst.rows * a.dst.cols}), true
	}
	return Traffic{}, false
}

// parts is scratch of n floats.
func parts(n int64) int64 { return 4 * n }

func rowTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kLayerNorm:
		a := as[normArgs](args)
		return reads(a.x, a.gamma, a.beta).plus(writes(a.y, a.xhat, a.rstd)), true
	case kAdaLN:
		a := as[adaLNArgs](args)
		return reads(a.x, a.scale, a.shift, a.gamma, a.beta).plus(writes(a.y, a.outer, a.outerInv, a.inner, a.innerInv)), true
	case kLayerNormGrad:
		a := as[normGradArgs](args)
		t := reads(a.dy, a.xhat, a.rstd, a.gamma).plus(writesOr(a.add, a.dx)).plus(writes(a.rounded))
		if a.part != 0 && a.dy.cols <= narrow {
			t.Written += parts(2 * a.chunks * a.dy.cols)
		}
		return t, true
	case kNormGradSums:
		a := as[normGradArgs](args)
		return reads(a.dy, a.xhat).plus(Traffic{Written: parts(2 * a.chunks * a.dy.cols)}), true
	case kNormGradAdd:
		a := as[normGradArgs](args)
		return adds(a.dgamma, a.dbeta).plus(Traffic{Read: parts(2 * a.chunks * a.dy.cols)}), true
	case kSumTable:
		a := as[columnArgs](args)
		if a.chunks == 1 {
			return reads(a.src).plus(adds(a.table)), true
		}
		return reads(a.src).plus(Traffic{Written: parts(a.chunks * a.table.rows * a.table.cols)}), true
	case kSumTableAdd:
		a := as[columnArgs](args)
		return adds(a.table).plus(Traffic{Read: parts(a.chunks * a.table.rows * a.table.cols)}), true
	case kBatchNorm:
		a := as[batchArgs](args)
		return reads(a.x, a.gamma, a.beta).plus(writes(a.y, a.xhat, a.rstd)).plus(adds(a.mean, a.variance)), true
	case kBatchNormEval:
		a := as[batchArgs](args)
		return reads(a.x, a.gamma, a.beta, a.mean, a.variance).plus(writes(a.y)), true
	case kBatchNormGrad:
		a := as[normGradArgs](args)
		return reads(a.dy, a.xhat, a.rstd, a.gamma).plus(writes(a.dx)).plus(adds(a.dgamma, a.dbeta)), true
	}
	return Traffic{}, false
}

func productTraffic(k Kernel, args []byte) (Traffic, bool) {
	if k.warpgroups() {
		k = kGemmWide // of any tile
	}
	switch k {
	case kGemmFP32, kGemmFP32NT, kGemmFP32TN, kGemmWide, kGemmWideNT, kGemmPieces, kGemmPiecesNT, kGemmNarrow, kGemmNarrowNT,
		kGemmSlim, kGemmSlimNT, kGemmTN:
		a := as[gemmArgs](args)
		t := reads(a.a, a.b).plus(Traffic{FLOP: 2 * float64(a.m) * float64(a.n) * float64(a.k)})
		if a.splits > 1 {
			return t.plus(Traffic{Written: a.pieces()}), true
		}
		return t.plus(finishTraffic(a)), true
	case kGemmAdd:
		a := as[gemmArgs](args)
		return finishTraffic(a).plus(Traffic{Read: a.pieces()}), true
	case kAttention, kAttentionMMA, kAttentionMMAAny, kAttentionFew, kAttentionFewAny:
		a := as[attentionArgs](args)
		return reads(a.q, a.k, a.v).plus(writes(a.out, a.lse)).plus(Traffic{FLOP: 2 * a.scores()}), true
	case kAttentionFewGrad, kAttentionFewAnyGrad:
		a := as[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.out, a.lse).plus(writes(a.dq, a.dk, a.dv)).plus(Traffic{FLOP: 5 * a.scores()}), true
	case kAttentionMMAGrad, kAttentionMMAAnyGrad:
		a := as[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.out, a.lse).plus(writes(a.dq, a.dk, a.dv)).plus(Traffic{FLOP: 7 * a.scores()}), true
	case kAttentionGradQ:
		a := as[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.out, a.lse).plus(writes(a.dq, a.lse)).plus(Traffic{FLOP: 3 * a.scores()}), true
	case kAttentionGradKV:
		a := as[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.lse, a.lse).plus(writes(a.dk, a.dv)).plus(Traffic{FLOP: 4 * a.scores()}), true
	}
	return Traffic{}, false
}

// finishTraffic is that of a product's epilogue.
func finishTraffic(a *gemmArgs) Traffic {
	return reads(a.scale, a.bias, a.grad, a.gate).plus(writes(a.pre, a.ungated)).plus(writesOr(a.add, a.dst)).plus(adds(a.sumA))
}

// pieces are the bytes of the sums of pieces.
func (a *gemmArgs) pieces() int64 {
	columns := int64(0)
	if a.sumA.p != 0 {
		columns = a.m
	}
	return parts(a.splits * (a.m*a.n + columns))
}

// scores counts one product of queries and keys.
func (a *attentionArgs) scores() float64 {
	return 2 * float64(a.seqs*a.heads) * float64(a.queries*a.len*a.dim)
}

func lossTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kAddUp:
		a := as[sumArgs](args)
		return writes(a.dst).plus(Traffic{Read: 8 * a.chunks}), true
	case kMSE:
		a := as[mseArgs](args)
		return reads(a.pred, a.target).plus(adds(a.dpred, a.dtarget)), true
	case kSumSquares:
		return reads(as[sumArgs](args).x), true
	case kSIGReg:
		a := as[sigRegArgs](args)
		return reads(a.u).plus(writes(a.du)), true
	case kPairDistance:
		a := as[distanceArgs](args)
		return writes(a.dst).plus(Traffic{Read: 8*a.count + 2*parts(a.count*a.z.cols)}), true
	case kPairDistanceGrad:
		a := as[distanceArgs](args)
		return reads(a.ddist, a.z).plus(adds(a.dst)).plus(Traffic{Read: 8 * a.count}), true
	case kCorrelation:
		a := as[correlationArgs](args)
		return reads(a.x, a.y).plus(writes(a.dx, a.result)), true
	case kLatentCost:
		a := as[costArgs](args)
		return reads(a.pred, a.goal).plus(writes(a.dst)), true
	}
	return Traffic{}, false
}

// searchTraffic counts what is chosen as k candidates an episode.
func searchTraffic(k Kernel, args []byte) (Traffic, bool) {
	if k == kNormal {
		return writes(as[normalArgs](args).dst), true
	}
	a := as[eliteArgs](args)
	elites := Traffic{Read: parts(a.mean.rows * a.k * (a.cand.cols + 1))}
	switch k {
	case kSmallestK:
		return reads(a.costs).plus(Traffic{Written: parts(a.costs.rows * a.k)}), true
	case kMoments:
		return elites.plus(writes(a.mean, a.std)), true
	case kWeightedMean:
		return elites.plus(reads(a.std)).plus(writes(a.mean)), true
	case kSoftmin:
		return elites.plus(writes(a.mean)), true
	case kGather:
		return elites.plus(writes(a.std)), true
	}
	return Traffic{}, false
}
