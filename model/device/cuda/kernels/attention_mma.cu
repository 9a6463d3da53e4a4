// attention_mma.cu: attention with tensor cores, for heads of 64 bf16 columns.
//
// Idea: a warp carries 16 or 32 queries through all keys, out = softmax(q k^T / 8) v; its scores, sums and
// results stay in registers. Keys and values of a head lie in shared memory, all of them where there is room
// (CHUNK rows, 68 KiB for both), and then each warp goes through several tiles of queries without waiting for
// the others; else by chunks, which all warps of a block share.
//
// Softmax is made on the way, as in attention.cu, but sums are rescaled only when the highest score rises by more
// than 8 in base 2, which after the first step is rare: until then exponentials are at most 2^8. They
// are rounded to bf16 before they multiply values.
// Memory traffic: q is read once and out is written once, with lse where it is asked for. k and v are read once by
// each block of a head; with masks, dropout or more than CHUNK keys, once for every 128 queries, as far as those see.
#include "flash.cuh"

// Keys is a block's head, and the keys and values that are in shared memory.
struct Keys {
	const AttentionArgs &a;
	Head h;
	uint4 *k, *v;
};

DEVICE void stage_keys(const Keys &b, int t0) {
	int n = chunk_rows((int)b.a.len - t0);
	stage(b.k, strip_of(b.a.k, b.h.key, b.h, b.a, b.a.len), t0, n);
	stage(b.v, strip_of(b.a.v, b.h.key, b.h, b.a, b.a.len), t0, n);
	copy_commit();
	copy_wait<0>();
	__syncthreads();
}

// Queries are 16 M queries from r0 on, on their way through the keys.
template <int M> struct Queries {
	int r0;
	Tiles<M> q;
	Results<M> out;
	float top[M][2], total[M][2];
};

template <int M> DEVICE void begin(Queries<M> &x, const Keys &b, int r0) {
	x.r0 = r0;
	x.q.load(strip_of(b.a.q, b.h.query, b.h, b.a, b.a.queries), r0);
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			x.top[m][r] = -INFINITE, x.total[m][r] = 0;
			UNROLL for (int j = 0; j < HEAD / 8; j++) x.out.v[m][j][2 * r] = x.out.v[m][j][2 * r + 1] = 0;
		}
	}
}

// raise brings the score that probabilities are relative to up to a step's highest.
template <int M, int N> DEVICE void raise(Queries<M> &x, const Scores<M, N> &s) {
	float shrink[M][2];
	bool raised = false;
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			float most = -INFINITE;
			UNROLL for (int n = 0; n < N; n++) most = fmaxf(most, fmaxf(s.v[m][n][2 * r], s.v[m][n][2 * r + 1]));
			most = quad_max(most) * TO_BASE_2;
			bool higher = most > x.top[m][r] + 8;
			shrink[m][r] = higher ? quick_exp2(x.top[m][r] - most) : 1;
			x.top[m][r] = higher ? most : x.top[m][r];
			raised |= higher;
		}
	}
	if (!__ballot_sync(FULL, raised)) return;
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			x.total[m][r] *= shrink[m][r];
			UNROLL for (int j = 0; j < HEAD / 8; j++) x.out.v[m][j][2 * r] *= shrink[m][r], x.out.v[m][j][2 * r + 1] *= shrink[m][r];
		}
	}
}

