// heads.cuh: where a block of an attention kernel works, and what a query sees.
#ifndef HEADS_CUH
#define HEADS_CUH
#include "args.cuh"

// Head is what a block works on: one head of one sequence, and queries (or keys) from r0.
struct Head {
	i64 index, query, key, step, col, r0; // query, key: rows of the sequence's first ones; step: to its next
};

// head_of is head i of all sequences' heads.
DEVICE Head head_of(const AttentionArgs &a, i64 i) {
	i64 seq = (u32)i / (u32)a.heads;
	Head h = {i, seq * a.queries, seq * a.len, 1, (i - seq * a.heads) * a.dim, 0};
	if (a.by_token) h.query = h.key = seq, h.step = a.seqs;
	return h;
}

// piece_of is the block's place where sequences of `rows` are cut into pieces.
DEVICE Head piece_of(const AttentionArgs &a, i64 rows, int piece) {
	i64 blocks = (rows + piece - 1) / piece;
	Head h = head_of(a, blockIdx.x / blocks);
	h.r0 = blockIdx.x % blocks * piece;
	return h;
}

// keys_of is how many keys query i, counted from the first query, sees.
DEVICE i64 keys_of(const AttentionArgs &a, i64 i) {
	return a.block == 0 ? a.len : least(a.len, ((i + a.len - a.queries) / a.block + 1) * a.block);
}

DEVICE float keep_of(const AttentionArgs &a, const Head &h, i64 query, i64 key) {
	return keep((float)a.p, a.key, (u64)((h.index * a.len + query + a.len - a.queries) * a.len + key));
}

// Four neighbouring lanes are a quad.
DEVICE float quad_sum(float v) {
	v += __shfl_xor_sync(FULL, v, 1);
	return v + __shfl_xor_sync(FULL, v, 2);
}

DEVICE float quad_max(float v) {
	v = fmaxf(v, __shfl_xor_sync(FULL, v, 1));
	return fmaxf(v, __shfl_xor_sync(FULL, v, 2));
}

#endif
