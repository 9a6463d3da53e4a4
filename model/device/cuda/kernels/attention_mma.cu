// attention_mma.cu: attention on tensor cores, for heads of 64 bf16 columns (forward
// pass).
//
// A warp carries 16 or 32 queries through all keys, out = softmax(q k^T / 8) v, keeping
// its scores, probabilities and sums in registers. The keys and values of a head are in
// shared memory. If all of them fit (CHUNK rows, 68 KiB for both), each warp processes
// several tiles of queries without synchronizing with the others. Otherwise keys and
// values arrive in chunks that the block's warps share.
//
// Softmax is updated online as in attention.cu, but the sums are rescaled only when the
// highest score rises by more than 8 in base 2. Until then exponentials are at most
// 2^8, far from overflow, and after the first step a rise is rare. Probabilities are
// rounded to bf16 before they multiply the values.
//
// Memory traffic: q is read once and out, and lse if given, written once. k and v are
// read once by each block of a head; with a mask, dropout or more than CHUNK keys, once
// per 128 queries, as far as those see.
#include "flash.cuh"

// Keys is a block's head, and the keys and values that are in shared memory.
struct Keys {
	const AttentionArgs &a;
	Head h;
	uint4 *k, *v;
};

// stage_keys loads the chunk of keys and values from t0 on and waits for it.
DEVICE void stage_keys(const Keys &b, int t0) {
	int n = chunk_rows((int)b.a.len - t0);
	stage(b.k, strip_of(b.a.k, b.h.key, b.h, b.a, b.a.len), t0, n);
	stage(b.v, strip_of(b.a.v, b.h.key, b.h, b.a, b.a.len), t0, n);
	copy_commit();
	copy_wait<0>();
	__syncthreads();
}

// Queries is 16 M queries from r0 on, on their way through the keys. top is the score,
// in base 2, that the exponentials are relative to; total is the lane's share of their
// sum. Index r (0 or 1) is one of the two rows of a tile that a lane has.
template <int M> struct Queries {
	int r0;
	RowTiles<M> q;
	RowSums<M> out;
	float top[M][2], total[M][2];
};

// begin loads the queries from r0 on and clears the sums.
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

// rescale raises top to the highest score of a step where that exceeds it by more than
// 8, and rescales the sums accordingly. __ballot_sync makes the branch uniform: most
// steps skip the multiplications.
template <int M, int N> DEVICE void rescale(Queries<M> &x, const Scores<M, N> &s) {
	float shrink[M][2];
	bool raised = false;
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			float most = -INFINITE;
			UNROLL for (int n = 0; n < N; n++) most = fmaxf(most, fmaxf(s.v[m][n][2 * r], s.v[m][n][2 * r + 1]));
			most = quad_max(most) * TO_BASE_2;
			bool higher = most > x.top[m][r] + 8;
			shrink[m][r] = higher ? fast_exp2(x.top[m][r] - most) : 1;
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

// attend processes 8 N keys from t on; the chunk in shared memory begins at t0. MASKED:
// some queries do not see all of these keys. PLAIN: no mask and no dropout, so only the
// end of the sequence can hide keys.
template <int N, bool MASKED, bool PLAIN, int M> DEVICE void attend(Queries<M> &x, const Keys &b, int t0, int t) {
	Scores<M, N> s;
	dot_rows(s, x.q, b.k, t - t0);
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
	rescale(x, s);
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int n = 0; n < N; n++) {
			UNROLL for (int e = 0; e < 4; e++) {
				float p = fast_exp2(fmaf(s.v[m][n][e], TO_BASE_2, -x.top[m][e / 2]));
				x.total[m][e / 2] += p;
				s.v[m][n][e] = PLAIN ? p : p * attention_dropout(b.a, b.h, row_of(x.r0, m, e / 2), col_of(t, n, e));
			}
		}
	}
	accumulate(x.out, s, b.v, t - t0);
}

// finish divides by the sums of exponentials and stores out and lse. The quad of lanes
// that share a row adds up its parts of the sum only here.
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

// plain processes queries whose keys are all in shared memory and all visible. 32 keys
// a step give the tensor cores independent products; the last keys take masked steps of
// 16.
template <int M> DEVICE void plain(const Keys &b, int r0) {
	Queries<M> x;
	begin(x, b, r0);
	int t = 0, len = (int)b.a.len;
	for (; t + 32 <= len; t += 32) attend<4, false, true>(x, b, 0, t);
	for (; t < len; t += 16) attend<2, true, true>(x, b, 0, t);
	finish(x, b);
}

// general processes queries that see at most the first `keys` keys, chunk by chunk. The
// first loop covers the keys that all of the warp's queries see, the second those that
// only some see. All warps call it with the same `keys`, since loading a chunk is a
// barrier.
template <int M> DEVICE void general(const Keys &b, int r0, int keys) {
	Queries<M> x;
	begin(x, b, r0);
	int seen_by_all = seen_by(b.a, r0), seen_by_any = seen_by(b.a, r0 + 16 * M - 1);
	for (int t0 = 0; t0 < keys; t0 += CHUNK) {
		__syncthreads(); // all warps are done with the previous chunk
		stage_keys(b, t0);
		int t = t0, end = min32(seen_by_any, t0 + CHUNK);
		for (; t + 32 <= min32(end, seen_by_all); t += 32) attend<4, false, false>(x, b, t0, t);
		for (; t < end; t += 16) attend<2, true, false>(x, b, t0, t);
	}
	finish(x, b);
}

// block_keys returns the head of this block, of a grid with `parts` blocks per head.
DEVICE Keys block_keys(const AttentionArgs &a, uint4 *shared, int parts) {
	Keys b = {a, head_of(a, blockIdx.x / parts), shared, shared + CHUNK * PIECES};
	return b;
}

// attention_mma is for heads whose keys all fit in shared memory, without mask and
// dropout. Several blocks may share a head. Three blocks fit on an SM of Hopper.
KERNEL(attention_mma, AttentionArgs, BLOCK_WARPS *WARP, 3) {
	SHARED(uint4, shared);
	int parts = gridDim.x / (u32)(a.seqs * a.heads), queries = (int)a.queries;
	Keys b = block_keys(a, shared, parts);
	stage_keys(b, 0);
	for (int r0 = blockIdx.x % parts * BLOCK_ROWS + first_of_warp(); r0 < queries; r0 += parts * BLOCK_ROWS) {
		if (r0 + 16 < queries) plain<2>(b, r0);
		else plain<1>(b, r0);
	}
}

// attention_mma_any is for masks, dropout, and more keys than shared memory holds.
KERNEL(attention_mma_any, AttentionArgs, BLOCK_WARPS *WARP) {
	SHARED(uint4, shared);
	int parts = gridDim.x / (u32)(a.seqs * a.heads), queries = (int)a.queries;
	Keys b = block_keys(a, shared, parts);
	for (int r0 = blockIdx.x % parts * BLOCK_ROWS; r0 < queries; r0 += parts * BLOCK_ROWS)
		general<2>(b, r0 + 32 * warp(), seen_by(a, r0 + BLOCK_ROWS - 1));
}
