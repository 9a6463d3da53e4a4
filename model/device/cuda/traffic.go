package cuda

import (
	"fmt"
	"strings"
	"unsafe"
)

// Traffic is the minimum that a launch moves and computes: each element of its matrices
// is read once and written once, however often the kernel accesses it. Package roofline
// derives minimum times from it.
type Traffic struct {
	Read, Written int64   // bytes of device memory
	FLOP          float64 // floating-point operations of matrix multiplications; others do not count
}

// plus returns the sum of t and u.
func (t Traffic) plus(u Traffic) Traffic {
	return Traffic{t.Read + u.Read, t.Written + u.Written, t.FLOP + u.FLOP}
}

// bytes returns the size of m's elements, 0 if m is not given.
func (m mat) bytes() int64 {
	if m.p == 0 {
		return 0
	}
	width := int64(4)
	if m.bf16 != 0 {
		width = 2
	}
	if m.stride == 0 { // one row, repeated
		return m.cols * width
	}
	return m.rows * m.cols * width
}

// reads and writes return the traffic of matrices that are only read or only written.
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

// adds returns the traffic of matrices that are added to.
func adds(ms ...mat) Traffic { return reads(ms...).plus(writes(ms...)) }

// writesOrAdds returns the traffic of m, which is added to if add is not 0, else
// written.
func writesOrAdds(add int64, m mat) Traffic {
	if add != 0 {
		return adds(m)
	}
	return writes(m)
}

// argsAs interprets the bytes of a launch's arguments.
func argsAs[Args any](args []byte) *Args { return (*Args)(unsafe.Pointer(unsafe.SliceData(args))) }

// Traffic returns the traffic of a launch with these arguments; false if the kernel is
// not described here.
func (k Kernel) Traffic(args []byte) (Traffic, bool) {
	for _, of := range []func(Kernel, []byte) (Traffic, bool){eachTraffic, rowTraffic, productTraffic, lossTraffic, searchTraffic} {
		if t, ok := of(k, args); ok {
			return t, true
		}
	}
	return Traffic{}, false
}

// Label returns the name of a launch for tables: the kernel and, where the time mainly
// depends on them, sizes. These are m x n x k for GEMM; sequences x heads x queries x
// keys for attention; and rows x columns for the row-wise kernels that take most time.
func (k Kernel) Label(args []byte) string {
	shape := func(sizes ...int64) string {
		label := k.String()
		for i, n := range sizes {
			label += fmt.Sprintf("%c%d", " x"[min(i, 1)], n)
		}
		return label
	}
	switch name := k.String(); {
	case strings.HasPrefix(name, "gemm"), k.usesWGMMA():
		a := argsAs[gemmArgs](args)
		return shape(a.m, a.n, a.k)
	case strings.HasPrefix(name, "attention"):
		a := argsAs[attentionArgs](args)
		return shape(a.seqs, a.heads, a.queries, a.len)
	}
	switch k {
	case kLayerNorm, kAdaLN, kLayerNormGrad, kNormGradSums, kCopy, kGateGrad, kModulateGrad, kTokens:
		m := *argsAs[mat](args) // all these structures begin with a matrix
		return shape(m.rows, m.cols)
	}
	return k.String()
}

// eachTraffic is Traffic of element-wise kernels. candidates, add_repeated and others
// share eachArgs, too.
func eachTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kFill, kCopy, kActivate, kActivateGrad, kGateGrad, kModulateGrad, kDropout, kCandidates, kAddRepeated, kTokens, kNormalizeColumns, kColor:
		a := argsAs[eachArgs](args)
		return reads(a.in[:]...).plus(writes(a.out[1:]...)).plus(writesOrAdds(a.add, a.out[0])), true
	case kAxpy, kClip, kLerp:
		a := argsAs[eachArgs](args)
		return reads(a.in[:]...).plus(adds(a.out[:]...)), true
	case kNaNToInf:
		a := argsAs[eachArgs](args)
		return reads(a.in[0]).plus(adds(a.out[0])), true
	case kAdamW:
		a := argsAs[adamArgs](args)
		return reads(a.g).plus(adds(a.p, a.m, a.v)), true
	case kPatches, kPatchesBF16:
		a := argsAs[patchArgs](args)
		return writes(a.dst).plus(Traffic{Read: a.dst.rows * a.dst.cols}), true
	}
	return Traffic{}, false
}

