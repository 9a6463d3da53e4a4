package cpu

// #include "engine.h"
import "C"

import (
	"math"
	"unsafe"

	"scalewm/model/device"
)

// Gemm passes the packed form of b if b's buffer is frozen; otherwise the kernel
// packs it.
func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	args := C.GemmArgs{
		dst: mat(dst), a: mat(a), b: mat(b), scale: mat(ep.Scale), bias: mat(ep.Bias), pre: mat(ep.Pre), grad: mat(ep.Grad),
		gate: mat(ep.Gate), ungated: mat(ep.Ungated),
		op: C.int(op), act: C.int(ep.Act), add: flag(ep.Add), bf16: flag(e.prec == device.BF16),
		sum_a: mat(ep.SumA), drop_p: C.float(ep.Drop.P), drop_key: C.uint64_t(ep.Drop.Key),
	}
	args.packed = (*C.char)(e.packed(factor{b, op}, args))
	call(e, C.K_GEMM, &args)
}

// each returns the arguments of an element-wise kernel. The order of the matrices is
// that of the formula in k_pointwise.h.
func each(out, in []device.Mat) (args C.EachArgs) {
	for i, m := range out {
		args.out[i] = mat(m)
	}
	for i, m := range in {
		args.in[i] = mat(m)
	}
	return args
}

type mats = []device.Mat

func (e *engine) Fill(dst device.Mat, v float64) {
	args := each(mats{dst}, nil)
	args.alpha = C.float(v)
	call(e, C.K_FILL, &args)
}

func (e *engine) Copy(dst, src device.Mat) {
	args := each(mats{dst}, mats{src})
	call(e, C.K_COPY, &args)
}

func (e *engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	args := C.BlocksArgs{
		dst: mat(dst), src: mat(src), dst_block: C.i64(dstBlock), src_block: C.i64(srcBlock), rows: C.i64(rows),
		blocks: C.i64(device.Blocks(dst, dstBlock, src, srcBlock, rows)), add: flag(add),
	}
	call(e, C.K_BLOCKS, &args)
}

func (e *engine) Activate(dst, x device.Mat, act device.Act) {
	args := each(mats{dst}, mats{x})
	args.act = C.int(act)
	call(e, C.K_ACTIVATE, &args)
}

func (e *engine) ActivateGrad(dx, dy, pre device.Mat, act device.Act) {
	args := each(mats{dx}, mats{dy, pre})
	args.act = C.int(act)
	call(e, C.K_ACTIVATE_GRAD, &args)
}

func (e *engine) Axpy(dst device.Mat, alpha float64, x device.Mat) {
	args := each(mats{dst}, mats{x})
	args.alpha, args.add = C.float(alpha), 1
	call(e, C.K_AXPY, &args)
}

func (e *engine) GateGrad(dy, dgate, dout, gate, y device.Mat) {
	args := each(mats{dy, dgate}, mats{dout, gate, y})
	call(e, C.K_GATE_GRAD, &args)
}

func (e *engine) ModulateGrad(dx, dscale, dshift, dy, x, scale device.Mat) {
	args := each(mats{dx, dscale, dshift}, mats{dy, x, scale})
	call(e, C.K_MODULATE_GRAD, &args)
}

func (e *engine) Tokens(dst, first, table, rows device.Mat) {
	device.TokensByCopy(e, dst, first, table, rows)
}

func (e *engine) AddRepeated(dst, a, b device.Mat) {
	args := each(mats{dst}, mats{a, b})
	call(e, C.K_ADD_REPEATED, &args)
}

func (e *engine) SumTable(table, src device.Mat) {
	args := C.TableArgs{table: mat(table), src: mat(src)}
	call(e, C.K_SUM_TABLE, &args)
}

func (e *engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	args := each(mats{dst}, mats{x})
	args.p, args.key = C.float(d.P), C.uint64_t(d.Key)
	call(e, C.K_DROPOUT, &args)
}

func (e *engine) NormalizeColumns(dst, src device.Mat) {
	args := C.PairArgs{dst: mat(dst), x: mat(src)}
	call(e, C.K_NORMALIZE_COLUMNS, &args)
}

func (e *engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	args := C.NormArgs{
		y: mat(y), xhat: mat(xhat), rstd: mat(rstd), x: mat(x), gamma: mat(gamma), beta: mat(beta),
		eps: C.double(eps),
	}
	call(e, C.K_LAYERNORM, &args)
}

func (e *engine) AdaLN(y, x device.Mat, n device.AdaLN) {
	args := C.AdaLNArgs{
		y: mat(y), x: mat(x), scale: mat(n.Scale), shift: mat(n.Shift), gamma: mat(n.Gamma), beta: mat(n.Beta),
		outer: mat(n.Outer), outer_inv: mat(n.OuterInv), inner: mat(n.Inner), inner_inv: mat(n.InnerInv),
		outer_eps: C.double(n.OuterEps), inner_eps: C.double(n.InnerEps),
	}
	call(e, C.K_ADALN, &args)
}