// attend goes through 8 N keys from t on, whose chunk begins at t0.
template <int N, bool MASKED, bool PLAIN, int M> DEVICE void attend(Queries<M> &x, const Keys &b, int t0, int t) {
	Scores<M, N> s;
	times(s, x.q, b.k, t - t0);
	if (MASKED) {
		UNROLL for (int m = 0; m < M; m++) {
			UNROLL for (int e = 0; e < 4; e++) {
				int seen = PLAIN ? (int)b.a.len : seen_by(b.a, row_of(x.r0, m, e / 2));
				UNROLL for (int n = 0; n < N; n++) {
					if (col_of(t, n, e) >= seen) s.v[m][n][e] = -INFINITE;
				}
			}
		}
	}
	raise(x, s);
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int n = 0; n < N; n++) {
			UNROLL for (int e = 0; e < 4; e++) {
				float p = quick_exp2(fmaf(s.v[m][n][e], TO_BASE_2, -x.top[m][e / 2]));
				x.total[m][e / 2] += p;
				s.v[m][n][e] = PLAIN ? p : p * keep_of(b.a, b.h, row_of(x.r0, m, e / 2), col_of(t, n, e));
			}
		}
	}
	gather(x.out, s, b.v, t - t0);
}

template <int M> DEVICE void finish(Queries<M> &x, const Keys &b) {
	float inverse[M][2];
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			int query = row_of(x.r0, m, r);
			float total = quad_sum(x.total[m][r]);
			inverse[m][r] = 1 / total;
			if (b.a.lse.p && lane() % 4 == 0 && query < (int)b.a.queries)
				at(b.a.lse, b.h.index, query) = (x.top[m][r] + log2f(total)) / LOG2E;
		}
	}
	store(strip_of(b.a.out, b.h.query, b.h, b.a, b.a.queries), x.r0, x.out, inverse);
}

// plain brings queries through keys that all are in shared memory and seen.
template <int M> DEVICE void plain(const Keys &b, int r0) {
	Queries<M> x;
	begin(x, b, r0);
	int t = 0, len = (int)b.a.len;
	for (; t + 32 <= len; t += 32) attend<4, false, true>(x, b, 0, t);
	for (; t < len; t += 16) attend<2, true, true>(x, b, 0, t);
	finish(x, b);
}

// any does so for the first `keys` keys, which come by chunks.
template <int M> DEVICE void any(const Keys &b, int r0, int keys) {
	Queries<M> x;
	begin(x, b, r0);
	int every = seen_by(b.a, r0), some = seen_by(b.a, r0 + 16 * M - 1);
	for (int t0 = 0; t0 < keys; t0 += CHUNK) {
		__syncthreads(); // the chunk before is done with
		stage_keys(b, t0);
		int t = t0, end = lesser(some, t0 + CHUNK);
		for (; t + 32 <= lesser(end, every); t += 32) attend<4, false, false>(x, b, t0, t);
		for (; t < end; t += 16) attend<2, true, false>(x, b, t0, t);
	}
	finish(x, b);
}

DEVICE Keys keys_of_block(const AttentionArgs &a, uint4 *shared, int parts) {
	Keys b = {a, head_of(a, blockIdx.x / parts), shared, shared + CHUNK * PIECES};
	return b;
}

// For heads whose keys all fit, without mask and dropout. Several blocks may share one.
KERNEL(attention_mma, AttentionArgs, TEAM *WARP, 3) {
	SHARED(uint4, shared);
	int parts = gridDim.x / (u32)(a.seqs * a.heads), queries = (int)a.queries;
	Keys b = keys_of_block(a, shared, parts);
	stage_keys(b, 0);
	for (int r0 = blockIdx.x % parts * BLOCK_ROWS + first_of_warp(); r0 < queries; r0 += parts * BLOCK_ROWS) {
		if (r0 + 16 < queries) plain<2>(b, r0);
		else plain<1>(b, r0);
	}
}

// For masks, dropout, and more keys than shared memory has room for.
KERNEL(attention_mma_any, AttentionArgs, TEAM *WARP) {
	SHARED(uint4, shared);
	int parts = gridDim.x / (u32)(a.seqs * a.heads), queries = (int)a.queries;
	Keys b = keys_of_block(a, shared, parts);
	for (int r0 = blockIdx.x % parts * BLOCK_ROWS; r0 < queries; r0 += parts * BLOCK_ROWS)
		any<2>(b, r0 + 32 * warp(), seen_by(a, r0 + BLOCK_ROWS - 1));
}
