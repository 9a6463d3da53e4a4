// attention.cu: attention in float32 on CUDA cores, for any number of tokens and heads
// of up to 128 columns.
//
// Keys and values pass through shared memory 32 at a time, and the softmax is updated
// online, so scores never reach device memory. With s = q k^T / sqrt(dim), m the
// highest score so far, and m' the highest after the next 32 keys:
//    total = total exp(m-m') + sum exp(s-m')
//    out = out exp(m-m') + sum exp(s-m') v, and finally out/total
// The backward pass recomputes p = exp(s - lse), where lse = m + log(total) comes from
// the forward pass:
//    ds = p (dp - delta), dp = dout v^T, delta = sum p dp over the query's keys
//    dq = ds k / sqrt(dim), dk = ds^T q / sqrt(dim), dv = p^T dout
// Dropout factors multiply p in out and dv, and dp.
//
// A block has 16 rows of one head, and each of its four warps ROWS of them. Along the
// passing rows, a lane computes the dot products with one of the 32; along the columns,
// it has every 32nd column of the sums, which stay in registers.
//
// delta equals dout . out by its formula, but not if out is stored as bf16: where values
// differ little among keys, its rounding exceeds the gradients of the scores.
//
// Memory traffic: forward reads q once, writes out and lse once, and reads k and v once
// per 16 queries. The gradient of q reads k and v twice as often, and that of k and v reads
// q and dout once per 16 keys. Separate kernels for dq and for dk, dv recompute the
// scores but need no additions between blocks.
//
// Rows in shared memory are padded by one float: dim is usually a multiple of 32, and
// lanes that read the same column of 32 rows would otherwise all hit the same bank.
#include "heads.cuh"

enum { HEAD = 128, PARTS = HEAD / WARP, ROWS = 4, BLOCK_WARPS = 4, BLOCK_ROWS = ROWS * BLOCK_WARPS };

// stage copies rows [t0, t0+n) of a sequence of `tokens` rows, the first of which is
// row `first` of m, to shared-memory rows of `width` floats, with zeros beyond the
// sequence.
DEVICE void stage(float *s, const Mat &m, i64 first, i64 tokens, const Head &h, i64 t0, int n, int width) {
	int dim = width - 1;
	for (int i = threadIdx.x; i < n * dim; i += blockDim.x) {
		i64 t = t0 + i / dim;
		s[i / dim * width + i % dim] = t < tokens ? get(m, first + t * h.step, h.col + i % dim) : 0;
	}
}

// stage_next replaces the 32 passing rows of x and y by those from t0 on of two matrices.
DEVICE void stage_next(float *x, const Mat &mx, float *y, const Mat &my, i64 first, i64 tokens, const Head &h, i64 t0, int width) {
	__syncthreads(); // all warps are done with the previous rows
	stage(x, mx, first, tokens, h, t0, WARP, width);
	stage(y, my, first, tokens, h, t0, WARP, width);
	__syncthreads();
}

// dots computes s[i] = row i of the warp's ROWS times this lane's row. All lanes read
// the same element of `rows` at once, which shared memory broadcasts.
DEVICE void dots(float *s, const float *rows, const float *mine, int dim, int width) {
	UNROLL for (int i = 0; i < ROWS; i++) s[i] = 0;
	for (int d = 0; d < dim; d++) {
		float m = mine[d];
		UNROLL for (int i = 0; i < ROWS; i++) s[i] = fmaf(rows[i * width + d], m, s[i]);
	}
}

// add_weighted adds to sum[i] the 32 rows of `tile`, row j weighted by w[i] of lane j.
DEVICE void add_weighted(float (*sum)[PARTS], const float *w, const float *tile, int dim, int width) {
	for (int j = 0; j < WARP; j++) {
		float t[PARTS];
		UNROLL for (int p = 0; p < PARTS; p++) t[p] = p * WARP + lane() < dim ? tile[j * width + p * WARP + lane()] : 0;
		UNROLL for (int i = 0; i < ROWS; i++) {
			float wi = __shfl_sync(FULL, w[i], j);
			UNROLL for (int p = 0; p < PARTS; p++) sum[i][p] = fmaf(wi, t[p], sum[i][p]);
		}
	}
}

