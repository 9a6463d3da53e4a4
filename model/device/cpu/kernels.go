package cpu

// #include "engine.h"
import "C"

import (
	"unsafe"

	"scalewm/model/device"
)

func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	args := C.GemmArgs{
		dst: mat(dst), a: mat(a), b: mat(b), scale: mat(ep.Scale), bias: mat(ep.Bias), pre: mat(ep.Pre), grad: mat(ep.Grad),
		gate: mat(ep.Gate), ungated: mat(ep.Ungated),
		op: C.int(op), act: C.int(ep.Act), add: flag(ep.Add), bf16: flag(e.prec == device.BF16),
		sum_a: mat(ep.SumA), drop_p: C.float(ep.Drop.P), drop_key: C.uint64_t(ep.Drop.Key),
	}
	args.packed = (*C.char)(e.packed(factor{b, op}, args))
	e.call(C.K_GEMM, unsafe.Pointer(&args))
}

// each is the arguments of an element-wise kernel.
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
	e.call(C.K_FILL, unsafe.Pointer(&args))
}

func (e *engine) Copy(dst, src device.Mat) {
	args := each(mats{dst}, mats{src})
	e.call(C.K_COPY, unsafe.Pointer(&args))
}

func (e *engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	args := C.BlocksArgs{
		dst: mat(dst), src: mat(src), dst_block: C.i64(dstBlock), src_block: C.i64(srcBlock), rows: C.i64(rows),
		blocks: C.i64(device.Blocks(dst, dstBlock, src, srcBlock, rows)), add: flag(add),
	}
	e.call(C.K_BLOCKS, unsafe.Pointer(&args))
}

func (e *engine) Activate(dst, x device.Mat, act device.Act) {
	args := each(mats{dst}, mats{x})
	args.act = C.int(act)
	e.call(C.K_ACTIVATE, unsafe.Pointer(&args))
}

func (e *engine) ActivateGrad(dx, dy, pre device.Mat, act device.Act) {
	args := each(mats{dx}, mats{dy, pre})
	args.act = C.int(act)
	e.call(C.K_ACTIVATE_GRAD, unsafe.Pointer(&args))
}

func (e *engine) Axpy(dst device.Mat, alpha float64, x device.Mat) {
	args := each(mats{dst}, mats{x})
	args.alpha, args.add = C.float(alpha), 1
	e.call(C.K_AXPY, unsafe.Pointer(&args))
}

func (e *engine) GateGrad(dy, dgate, dout, gate, y device.Mat) {
	args := each(mats{dy, dgate}, mats{dout, gate, y})
	e.call(C.K_GATE_GRAD, unsafe.Pointer(&args))
}

func (e *engine) ModulateGrad(dx, dscale, dshift, dy, x, scale device.Mat) {
	args := each(mats{dx, dscale, dshift}, mats{dy, x, scale})
	e.call(C.K_MODULATE_GRAD, unsafe.Pointer(&args))
}

func (e *engine) Tokens(dst, first, table, rows device.Mat) {
	device.TokensByParts(e, dst, first, table, rows)
}

func (e *engine) AddRepeated(dst, a, b device.Mat) {
	args := each(mats{dst}, mats{a, b})
	e.call(C.K_ADD_REPEATED, unsafe.Pointer(&args))
}

func (e *engine) SumTable(table, src device.Mat) {
	args := C.TableArgs{table: mat(table), src: mat(src)}
	e.call(C.K_SUM_TABLE, unsafe.Pointer(&args))
}

func (e *engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	args := each(mats{dst}, mats{x})
	args.p, args.key = C.float(d.P), C.uint64_t(d.Key)
	e.call(C.K_DROPOUT, unsafe.Pointer(&args))
}

func (e *engine) NormalizeColumns(dst, src device.Mat) {
	args := C.PairArgs{dst: mat(dst), x: mat(src)}
	e.call(C.K_NORMALIZE_COLUMNS, unsafe.Pointer(&args))
}

func (e *engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	args := C.NormArgs{
		y: mat(y), xhat: mat(xhat), rstd: mat(rstd), x: mat(x), gamma: mat(gamma), beta: mat(beta),
		eps: C.double(eps),
	}
	e.call(C.K_LAYERNORM, unsafe.Pointer(&args))
}

func (e *engine) AdaLN(y, x device.Mat, n device.AdaLN) {
	args := C.AdaLNArgs{
		y: mat(y), x: mat(x), scale: mat(n.Scale), shift: mat(n.Shift), gamma: mat(n.Gamma), beta: mat(n.Beta),
		outer: mat(n.Outer), outer_inv: mat(n.OuterInv), inner: mat(n.Inner), inner_inv: mat(n.InnerInv),
		outer_eps: C.double(n.OuterEps), inner_eps: C.double(n.InnerEps),
	}
	e.call(C.K_ADALN, unsafe.Pointer(&args))
}

func normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) C.NormGradArgs {
	return C.NormGradArgs{
		dx: mat(dx), dgamma: mat(dgamma), dbeta: mat(dbeta), dy: mat(dy),
		xhat: mat(xhat), rstd: mat(rstd), gamma: mat(gamma),
	}
}

func (e *engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	args := normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	args.add = flag(add)
	e.call(C.K_LAYERNORM_GRAD, unsafe.Pointer(&args))
}

func batch(y, xhat, rstd, x device.Mat, bn device.BatchNorm) C.BatchArgs {
	return C.BatchArgs{
		y: mat(y), xhat: mat(xhat), rstd: mat(rstd), x: mat(x),
		gamma: mat(bn.Gamma), beta: mat(bn.Beta), mean: mat(bn.Mean), _var: mat(bn.Var),
		momentum: C.double(bn.Momentum), eps: C.double(bn.Eps),
	}
}

func (e *engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	args := batch(y, xhat, rstd, x, bn)
	e.call(C.K_BATCHNORM, unsafe.Pointer(&args))
}

func (e *engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	args := batch(y, device.Mat{}, device.Mat{}, x, bn)
	e.call(C.K_BATCHNORM_EVAL, unsafe.Pointer(&args))
}

func (e *engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	args := normGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	e.call(C.K_BATCHNORM_GRAD, unsafe.Pointer(&args))
}

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
	e.call(C.K_ATTENTION, unsafe.Pointer(&args))
}

func (e *engine) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, h device.Heads) {
	args := attention(h)
	args.out, args.lse, args.q, args.k, args.v = mat(out), mat(lse), mat(q), mat(k), mat(v)
	args.dq, args.dk, args.dv, args.dout = mat(dq), mat(dk), mat(dv), mat(dout)
	e.call(C.K_ATTENTION_GRAD, unsafe.Pointer(&args))
}
