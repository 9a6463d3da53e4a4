package cuda

import (
	"fmt"

	"scalewm/model/device"
)

// attentionKernels are three kernels that compute attention in one way, and the
// shape of their blocks.
type attentionKernels struct {
	forward, gradQ, gradKV    Kernel
	rows                      int // queries (or keys) of a block
	forwardShared, gradShared int // bytes
}

const (
	fewTokens     = 4   // up to so many, a warp does a whole head (kernels/attention_few.cu)
	widestHead    = 128 // columns that kernels/attention.cu has lanes for
	tensorHead    = 64  // columns of the heads of kernels/attention_mma.cu
	attentionTeam = 128 // threads of a block of those two
)

// kernelsOf chooses by what does not change with the batch: the width of heads and how they are stored.
func kernelsOf(q device.Mat, h device.Heads) attentionKernels {
	if q.Half() && h.Dim == tensorHead {
		const rows, turned = 32 * 36 * 4, 64 * 20 * 4
		return attentionKernels{kAttentionMMA, kAttentionMMAGradQ, kAttentionMMAGradKV, 64, rows + turned, 2*rows + 2*turned}
	}
	staged := (h.Dim + 1) * 4
	return attentionKernels{kAttention, kAttentionGradQ, kAttentionGradKV, 16, (16 + 2*32) * staged, (2*16 + 2*32) * staged}
}

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

// allFours says whether all can be read four numbers at a time.
func allFours(ms ...mat) int64 {
	for _, m := range ms {
		if fours(m) == 0 {
			return 0
		}
	}
	return 1
}

func (e *engine) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	args := e.attention(out, lse, q, k, v, h)
	args.vec = allFours(args.q, args.k, args.v)
	each := h.Seqs * h.Heads
	if h.Len <= fewTokens {
		launch(e, kAttentionFew, ceil(each, warps), threads, 0, &args)
		return
	}
	f := kernelsOf(q, h)
	launch(e, f.forward, each*ceil(h.Asking(), f.rows), attentionTeam, f.forwardShared, &args)
}

func (e *engine) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, h device.Heads) {
	args := e.attention(out, lse, q, k, v, h)
	args.dq, args.dk, args.dv, args.dout = view(dq), view(dk), view(dv), view(dout)
	args.vec = allFours(args.q, args.k, args.v, args.out, args.dout)
	each := h.Seqs * h.Heads
	if h.Len <= fewTokens {
		launch(e, kAttentionFewGrad, ceil(each, warps), threads, 0, &args)
		return
	}
	args.delta = e.scratch(each * h.Asking() * 4)
	f := kernelsOf(q, h)
	launch(e, f.gradQ, each*ceil(h.Asking(), f.rows), attentionTeam, f.gradShared, &args)
	launch(e, f.gradKV, each*ceil(h.Len, f.rows), attentionTeam, f.gradShared, &args)
}