// floatBytes returns the size of n floats of scratch memory.
func floatBytes(n int64) int64 { return 4 * n }

// rowTraffic is Traffic of the kernels of norms.cu, including their partial sums.
func rowTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kLayerNorm:
		a := argsAs[normArgs](args)
		return reads(a.x, a.gamma, a.beta).plus(writes(a.y, a.xhat, a.rstd)), true
	case kAdaLN:
		a := argsAs[adaLNArgs](args)
		return reads(a.x, a.scale, a.shift, a.gamma, a.beta).plus(writes(a.y, a.outer, a.outerInv, a.inner, a.innerInv)), true
	case kLayerNormGrad:
		a := argsAs[normGradArgs](args)
		t := reads(a.dy, a.xhat, a.rstd, a.gamma).plus(writesOrAdds(a.add, a.dx)).plus(writes(a.rounded))
		if a.part != 0 && a.dy.cols <= narrowCols {
			t.Written += floatBytes(2 * a.chunks * a.dy.cols)
		}
		return t, true
	case kNormGradSums:
		a := argsAs[normGradArgs](args)
		return reads(a.dy, a.xhat).plus(Traffic{Written: floatBytes(2 * a.chunks * a.dy.cols)}), true
	case kNormGradAdd:
		a := argsAs[normGradArgs](args)
		return adds(a.dgamma, a.dbeta).plus(Traffic{Read: floatBytes(2 * a.chunks * a.dy.cols)}), true
	case kSumTable:
		a := argsAs[columnArgs](args)
		if a.chunks == 1 {
			return reads(a.src).plus(adds(a.table)), true
		}
		return reads(a.src).plus(Traffic{Written: floatBytes(a.chunks * a.table.rows * a.table.cols)}), true
	case kSumTableAdd:
		a := argsAs[columnArgs](args)
		return adds(a.table).plus(Traffic{Read: floatBytes(a.chunks * a.table.rows * a.table.cols)}), true
	case kBatchNorm:
		a := argsAs[batchArgs](args)
		return reads(a.x, a.gamma, a.beta).plus(writes(a.y, a.xhat, a.rstd)).plus(adds(a.mean, a.variance)), true
	case kBatchNormEval:
		a := argsAs[batchArgs](args)
		return reads(a.x, a.gamma, a.beta, a.mean, a.variance).plus(writes(a.y)), true
	case kBatchNormGrad:
		a := argsAs[normGradArgs](args)
		return reads(a.dy, a.xhat, a.rstd, a.gamma).plus(writes(a.dx)).plus(adds(a.dgamma, a.dbeta)), true
	}
	return Traffic{}, false
}

