package cuda

import (
	"fmt"

	"scalewm/model/device"
)

// Shapes of kernels/gemm.cu.
const (
	gemmRows, gemmCols = 128, 64                                // of a tile
	bf16Shared         = 2 * (gemmRows + gemmCols) * 80         // bytes: two buffers of rows of 40 bf16
	fp32Shared         = 2 * 16 * (gemmRows + gemmCols + 8) * 4 // two buffers of 16 rows
	gemmSpan           = 2048                                   // inner indices of a piece
)

// fours says whether a matrix can be read four numbers at a time.
func fours(m mat) int64 {
	width := uint64(16)
	if m.half != 0 {
		width = 8
	}
	return flag(uint64(m.p)%width == 0 && m.stride%4 == 0)
}

// Gemm cuts long inner dimensions into pieces of one length, whose sums are
// added in order.
func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	m, n, k := op.Dims(a, b)
	if m*n == 0 {
		return
	}
	args := gemmArgs{dst: view(dst), a: view(a), b: view(b), bias: view(ep.Bias), pre: view(ep.Pre), grad: view(ep.Grad),
		m: int64(m), n: int64(n), k: int64(k), act: int64(ep.Act), add: flag(ep.Add), span: gemmSpan, drop: float64(ep.Drop.P), dropKey: ep.Drop.Key}
	splits := max(1, ceil(k, gemmSpan))
	args.splits, args.vecA, args.vecB = int64(splits), fours(args.a), fours(args.b)
	if splits > 1 {
		args.part = e.scratch(splits * m * n * 4)
	}
	kernel, shared := kGemmFP32, fp32Shared
	if e.prec == device.BF16 {
		kernel, shared = kGemmBF16, bf16Shared
	}
	launch(e, kernel+Kernel(op), ceil(m, gemmRows)*ceil(n, gemmCols)*splits, threads, shared, &args)
	if splits > 1 {
		launch(e, kGemmAdd, tiles(m, n), threads, 0, &args)
	}
	if ep.SumA.Given() {
		e.SumTable(ep.SumA, a)
	}
}

// Shapes of kernels/attention.cu and attention_few.cu.
const (
	fewTokens     = 4
	widestHead    = 128
	attentionRows = 16 // queries (or keys) of a block
	attentionTile = 32
	teams         = 128 // threads of a block
)

// attention are the arguments of all attention kernels; a head wider than
// the kernels' lanes is a failure, since no model here has one.
func (e *engine) attention(out, lse, q, k, v device.Mat, h device.Heads) attentionArgs {
	if h.Dim > widestHead {
		e.fail(fmt.Errorf("attention heads of %d columns (hint: the GPU's kernels have room for %d)", h.Dim, widestHead))
	}
	return attentionArgs{out: view(out), lse: view(lse), q: view(q), k: view(k), v: view(v),
		seqs: int64(h.Seqs), len: int64(h.Len), heads: int64(h.Heads), dim: int64(h.Dim), block: int64(h.Block),
		asking: int64(h.Asking()), byToken: flag(h.ByToken), p: float64(h.Drop.P), key: h.Drop.Key}
}

// staged is the shared memory of so many rows of a head.
func staged(rows int, h device.Heads) int { return rows * (h.Dim + 1) * 4 }

func (e *engine) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	args := e.attention(out, lse, q, k, v, h)
	each := h.Seqs * h.Heads
	if h.Len <= fewTokens {
		launch(e, kAttentionFew, ceil(each, warps), threads, 0, &args)
		return
	}
	launch(e, kAttention, each*ceil(h.Asking(), attentionRows), teams, staged(attentionRows+2*attentionTile, h), &args)
}

func (e *engine) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, h device.Heads) {
	args := e.attention(out, lse, q, k, v, h)
	args.dq, args.dk, args.dv, args.dout = view(dq), view(dk), view(dv), view(dout)
	each := h.Seqs * h.Heads
	if h.Len <= fewTokens {
		launch(e, kAttentionFewGrad, ceil(each, warps), threads, 0, &args)
		return
	}
	args.delta = e.scratch(each * h.Asking() * 4)
	shared := staged(2*attentionRows+2*attentionTile, h)
	launch(e, kAttentionGradQ, each*ceil(h.Asking(), attentionRows), teams, shared, &args)
	launch(e, kAttentionGradKV, each*ceil(h.Len, attentionRows), teams, shared, &args)
}
