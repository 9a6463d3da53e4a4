// heads.cuh: the geometry of attention: which rows and columns a block works on, and
// which keys a query sees.
#ifndef HEADS_CUH
#define HEADS_CUH
#include "args.cuh"

// Head is one head of one sequence, and the first row of the block's share of it.
//
// index is the head's index among those of all sequences. query and key are the rows of
// the sequence's first query and first key, step the distance in rows from a token to
// the next, col the head's first column, and r0 the first query (or key) of the block
// within the sequence.
struct Head {
	i64 index, query, key, step, col, r0;
};

// head_of returns head i of all sequences' heads, with r0 = 0.
DEVICE Head head_of(const AttentionArgs &a, i64 i) {
	i64 seq = (u32)i / (u32)a.heads;
	Head h = {i, seq * a.queries, seq * a.len, 1, (i - seq * a.heads) * a.dim, 0};
	if (a.by_token) h.query = h.key = seq, h.step = a.seqs;
	return h;
}

// piece_of returns the block's head and first row, for a grid that divides each head's
// `rows` rows into pieces of `piece` rows.
DEVICE Head piece_of(const AttentionArgs &a, i64 rows, int piece) {
	i64 blocks = (rows + piece - 1) / piece;
	Head h = head_of(a, blockIdx.x / blocks);
	h.r0 = blockIdx.x % blocks * piece;
	return h;
}

// keys_of returns the number of keys that query i sees; i counts from the sequence's
// first query, which is token len - queries. Under the block-causal mask a token sees
// its own block and all earlier ones.
DEVICE i64 keys_of(const AttentionArgs &a, i64 i) {
	return a.block == 0 ? a.len : min64(a.len, ((i + a.len - a.queries) / a.block + 1) * a.block);
}

// attention_dropout returns the dropout factor of a probability. The element index
// counts queries as tokens of the sequence, so that it does not depend on how many of
// them are computed.
DEVICE float attention_dropout(const AttentionArgs &a, const Head &h, i64 query, i64 key) {
	return dropout_at((float)a.p, a.key, (u64)((h.index * a.len + query + a.len - a.queries) * a.len + key));
}

// A quad is four neighboring lanes, which hold the columns of one row of an accumulator
// fragment (mma.cuh). quad_sum and quad_max reduce over it and return the result to all
// four.
DEVICE float quad_sum(float v) {
	v += __shfl_xor_sync(FULL, v, 1);
	return v + __shfl_xor_sync(FULL, v, 2);
}

DEVICE float quad_max(float v) {
	v = fmaxf(v, __shfl_xor_sync(FULL, v, 1));
	return fmaxf(v, __shfl_xor_sync(FULL, v, 2));
}

#endif