// normGrad returns what the gradients of LayerNorm and BatchNorm have in common.
func normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) C.NormGradArgs {
	return C.NormGradArgs{
		dx: mat(dx), dgamma: mat(dgamma), dbeta: mat(dbeta), dy: mat(dy),
		xhat: mat(xhat), rstd: mat(rstd), gamma: mat(gamma),
	}
}

func (e *engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	args := normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	args.add = flag(add)
	call(e, C.K_LAYERNORM_GRAD, &args)
}

// batch returns the arguments of both BatchNorm kernels.
func batch(y, xhat, rstd, x device.Mat, bn device.BatchNorm) C.BatchArgs {
	return C.BatchArgs{
		y: mat(y), xhat: mat(xhat), rstd: mat(rstd), x: mat(x),
		gamma: mat(bn.Gamma), beta: mat(bn.Beta), mean: mat(bn.Mean), _var: mat(bn.Var),
		momentum: C.double(bn.Momentum), eps: C.double(bn.Eps),
	}
}

func (e *engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	args := batch(y, xhat, rstd, x, bn)
	call(e, C.K_BATCHNORM, &args)
}

func (e *engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	args := batch(y, device.Mat{}, device.Mat{}, x, bn)
	call(e, C.K_BATCHNORM_EVAL, &args)
}

func (e *engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	args := normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	call(e, C.K_BATCHNORM_GRAD, &args)
}

// attention returns the shape, without the matrices.
func attention(h device.Heads) C.AttentionArgs {
	return C.AttentionArgs{
		seqs: C.i64(h.Seqs), len: C.i64(h.Len), heads: C.i64(h.Heads), dim: C.i64(h.Dim), block: C.i64(h.Block),
		queries: C.i64(h.QueryCount()), by_token: flag(h.ByToken),
		p: C.float(h.Drop.P), key: C.uint64_t(h.Drop.Key),
	}
}

func (e *engine) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	args := attention(h)
	args.out, args.lse, args.q, args.k, args.v = mat(out), mat(lse), mat(q), mat(k), mat(v)
	call(e, C.K_ATTENTION, &args)
}

func (e *engine) AttentionGrad(dq, dk, dv, dout, lse, q, k, v device.Mat, h device.Heads) {
	args := attention(h)
	args.lse, args.q, args.k, args.v = mat(lse), mat(q), mat(k), mat(v)
	args.dq, args.dk, args.dv, args.dout = mat(dq), mat(dk), mat(dv), mat(dout)
	call(e, C.K_ATTENTION_GRAD, &args)
}

func (e *engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	// frames is the number of frames in px, against which the kernel checks f.List.
	args := C.PatchArgs{dst: mat(dst), frames: C.i64(px.Len() / f.Bytes()), size: C.i64(f.Size), patch: C.i64(f.Patch)}
	if f.List == nil {
		args.px = (*C.uint8_t)(unsafe.Add(px.(*bytes).p, f.First*f.Bytes()))
	} else {
		args.px, args.list = (*C.uint8_t)(px.(*bytes).p), (*C.int32_t)(unsafe.Add(f.List.(*ints).p, 4*f.First))
	}
	for ch := range 3 {
		// (px/255 - Mean)/Std as one multiply-add.
		args.scale[ch] = C.float(1 / (255 * f.Std[ch]))
		args.shift[ch] = C.float(-f.Mean[ch] / f.Std[ch])
	}
	call(e, C.K_PATCHES, &args)
}

func (e *engine) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	args := C.MSEArgs{
		loss: mat(loss), dpred: mat(dpred), dtarget: mat(dtarget), pred: mat(pred), target: mat(target),
		weight: C.double(weight),
	}
	call(e, C.K_MSE, &args)
}

func (e *engine) SIGReg(loss, du, u device.Mat, t int, weight float64) {
	args := C.SIGRegArgs{loss: mat(loss), du: mat(du), u: mat(u), frames: C.i64(t), weight: C.double(weight)}
	call(e, C.K_SIGREG, &args)
}

// distance returns the arguments of PairDistance and of its gradient.
func distance(dst, ddist, z device.Mat, pairs device.Ints) C.DistanceArgs {
	return C.DistanceArgs{
		dst: mat(dst), ddist: mat(ddist), z: mat(z),
		pairs: (*C.int32_t)(pairs.(*ints).p), count: C.i64(pairs.Len() / 2),
	}
}

func (e *engine) PairDistance(dst, z device.Mat, pairs device.Ints) {
	args := distance(dst, device.Mat{}, z, pairs)
	call(e, C.K_DISTANCE, &args)
}

func (e *engine) PairDistanceGrad(dz, ddist, z device.Mat, pairs device.Ints) {
	args := distance(dz, ddist, z, pairs)
	call(e, C.K_DISTANCE_GRAD, &args)
}