// store_rows writes the warp's sums, row i times scale[i], to the rows of m.
DEVICE void store_rows(const Mat &m, i64 first, i64 tokens, const AttentionArgs &a, const Head &h,
                    const float (*sum)[PARTS], const float *scale) {
	UNROLL for (int i = 0; i < ROWS; i++) {
		i64 t = h.r0 + warp() * ROWS + i;
		UNROLL for (int p = 0; p < PARTS; p++) {
			i64 d = p * WARP + lane();
			if (t < tokens && d < a.dim) set(m, first + t * h.step, h.col + d, sum[i][p] * scale[i]);
		}
	}
}

// attention is the forward pass. top holds the highest score m of each row, total the
// sum of exponentials.
KERNEL(attention, AttentionArgs, BLOCK_WARPS *WARP) {
	SHARED(float, shared);
	int dim = (int)a.dim, width = dim + 1;
	float *q = shared, *k = q + BLOCK_ROWS * width, *v = k + WARP * width;
	Head h = piece_of(a, a.queries, BLOCK_ROWS);
	float out[ROWS][PARTS] = {}, top[ROWS], total[ROWS] = {}, s[ROWS], scale = 1 / sqrtf((float)dim);
	UNROLL for (int i = 0; i < ROWS; i++) top[i] = -INFINITE;
	stage(q, a.q, h.query, a.queries, h, h.r0, BLOCK_ROWS, width);
	for (i64 t0 = 0; t0 < keys_of(a, min64(a.queries, h.r0 + BLOCK_ROWS) - 1); t0 += WARP) {
		stage_next(k, a.k, v, a.v, h.key, a.len, h, t0, width);
		dots(s, q + warp() * ROWS * width, k + lane() * width, dim, width);
		UNROLL for (int i = 0; i < ROWS; i++) {
			i64 query = h.r0 + warp() * ROWS + i, key = t0 + lane();
			bool seen = key < keys_of(a, query);
			float higher = fmaxf(top[i], warp_max(seen ? s[i] * scale : -INFINITE));
			float p = seen ? expf(s[i] * scale - higher) : 0, shrink = expf(top[i] - higher);
			total[i] = total[i] * shrink + warp_sum(p);
			s[i] = seen && a.p != 0 ? p * attention_dropout(a, h, query, key) : p;
			UNROLL for (int c = 0; c < PARTS; c++) out[i][c] *= shrink;
			top[i] = higher;
		}
		add_weighted(out, s, v, dim, width);
	}
	UNROLL for (int i = 0; i < ROWS; i++) {
		i64 query = h.r0 + warp() * ROWS + i;
		if (a.lse.p && lane() == 0 && query < a.queries) at(a.lse, h.index, query) = top[i] + logf(total[i]);
		total[i] = 1 / total[i];
	}
	store_rows(a.out, h.query, a.queries, a, h, out, total);
}

