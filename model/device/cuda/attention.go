package cuda

import (
	"fmt"

	"scalewm/model/device"
)

const (
	fewTokens     = 4   // up to so many, a few lanes do a whole head (kernels/attention_few.cu)
	fewLanes      = 8   // for a head that tensor cores could take; a warp for others
	widestHead    = 128 // columns that kernels have lanes for
	attentionTeam = 128 // threads of a block
	attentionRows = 16  // queries (or keys) of a block of kernels/attention.cu

	// Of kernels/flash.cuh: columns of a head, rows that shared memory has room for,
	// twice, and queries that a block's warps work on at once.
	tensorHead  = 64
	tensorChunk = 272
	tensorRows  = 128

	// The fewest heads that are enough for a GPU with one block for each.
	enoughHeads = 264
)

// attention are the arguments of all attention kernels; a head wider than
// the kernels' lanes is a failure, since no model here has one.
func (e *engine) attention(out, lse, q, k, v device.Mat, h device.Heads) attentionArgs {
	if h.Dim > widestHead {
		e.fail(fmt.Errorf("attention heads of %d columns (hint: the GPU's kernels have room for %d)", h.Dim, widestHead))
	}
	return attentionArgs{out: view(out), lse: view(lse), q: view(q), k: view(k), v: view(v),
		seqs: int64(h.Seqs), len: int64(h.Len), heads: int64(h.Heads), dim: int64(h.Dim), block: int64(h.Block),
		queries: int64(h.QueryCount()), byToken: flag(h.ByToken), p: float64(h.Drop.P), key: h.Drop.Key}
}

// allBF16 says whether all are bf16 and their rows begin at multiples of so many numbers.
func allBF16(width int64, ms []mat) bool {
	for _, m := range ms {
		if m.bf16 == 0 || int64(m.p)%(2*width) != 0 || m.stride%width != 0 {
			return false
		}
	}
	return true
}

// tensor says whether the kernels for tensor cores can do it, and how: plain is
// without mask and dropout and with rows that all fit in shared memory.
func (a *attentionArgs) tensor(ms []mat) (can, plain bool) {
	a.vec = flag(allBF16(8, ms))
	return a.dim == tensorHead && allBF16(1, ms), a.block == 0 && a.p == 0 && max(a.len, a.queries) <= tensorChunk
}

// choose is one of two kernels.
func choose(first bool, a, b Kernel) Kernel {
	if first {
		return a
	}
	return b
}

// tensorShared is the shared memory of kernels for tensor cores: rows, and two numbers of each of so many queries.
func tensorShared(queries int) int { return 2*2*tensorChunk*tensorHead + 8*16*ceil(queries, 16) }

func (e *engine) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	args, each := e.attention(out, lse, q, k, v, h), h.Seqs*h.Heads
	ms := []mat{args.out, args.q, args.k, args.v}
	tensor, plain := args.tensor(ms)
	switch {
	case h.Len <= fewTokens && tensor:
		launch(e, kAttentionFew, ceil(each*fewLanes, attentionTeam), attentionTeam, 0, &args)
	case h.Len <= fewTokens:
		launch(e, kAttentionFewAny, ceil(each*32, attentionTeam), attentionTeam, 0, &args)
	case tensor:
		parts := ceil(h.QueryCount(), tensorRows)
		if plain && each >= enoughHeads {
			parts = 1 // keys are read once a head
		}
		launch(e, choose(plain, kAttentionMMA, kAttentionMMAAny), each*parts, attentionTeam, tensorShared(0), &args)
	default:
		launch(e, kAttention, each*ceil(h.QueryCount(), attentionRows), attentionTeam, sharedRows(h, attentionRows), &args)
	}
}

// sharedRows is the shared memory of kernels/attention.cu: rows of a block's own, and 32 of what passes, of two matrices.
func sharedRows(h device.Heads, own int) int { return (own + 2*32) * (h.Dim + 1) * 4 }

func (e *engine) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, h device.Heads) {
	args, each := e.attention(out, lse, q, k, v, h), h.Seqs*h.Heads
	args.dq, args.dk, args.dv, args.dout = view(dq), view(dk), view(dv), view(dout)
	ms := []mat{args.out, args.q, args.k, args.v, args.dq, args.dk, args.dv, args.dout}
	tensor, plain := args.tensor(ms)
	switch {
	case h.Len <= fewTokens && tensor:
		launch(e, kAttentionFewGrad, ceil(each*fewLanes, attentionTeam), attentionTeam, 0, &args)
	case h.Len <= fewTokens:
		launch(e, kAttentionFewAnyGrad, ceil(each*32, attentionTeam), attentionTeam, 0, &args)
	case tensor:
		launch(e, choose(plain, kAttentionMMAGrad, kAttentionMMAAnyGrad), each, attentionTeam, tensorShared(h.QueryCount()), &args)
	default:
		args.delta = e.scratch(each * h.QueryCount() * 4)
		shared := sharedRows(h, 2*attentionRows)
		launch(e, kAttentionGradQ, each*ceil(h.QueryCount(), attentionRows), attentionTeam, shared, &args)
		launch(e, kAttentionGradKV, each*ceil(h.Len, attentionRows), attentionTeam, shared, &args)
	}
}