func (e *engine) Correlation(result, dx, x, y device.Mat, form device.CorrelationForm, weight float64) {
	args := C.CorrelationArgs{
		result: mat(result), dx: mat(dx), x: mat(x), y: mat(y),
		paper: flag(form == device.Paper), weight: C.double(weight),
	}
	call(e, C.K_CORRELATION, &args)
}

func (e *engine) LatentCost(dst, pred, goal device.Mat, mean bool) {
	args := C.CostArgs{dst: mat(dst), pred: mat(pred), goal: mat(goal), mean: flag(mean)}
	call(e, C.K_COST, &args)
}

func (e *engine) SumSquares(dst, x device.Mat) {
	args := C.PairArgs{dst: mat(dst), x: mat(x)}
	call(e, C.K_SUM_SQUARES, &args)
}

func (e *engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	args := C.AdamArgs{
		p: mat(p), g: mat(g), m: mat(m), v: mat(v), sumsq: mat(sumsq),
		lr: C.double(o.LR), beta1: C.double(o.Beta1), beta2: C.double(o.Beta2), eps: C.double(o.Eps),
		decay: C.double(o.Decay), max_norm: C.double(o.MaxNorm),
		// The bias corrections are computed here, in float64.
		correct1: C.double(1 - math.Pow(o.Beta1, float64(o.Step))),
		correct2: C.double(1 - math.Pow(o.Beta2, float64(o.Step))),
	}
	call(e, C.K_ADAMW, &args)
}

// Normal copies the keys to C memory first: the argument struct is Go memory, in
// which cgo does not allow pointers to other Go memory.
func (e *engine) Normal(dst device.Mat, keys []uint64, offset uint64) {
	if e.keys == nil || e.keys.n < 2*len(keys) {
		if e.keys != nil {
			e.Free(e.keys)
		}
		e.keys = &buffer{block: e.alloc(2*len(keys), 4)} // a key has the size of two floats
	}
	if e.err != nil {
		return
	}
	copy(unsafe.Slice((*uint64)(e.keys.p), len(keys)), keys)
	args := C.NormalArgs{
		dst: mat(dst), keys: (*C.uint64_t)(e.keys.p), groups: C.i64(len(keys)), offset: C.uint64_t(offset),
	}
	call(e, C.K_NORMAL, &args)
}

func (e *engine) Candidates(dst, mean, std, noise device.Mat) {
	args := each(mats{dst}, mats{mean, std, noise})
	call(e, C.K_CANDIDATES, &args)
}

func (e *engine) NaNToInf(x, count device.Mat) {
	args := C.PairArgs{dst: mat(count), x: mat(x)}
	call(e, C.K_NAN_TO_INF, &args)
}

func (e *engine) SmallestK(idx device.Ints, costs device.Mat, k int) {
	args := C.EliteArgs{cand: mat(costs), idx: (*C.int32_t)(idx.(*ints).p), k: C.i64(k)}
	call(e, C.K_SMALLEST_K, &args)
}

func (e *engine) Moments(mean, std, cand device.Mat, idx device.Ints, k int) {
	args := C.EliteArgs{
		mean: mat(mean), std: mat(std), cand: mat(cand), idx: (*C.int32_t)(idx.(*ints).p),
		k: C.i64(k),
	}
	call(e, C.K_MOMENTS, &args)
}

func (e *engine) Color(dst, noise, taps device.Mat) {
	args := each(mats{dst}, mats{noise, taps})
	call(e, C.K_COLOR, &args)
}

func (e *engine) Clip(dst, low, high device.Mat) {
	args := each(mats{dst}, mats{low, high})
	call(e, C.K_CLIP, &args)
}

func (e *engine) Lerp(dst, x device.Mat, keep float64) {
	args := each(mats{dst}, mats{x})
	// 1-keep is rounded once, from float64. add makes the kernel load dst.
	args.alpha, args.p, args.add = C.float(keep), C.float(1-keep), 1
	call(e, C.K_LERP, &args)
}

// chosen returns the common arguments of kernels on the k best candidates of each
// episode.
func chosen(idx device.Ints, k int) C.ChosenArgs {
	return C.ChosenArgs{idx: (*C.int32_t)(idx.(*ints).p), k: C.i64(k), episodes: C.i64(idx.Len() / k)}
}

func (e *engine) Softmin(weights, costs device.Mat, idx device.Ints, temperature float64) {
	args := chosen(idx, weights.Cols)
	args.weights, args.costs, args.temperature = mat(weights), mat(costs), C.float(temperature)
	call(e, C.K_SOFTMIN, &args)
}

func (e *engine) WeightedMean(mean, cand, weights device.Mat, idx device.Ints) {
	args := chosen(idx, weights.Cols)
	args.dst, args.cand, args.weights = mat(mean), mat(cand), mat(weights)
	call(e, C.K_WEIGHTED_MEAN, &args)
}

func (e *engine) Gather(dst, cand device.Mat, idx device.Ints, k int) {
	args := chosen(idx, k)
	args.dst, args.cand = mat(dst), mat(cand)
	call(e, C.K_GATHER, &args)
}
