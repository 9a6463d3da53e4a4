// attention_mma_grad.cu: the gradients of attention on tensor cores, for heads of 64
// bf16 columns.
//
// A block processes one head of one sequence in two sweeps. In the first, keys and
// values are in shared memory, and warps carry queries through them twice, for delta and
// then for dq. In the second, queries and their gradients are in shared memory, and warps
// carry keys through those for dk and dv. With s = q k^T / 8, p = exp(s - lse) and
// dp = dout v^T:
//    delta = sum p dp, ds = p (dp - delta), dq = ds k / 8, dk = ds^T q / 8, dv = p^T dout
// delta cannot be dout . out (attention.cu says why). The scores are computed three times,
// nine products instead of five. In return no sums are added between warps, which would
// need atomics or another pass. Scores and sums stay in registers; lse and delta of the
// queries, which the second sweep needs, in shared memory.
//
// Memory traffic: lse is read once, q, k, v and dout twice, the second time from L2; dq,
// dk and dv are written once. With a mask, dropout or more than CHUNK rows, k and v are
// read twice per 64 queries, and q and dout once per 64 keys.
#include "flash.cuh"

// Grads is a block's head, the chunks of two matrices in shared memory, and the
// statistics of each query.
struct Grads {
	const AttentionArgs &a;
	Head h;
	uint4 *x, *y;
	float *stats; // per query: -lse in base 2, then delta

	DEVICE_METHOD Strip queries(const Mat &m) const { return strip_of(m, h.query, h, a, a.queries); }
	DEVICE_METHOD Strip keys(const Mat &m) const { return strip_of(m, h.key, h, a, a.len); }
};

// stage_two loads the rows from t0 on of two strips and waits for them.
DEVICE void stage_two(const Grads &b, const Strip &x, const Strip &y, int t0) {
	int n = chunk_rows(x.rows - t0);
	__syncthreads(); // all warps are done with the previous rows
	stage(b.x, x, t0, n);
	stage(b.y, y, t0, n);
	copy_commit();
	copy_wait<0>();
	__syncthreads();
}

// QueryGrad is 16 M queries from r0 on in the first sweep. lse is negated and in base
// 2.
template <int M> struct QueryGrad {
	int r0;
	RowTiles<M> q, dout;
	RowSums<M> dq;
	float lse[M][2], delta[M][2];
};

// zero clears accumulators.
template <int M> DEVICE void zero(RowSums<M> &x) {
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int j = 0; j < HEAD / 8; j++) {
			UNROLL for (int e = 0; e < 4; e++) x.v[m][j][e] = 0;
		}
	}
}

// begin loads the queries from r0 on. Missing queries get lse = infinity (stored
// negated), so their probabilities are zero and they add nothing.
template <int M> DEVICE void begin(QueryGrad<M> &x, const Grads &b, int r0) {
	x.r0 = r0;
	x.dout.load(b.queries(b.a.dout), r0);
	x.q.load(b.queries(b.a.q), r0);
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			int query = row_of(r0, m, r);
			x.lse[m][r] = query < (int)b.a.queries ? at(b.a.lse, b.h.index, query) * -LOG2E : -INFINITE;
			x.delta[m][r] = 0;
		}
	}
	zero(x.dq);
}

// share_delta adds up the quad's parts of delta, and stores lse and delta for the second
// sweep.
template <int M> DEVICE void share_delta(QueryGrad<M> &x, const Grads &b) {
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			int query = row_of(x.r0, m, r);
			x.delta[m][r] = quad_sum(x.delta[m][r]);
			if (lane() % 4 == 0 && query < stats_rows(b.a)) b.stats[2 * query] = x.lse[m][r], b.stats[2 * query + 1] = x.delta[m][r];
		}
	}
}

