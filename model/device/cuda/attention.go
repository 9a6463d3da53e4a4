package cuda

import (
	"fmt"

	"scalewm/model/device"
)

const (
	fewTokens        = 4   // the longest sequence of kernels/attention_few.cu
	fewLanes         = 8   // lanes that share a head there, if it has 64 bf16 columns; a warp otherwise
	maxHeadDim       = 128 // the most columns of a head
	attentionThreads = 128 // threads of a block
	attentionRows    = 16  // queries (or keys) of a block of kernels/attention.cu

	// Sizes of kernels/flash.cuh: columns of a head, rows of a chunk, of which shared
	// memory holds two, and queries that a block's warps process at once.
	tensorHead  = 64
	tensorChunk = 272
	tensorRows  = 128

	// The number of heads from which on one block per head keeps a GPU busy: two per SM
	// of an H100.
	enoughHeads = 264
)

// attention returns the arguments that all attention kernels share. A head wider than
// the kernels support is a failure of the device, not a panic: no model here has one,
// but a checkpoint might.
func (e *engine) attention(out, lse, q, k, v device.Mat, h device.Heads) attentionArgs {
	if h.Dim > maxHeadDim {
		e.fail(fmt.Errorf("attention heads of %d columns are not supported (hint: at most %d on the GPU)", h.Dim, maxHeadDim))
	}
	return attentionArgs{out: view(out), lse: view(lse), q: view(q), k: view(k), v: view(v),
		seqs: int64(h.Seqs), len: int64(h.Len), heads: int64(h.Heads), dim: int64(h.Dim), block: int64(h.Block),
		queries: int64(h.QueryCount()), byToken: flag(h.ByToken), p: float64(h.Drop.P), key: h.Drop.Key}
}

// allBF16 reports whether all matrices are bf16 with rows that begin at multiples of
// width elements.
func allBF16(width int64, ms []mat) bool {
	for _, m := range ms {
		if m.bf16 == 0 || int64(m.p)%(2*width) != 0 || m.stride%width != 0 {
			return false
		}
	}
	return true
}

// tensor reports whether the tensor-core kernels can compute the attention (can), and
// whether the faster ones can, which need all rows in shared memory and no mask or
// dropout (plain). It sets a.vec.
func (a *attentionArgs) tensor(ms []mat) (can, plain bool) {
	a.vec = flag(allBF16(8, ms))
	return a.dim == tensorHead && allBF16(1, ms), a.block == 0 && a.p == 0 && max(a.len, a.queries) <= tensorChunk
}

// choose returns a if first is true, else b.
func choose(first bool, a, b Kernel) Kernel {
	if first {
		return a
	}
	return b
}

// tensorShared returns the shared memory of the tensor-core kernels in bytes: two
// chunks of bf16 rows and, in the backward pass, two floats for each query, rounded up
// to 16 queries.
func tensorShared(queries int) int { return 2*2*tensorChunk*tensorHead + 8*16*ceil(queries, 16) }

// Attention chooses a kernel by the length of the sequence and the layout of the matrices.
func (e *engine) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	args, each := e.attention(out, lse, q, k, v, h), h.Seqs*h.Heads
	ms := []mat{args.out, args.q, args.k, args.v}
	tensor, plain := args.tensor(ms)
	switch {
	case h.Len <= fewTokens && tensor:
		launch(e, kAttentionFew, ceil(each*fewLanes, attentionThreads), attentionThreads, 0, &args)
	case h.Len <= fewTokens:
		launch(e, kAttentionFewAny, ceil(each*32, attentionThreads), attentionThreads, 0, &args)
	case tensor:
		parts := ceil(h.QueryCount(), tensorRows)
		if plain && each >= enoughHeads {
			parts = 1 // keys and values are read once per head
		}
		launch(e, choose(plain, kAttentionMMA, kAttentionMMAAny), each*parts, attentionThreads, tensorShared(0), &args)
	default:
		launch(e, kAttention, each*ceil(h.QueryCount(), attentionRows), attentionThreads, sharedRows(h, attentionRows), &args)
	}
}

// sharedRows returns the shared memory of kernels/attention.cu in bytes: `own` rows
// that belong to the block, and 32 passing rows of each of two matrices, in floats,
// padded by one.
func sharedRows(h device.Heads, own int) int { return (own + 2*32) * (h.Dim + 1) * 4 }

// AttentionGrad recomputes the probabilities. The float32 kernels need two launches and
// scratch memory for delta.
func (e *engine) AttentionGrad(dq, dk, dv, dout, lse, q, k, v device.Mat, h device.Heads) {
	args, each := e.attention(device.Mat{}, lse, q, k, v, h), h.Seqs*h.Heads
	args.dq, args.dk, args.dv, args.dout = view(dq), view(dk), view(dv), view(dout)
	ms := []mat{args.q, args.k, args.v, args.dq, args.dk, args.dv, args.dout}
	tensor, plain := args.tensor(ms)
	switch {
	case h.Len <= fewTokens && tensor:
		launch(e, kAttentionFewGrad, ceil(each*fewLanes, attentionThreads), attentionThreads, 0, &args)
	case h.Len <= fewTokens:
		launch(e, kAttentionFewAnyGrad, ceil(each*32, attentionThreads), attentionThreads, 0, &args)
	case tensor:
		launch(e, choose(plain, kAttentionMMAGrad, kAttentionMMAAnyGrad), each, attentionThreads, tensorShared(h.QueryCount()), &args)
	default:
		args.delta = e.scratch(each * h.QueryCount() * 4)
		shared := sharedRows(h, 2*attentionRows)
		launch(e, kAttentionGradQ, each*ceil(h.QueryCount(), attentionRows), attentionThreads, shared, &args)
		launch(e, kAttentionGradKV, each*ceil(h.Len, attentionRows), attentionThreads, shared, &args)
	}
}