// attention_grad_q computes delta of each query and then dq. It stores delta for
// attention_grad_kv, which therefore must follow it.
KERNEL(attention_grad_q, AttentionArgs, BLOCK_WARPS *WARP) {
	SHARED(float, shared);
	int dim = (int)a.dim, width = dim + 1;
	float *q = shared, *dout = q + BLOCK_ROWS * width, *k = dout + BLOCK_ROWS * width, *v = k + WARP * width;
	Head h = piece_of(a, a.queries, BLOCK_ROWS);
	float dq[ROWS][PARTS] = {}, s[ROWS], dp[ROWS], lse[ROWS], delta[ROWS] = {}, sum[ROWS] = {}, scale[ROWS];
	stage(q, a.q, h.query, a.queries, h, h.r0, BLOCK_ROWS, width);
	stage(dout, a.dout, h.query, a.queries, h, h.r0, BLOCK_ROWS, width);
	UNROLL for (int i = 0; i < ROWS; i++) {
		i64 query = h.r0 + warp() * ROWS + i;
		lse[i] = query < a.queries ? at(a.lse, h.index, query) : 0;
		scale[i] = 1 / sqrtf((float)dim);
	}
	for (int pass = 0; pass < 2; pass++) { // the first, with delta = 0, sums p dp
		for (i64 t0 = 0; t0 < keys_of(a, min64(a.queries, h.r0 + BLOCK_ROWS) - 1); t0 += WARP) {
			stage_next(k, a.k, v, a.v, h.key, a.len, h, t0, width);
			dots(s, q + warp() * ROWS * width, k + lane() * width, dim, width);
			dots(dp, dout + warp() * ROWS * width, v + lane() * width, dim, width);
			UNROLL for (int i = 0; i < ROWS; i++) {
				i64 query = h.r0 + warp() * ROWS + i, key = t0 + lane();
				bool seen = query < a.queries && key < keys_of(a, query);
				float p = seen ? expf(s[i] * scale[i] - lse[i]) : 0;
				s[i] = seen ? p * (attention_dropout(a, h, query, key) * dp[i] - delta[i]) : 0;
				sum[i] += s[i];
			}
			if (pass == 1) add_weighted(dq, s, k, dim, width);
		}
		if (pass == 1) break;
		UNROLL for (int i = 0; i < ROWS; i++) {
			i64 query = h.r0 + warp() * ROWS + i;
			delta[i] = warp_sum(sum[i]);
			if (lane() == 0 && query < a.queries) a.delta[h.index * a.queries + query] = delta[i];
		}
	}
	store_rows(a.dq, h.query, a.queries, a, h, dq, scale);
}

// attention_grad_kv computes dk and dv. The roles are exchanged: a warp's rows are
// keys, and each lane has one of the 32 passing queries.
KERNEL(attention_grad_kv, AttentionArgs, BLOCK_WARPS *WARP) {
	SHARED(float, shared);
	int dim = (int)a.dim, width = dim + 1;
	float *k = shared, *v = k + BLOCK_ROWS * width, *q = v + BLOCK_ROWS * width, *dout = q + WARP * width;
	Head h = piece_of(a, a.len, BLOCK_ROWS);
	float dk[ROWS][PARTS] = {}, dv[ROWS][PARTS] = {}, s[ROWS], dp[ROWS], one[ROWS], scale[ROWS];
	UNROLL for (int i = 0; i < ROWS; i++) {
		one[i] = 1;
		scale[i] = 1 / sqrtf((float)dim);
	}
	stage(k, a.k, h.key, a.len, h, h.r0, BLOCK_ROWS, width);
	stage(v, a.v, h.key, a.len, h, h.r0, BLOCK_ROWS, width);
	for (i64 t0 = 0; t0 < a.queries; t0 += WARP) {
		if (keys_of(a, min64(a.queries, t0 + WARP) - 1) <= h.r0) continue; // the mask hides all of the block's keys from these queries
		stage_next(q, a.q, dout, a.dout, h.query, a.queries, h, t0, width);
		i64 query = t0 + lane();
		float lse = query < a.queries ? at(a.lse, h.index, query) : 0;
		float delta = query < a.queries ? a.delta[h.index * a.queries + query] : 0;
		dots(s, k + warp() * ROWS * width, q + lane() * width, dim, width);
		dots(dp, v + warp() * ROWS * width, dout + lane() * width, dim, width);
		UNROLL for (int i = 0; i < ROWS; i++) {
			i64 key = h.r0 + warp() * ROWS + i;
			bool seen = query < a.queries && key < keys_of(a, query);
			float p = seen ? expf(s[i] * scale[i] - lse) : 0, dropout = seen ? attention_dropout(a, h, query, key) : 0;
			s[i] = seen ? p * (dropout * dp[i] - delta) : 0;
			dp[i] = p * dropout;
		}
		add_weighted(dk, s, q, dim, width);
		add_weighted(dv, dp, dout, dim, width);
	}
	store_rows(a.dk, h.key, a.len, a, h, dk, scale);
	store_rows(a.dv, h.key, a.len, a, h, dv, one);
}