// productTraffic is Traffic of GEMM and attention. The FLOP of attention's gradients
// are those that the kernels execute: tensor-core kernels compute the scores
// three times (nine products), attention_few_grad once (five).
func productTraffic(k Kernel, args []byte) (Traffic, bool) {
	if k.usesWGMMA() {
		k = kGemmWide // the traffic does not depend on the tile
	}
	switch k {
	case kGemmFP32, kGemmFP32NT, kGemmFP32TN, kGemmWide, kGemmWideNT, kGemmPieces, kGemmPiecesNT, kGemmNarrow, kGemmNarrowNT,
		kGemmSlim, kGemmSlimNT, kGemmTN:
		a := argsAs[gemmArgs](args)
		t := reads(a.a, a.b).plus(Traffic{FLOP: 2 * float64(a.m) * float64(a.n) * float64(a.k)})
		if a.splits > 1 {
			return t.plus(Traffic{Written: a.partialBytes()}), true
		}
		return t.plus(epilogueTraffic(a)), true
	case kGemmAdd:
		a := argsAs[gemmArgs](args)
		return epilogueTraffic(a).plus(Traffic{Read: a.partialBytes()}), true
	case kAttention, kAttentionMMA, kAttentionMMAAny, kAttentionFew, kAttentionFewAny:
		a := argsAs[attentionArgs](args)
		return reads(a.q, a.k, a.v).plus(writes(a.out, a.lse)).plus(Traffic{FLOP: 2 * a.scores()}), true
	case kAttentionFewGrad, kAttentionFewAnyGrad:
		a := argsAs[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.lse).plus(writes(a.dq, a.dk, a.dv)).plus(Traffic{FLOP: 5 * a.scores()}), true
	case kAttentionMMAGrad, kAttentionMMAAnyGrad:
		a := argsAs[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.lse).plus(writes(a.dq, a.dk, a.dv)).plus(Traffic{FLOP: 9 * a.scores()}), true
	case kAttentionGradQ:
		a := argsAs[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.lse).plus(writes(a.dq, a.lse)).plus(Traffic{FLOP: 5 * a.scores()}), true
	case kAttentionGradKV:
		a := argsAs[attentionArgs](args)
		return reads(a.q, a.k, a.v, a.dout, a.lse, a.lse).plus(writes(a.dk, a.dv)).plus(Traffic{FLOP: 4 * a.scores()}), true
	}
	return Traffic{}, false
}

// epilogueTraffic returns the traffic of a GEMM's epilogue.
func epilogueTraffic(a *gemmArgs) Traffic {
	return reads(a.scale, a.bias, a.grad, a.gate).plus(writes(a.pre, a.ungated)).plus(writesOrAdds(a.add, a.dst)).plus(adds(a.sumA))
}

// partialBytes returns the size of the partial sums of split-K.
func (a *gemmArgs) partialBytes() int64 {
	columns := int64(0)
	if a.sumA.p != 0 {
		columns = a.m
	}
	return floatBytes(a.splits * (a.m*a.n + columns))
}

// scores returns the FLOP of one product of queries and keys, without regard to masks.
func (a *attentionArgs) scores() float64 {
	return 2 * float64(a.seqs*a.heads) * float64(a.queries*a.len*a.dim)
}

// lossTraffic is Traffic of the kernels of losses.cu.
func lossTraffic(k Kernel, args []byte) (Traffic, bool) {
	switch k {
	case kAddUp:
		a := argsAs[sumArgs](args)
		return writes(a.dst).plus(Traffic{Read: 8 * a.chunks}), true
	case kMSE:
		a := argsAs[mseArgs](args)
		return reads(a.pred, a.target).plus(adds(a.dpred, a.dtarget)), true
	case kSumSquares:
		return reads(argsAs[sumArgs](args).x), true
	case kSIGReg:
		a := argsAs[sigRegArgs](args)
		return reads(a.u).plus(writes(a.du)), true
	case kPairDistance:
		a := argsAs[distanceArgs](args)
		return writes(a.dst).plus(Traffic{Read: 8*a.count + 2*floatBytes(a.count*a.z.cols)}), true
	case kPairDistanceGrad:
		a := argsAs[distanceArgs](args)
		return reads(a.ddist, a.z).plus(adds(a.dst)).plus(Traffic{Read: 8 * a.count}), true
	case kCorrelation:
		a := argsAs[correlationArgs](args)
		return reads(a.x, a.y).plus(writes(a.dx, a.result)), true
	case kLatentCost:
		a := argsAs[costArgs](args)
		return reads(a.pred, a.goal).plus(writes(a.dst)), true
	}
	return Traffic{}, false
}

// searchTraffic is Traffic of the kernels of search.cu. Of the candidates it counts the
// k chosen ones per episode.
func searchTraffic(k Kernel, args []byte) (Traffic, bool) {
	if k == kNormal {
		return writes(argsAs[normalArgs](args).dst), true
	}
	a := argsAs[eliteArgs](args)
	elites := Traffic{Read: floatBytes(a.mean.rows * a.k * (a.cand.cols + 1))}
	switch k {
	case kSmallestK:
		return reads(a.costs).plus(Traffic{Written: floatBytes(a.costs.rows * a.k)}), true
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