// sum_over_keys adds to delta (DELTA) or to dq the contribution of 16 keys from t on; the
// chunk begins at t0.
template <bool DELTA, bool MASKED, bool PLAIN, int M> DEVICE void sum_over_keys(QueryGrad<M> &x, const Grads &b, int t0, int t) {
	Scores<M, 2> s, dp;
	dot_rows(s, x.q, b.x, t - t0);
	dot_rows(dp, x.dout, b.y, t - t0);
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int e = 0; e < 4; e++) {
			int query = row_of(x.r0, m, e / 2), seen = PLAIN ? (int)b.a.len : seen_by(b.a, query);
			UNROLL for (int n = 0; n < 2; n++) {
				int key = col_of(t, n, e);
				float p = fast_exp2(fmaf(s.v[m][n][e], TO_BASE_2, x.lse[m][e / 2]));
				float dropout = PLAIN ? 1 : attention_dropout(b.a, b.h, query, key);
				float ds = p * fmaf(dropout, dp.v[m][n][e], DELTA ? 0 : -x.delta[m][e / 2]);
				if (MASKED && key >= seen) ds = 0;
				if (DELTA) x.delta[m][e / 2] += ds;
				else s.v[m][n][e] = ds;
			}
		}
	}
	if (!DELTA) accumulate(x.dq, s, b.x, t - t0);
}

// store_all stores sums with one scale for all rows.
template <int M> DEVICE void store_all(const Strip &to, int r0, const RowSums<M> &x, float scale) {
	float all[M][2];
	UNROLL for (int m = 0; m < M; m++) all[m][0] = all[m][1] = scale;
	store(to, r0, x, all);
}

// KeyGrad is 16 M keys from r0 on in the second sweep.
template <int M> struct KeyGrad {
	int r0;
	RowTiles<M> k, v;
	RowSums<M> dk, dv;
};

// sum_over_queries adds to dk and dv the contribution of 16 queries from t on. Here
// rows of the scores are keys and columns queries, so the statistics belong to the
// lane's columns: a float4 holds those of two adjacent queries.
template <bool MASKED, bool PLAIN, int M> DEVICE void sum_over_queries(KeyGrad<M> &x, const Grads &b, int t0, int t) {
	Scores<M, 2> s, dp;
	float4 stats[2];
	UNROLL for (int n = 0; n < 2; n++) stats[n] = ((const float4 *)b.stats)[col_of(t, n, 0) / 2];
	dot_rows(s, x.k, b.x, t - t0);
	dot_rows(dp, x.v, b.y, t - t0);
	UNROLL for (int n = 0; n < 2; n++) {
		UNROLL for (int e = 0; e < 4; e++) {
			float lse = e % 2 ? stats[n].z : stats[n].x, delta = e % 2 ? stats[n].w : stats[n].y;
			int query = col_of(t, n, e), seen = MASKED ? seen_by(b.a, query) : 0;
			UNROLL for (int m = 0; m < M; m++) {
				int key = row_of(x.r0, m, e / 2);
				float p = fast_exp2(fmaf(s.v[m][n][e], TO_BASE_2, lse)), dropout = PLAIN ? 1 : attention_dropout(b.a, b.h, query, key);
				if (MASKED && key >= seen) p = 0;
				s.v[m][n][e] = p * dropout;
				dp.v[m][n][e] = p * fmaf(dropout, dp.v[m][n][e], -delta);
			}
		}
	}
	accumulate(x.dv, s, b.y, t - t0);
	accumulate(x.dk, dp, b.x, t - t0);
}

// begin loads the keys and values from r0 on.
template <int M> DEVICE void begin(KeyGrad<M> &x, const Grads &b, int r0) {
	x.r0 = r0;
	x.k.load(b.keys(b.a.k), r0);
	x.v.load(b.keys(b.a.v), r0);
	zero(x.dk), zero(x.dv);
}

// finish stores dk and dv; 1/8 is the scale of the scores.
template <int M> DEVICE void finish(const KeyGrad<M> &x, const Grads &b) {
	store_all(b.keys(b.a.dk), x.r0, x.dk, 0.125f);
	store_all(b.keys(b.a.dv), x.r0, x.dv, 1);
}

// plain_queries and plain_keys are the two sweeps for heads that fit in shared memory,
// without mask and dropout; plain_sum carries queries through all keys once.
template <bool DELTA, int M> DEVICE void plain_sum(QueryGrad<M> &x, const Grads &b) {
	int t = 0, len = (int)b.a.len;
	for (; t + 16 <= len; t += 16) sum_over_keys<DELTA, false, true>(x, b, 0, t);
	if (t < len) sum_over_keys<DELTA, true, true>(x, b, 0, t);
}

template <int M> DEVICE void plain_queries(const Grads &b, int r0) {
	QueryGrad<M> x;
	begin(x, b, r0);
	plain_sum<true>(x, b);
	share_delta(x, b);
	plain_sum<false>(x, b);
	store_all(b.queries(b.a.dq), r0, x.dq, 0.125f);
}

template <int M> DEVICE void plain_keys(const Grads &b, int r0) {
	KeyGrad<M> x;
	begin(x, b, r0);
	for (int t = 0; t < (int)b.a.queries; t += 16) sum_over_queries<false, true>(x, b, 0, t);
	finish(x, b);
}

// block_grads returns the block's head and its shared memory: two chunks, then the
// statistics.
DEVICE Grads block_grads(const AttentionArgs &a, uint4 *shared) {
	Grads b = {a, head_of(a, blockIdx.x), shared, shared + CHUNK * PIECES, (float *)(shared + 2 * CHUNK * PIECES)};
	return b;
}

// attention_mma_grad is for heads that fit, without mask and dropout. A warp has 32
// rows where there are that many, else 16. stage_two between the sweeps is also the
// barrier after which all statistics are in shared memory.
KERNEL(attention_mma_grad, AttentionArgs, BLOCK_WARPS *WARP, 2) {
	SHARED(uint4, shared);
	Grads b = block_grads(a, shared);
	int first = first_of_warp();
	stage_two(b, b.keys(a.k), b.keys(a.v), 0);
	for (int r0 = first; r0 < (int)a.queries; r0 += BLOCK_ROWS) {
		if (r0 + 16 < (int)a.queries) plain_queries<2>(b, r0);
		else plain_queries<1>(b, r0);
	}
	stage_two(b, b.queries(a.q), b.queries(a.dout), 0);
	for (int r0 = first; r0 < (int)a.len; r0 += BLOCK_ROWS) {
		if (r0 + 16 < (int)a.len) plain_keys<2>(b, r0);
		else plain_keys<1>(b, r0);
	}
}

// any_queries and any_keys are the sweeps of the general case: 64 rows per pass, 16 per
// warp, while the rows on the other side of the products arrive in chunks. any_sum carries
// the queries through the first `keys` keys, which some of the block's queries see.
template <bool DELTA> DEVICE void any_sum(QueryGrad<1> &x, const Grads &b, int keys) {
	for (int t0 = 0; t0 < keys; t0 += CHUNK) {
		stage_two(b, b.keys(b.a.k), b.keys(b.a.v), t0);
		for (int t = t0; t < min32(t0 + CHUNK, seen_by(b.a, x.r0 + 15)); t += 16) sum_over_keys<DELTA, true, false>(x, b, t0, t);
	}
}

DEVICE void any_queries(const Grads &b, int first) {
	int keys = seen_by(b.a, first + 16 * BLOCK_WARPS - 1);
	QueryGrad<1> x;
	begin(x, b, first + 16 * warp());
	any_sum<true>(x, b, keys);
	share_delta(x, b);
	any_sum<false>(x, b, keys);
	store_all(b.queries(b.a.dq), x.r0, x.dq, 0.125f);
}

DEVICE void any_keys(const Grads &b, int r0) {
	KeyGrad<1> x;
	begin(x, b, r0);
	int queries = (int)b.a.queries;
	for (int t0 = 0; t0 < queries; t0 += CHUNK) {
		stage_two(b, b.queries(b.a.q), b.queries(b.a.dout), t0);
		for (int t = t0; t < min32(t0 + CHUNK, queries); t += 16) {
			if (seen_by(b.a, t + 15) > r0) sum_over_queries<true, false>(x, b, t0, t);
		}
	}
	finish(x, b);
}

// attention_mma_any_grad is for masks, dropout, and more rows than shared memory holds.
KERNEL(attention_mma_any_grad, AttentionArgs, BLOCK_WARPS *WARP) {
	SHARED(uint4, shared);
	Grads b = block_grads(a, shared);
	for (int first = 0; first < (int)a.queries; first += 16 * BLOCK_WARPS) any_queries(b, first);
	for (int first = 0; first < (int)a.len; first += 16 * BLOCK_WARPS) any_keys(b, first + 16 * warp());
}
