// attention_mma.cu: attention with tensor cores, for heads of 64 columns stored
// as bf16. A warp has 16 queries (for the gradient of keys: 16 keys) in
// registers; keys (queries) pass through shared memory 32 at a time, as rows and,
// where they are the inner index of a product, also turned. Scores are kept in
// base 2. Probabilities are rounded to bf16 before they multiply values.
#include "heads.cuh"
#include "mma.cuh"

enum {
	HEAD = 64, STEPS = HEAD / 16, TEAM = 4, ROWS = 16 * TEAM, TILE_ROWS = 32,
	RS = HEAD / 2 + 4,      // words from a row to the next
	TS = TILE_ROWS / 2 + 4, // words from a column to the next of a turned tile
	ROWS_WORDS = TILE_ROWS * RS, TURNED_WORDS = HEAD * TS,
};

typedef u32 Fragments[STEPS][4]; // 16 rows of a head
typedef float Result[HEAD / 8][4]; // 16 rows by 64 columns
typedef float Scores[TILE_ROWS / 8][4]; // 16 rows by a tile's 32

// half4 is four columns of a row, as two words; zeros where there is no row.
DEVICE uint2 half4(const Mat &m, i64 r, i64 c, bool there, bool vec) {
	uint2 v = {0, 0};
	const u16 *p = (const u16 *)m.p + r * m.stride + c;
	if (!there) return v;
	if (vec) return *(const uint2 *)p;
	v.x = p[0] | (u32)p[1] << 16;
	v.y = p[2] | (u32)p[3] << 16;
	return v;
}

// stage copies n rows from t0 on of a sequence to `rows`, and turned to `turned`, where given.
DEVICE void stage(u32 *rows, u32 *turned, const Mat &m, i64 first, i64 tokens, const Head &h, i64 t0, int n, bool vec) {
	for (int i = threadIdx.x; i < n / 2 * (HEAD / 4); i += TEAM * WARP) {
		int pair = i / (HEAD / 4), c = i % (HEAD / 4) * 4;
		i64 t = t0 + 2 * pair;
		uint2 a = half4(m, first + t * h.step, h.col + c, t < tokens, vec);
		uint2 b = half4(m, first + (t + 1) * h.step, h.col + c, t + 1 < tokens, vec);
		if (rows) {
			u32 *to = rows + 2 * pair * RS + c / 2;
			to[0] = a.x, to[1] = a.y, to[RS] = b.x, to[RS + 1] = b.y;
		}
		if (turned) {
			u32 *to = turned + c * TS + pair;
			to[0] = low(a.x, b.x), to[TS] = high(a.x, b.x);
			to[2 * TS] = low(a.y, b.y), to[3 * TS] = high(a.y, b.y);
		}
	}
}

// fetch loads the warp's 16 of 64 rows from r0 on into registers, through shared memory.
DEVICE void fetch(Fragments f, u32 *s, const Mat &m, i64 first, i64 tokens, const Head &h, bool vec) {
	__syncthreads();
	stage(s, nullptr, m, first, tokens, h, h.r0, ROWS, vec);
	__syncthreads();
	UNROLL for (int i = 0; i < STEPS; i++) mma_load_a(f[i], s + warp() * 16 * RS + 8 * i, RS);
	__syncthreads();
}

// times: scores = the warp's rows times the 32 rows of a tile.
DEVICE void times(Scores s, const Fragments f, const u32 *rows) {
	UNROLL for (int j = 0; j < TILE_ROWS / 8; j++) {
		UNROLL for (int e = 0; e < 4; e++) s[j][e] = 0;
		UNROLL for (int i = 0; i < STEPS; i++) {
			u32 b[2];
			mma_load_b(b, rows + 8 * j * RS + 8 * i, RS);
			mma(s[j], f[i], b);
		}
	}
}

// gather: sum += scores, rounded to bf16, times the tile whose turned rows these are.
DEVICE void gather(Result sum, const Scores s, const u32 *turned) {
	UNROLL for (int i = 0; i < TILE_ROWS / 16; i++) {
		u32 a[4] = {pack_bf16(s[2 * i][0], s[2 * i][1]), pack_bf16(s[2 * i][2], s[2 * i][3]),
		            pack_bf16(s[2 * i + 1][0], s[2 * i + 1][1]), pack_bf16(s[2 * i + 1][2], s[2 * i + 1][3])};
		UNROLL for (int j = 0; j < HEAD / 8; j++) {
			u32 b[2];
			mma_load_b(b, turned + 8 * j * TS + 8 * i, TS);
			mma(sum[j], a, b);
		}
	}
}

// quad adds over the four lanes that share a row.
DEVICE float quad_sum(float v) {
	v += __shfl_xor_sync(FULL, v, 1);
	return v + __shfl_xor_sync(FULL, v, 2);
}

DEVICE float quad_max(float v) {
	v = fmaxf(v, __shfl_xor_sync(FULL, v, 1));
	return fmaxf(v, __shfl_xor_sync(FULL, v, 2));
}

// write stores the warp's rows, times scale[0] (rows g) and scale[1] (rows g+8).
DEVICE void write(const Mat &m, i64 first, i64 tokens, const Head &h, const Result v, float scale0, float scale1) {
	UNROLL for (int e = 0; e < 4; e++) {
		i64 t = h.r0 + warp() * 16 + lane() / 4 + e / 2 * 8;
		UNROLL for (int j = 0; j < HEAD / 8; j++) {
			i64 c = h.col + 8 * j + lane() % 4 * 2 + e % 2;
			if (t < tokens) set(m, first + t * h.step, c, v[j][e] * (e < 2 ? scale0 : scale1));
		}
	}
}

#define LOG2E 1.44269504089f

// Row r (0 or 1) of the lane: token g or g+8 of the warp's; the tile's index of element (j, e).
DEVICE i64 row_of(const Head &h, int r) { return h.r0 + warp() * 16 + lane() / 4 + 8 * r; }
DEVICE i64 col_of(i64 t0, int j, int e) { return t0 + 8 * j + lane() % 4 * 2 + e % 2; }

KERNEL(attention_mma, AttentionArgs, TEAM *WARP) {
	SHARED(u32, shared);
	u32 *k = shared, *v = k + ROWS_WORDS;
	Head h = head_of(a, a.asking, ROWS);
	Fragments q;
	Result out = {};
	Scores s;
	float top[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0}, scale = LOG2E / sqrtf((float)HEAD);
	fetch(q, shared, a.q, h.query, a.asking, h, a.vec);
	bool idle = h.r0 + warp() * 16 >= a.asking;
	for (i64 t0 = 0; t0 < keys_of(a, least(a.asking, h.r0 + ROWS) - 1); t0 += TILE_ROWS) {
		__syncthreads();
		stage(k, nullptr, a.k, h.key, a.len, h, t0, TILE_ROWS, a.vec);
		stage(nullptr, v, a.v, h.key, a.len, h, t0, TILE_ROWS, a.vec);
		__syncthreads();
		if (idle) continue; // the whole warp
		times(s, q, k);
		UNROLL for (int r = 0; r < 2; r++) {
			i64 seen = keys_of(a, least(a.asking - 1, row_of(h, r)));
			float most = -INFINITE;
			UNROLL for (int j = 0; j < TILE_ROWS / 8; j++) {
				UNROLL for (int e = 2 * r; e < 2 * r + 2; e++) {
					s[j][e] *= scale;
					if (col_of(t0, j, e) < seen) most = fmaxf(most, s[j][e]);
				}
			}
			float higher = fmaxf(top[r], quad_max(most)), shrink = exp2f(top[r] - higher);
			top[r] = higher;
			total[r] *= shrink;
			UNROLL for (int j = 0; j < TILE_ROWS / 8; j++) {
				UNROLL for (int e = 2 * r; e < 2 * r + 2; e++) {
					i64 key = col_of(t0, j, e);
					float p = key < seen ? exp2f(s[j][e] - higher) : 0;
					total[r] += p;
					s[j][e] = a.p != 0 ? p * keep_of(a, h, row_of(h, r), key) : p;
				}
			}
			UNROLL for (int j = 0; j < HEAD / 8; j++) out[j][2 * r] *= shrink, out[j][2 * r + 1] *= shrink;
		}
		gather(out, s, v);
	}
	if (idle) return;
	UNROLL for (int r = 0; r < 2; r++) {
		total[r] = quad_sum(total[r]);
		if (a.lse.p && lane() % 4 == 0 && row_of(h, r) < a.asking)
			at(a.lse, h.index, row_of(h, r)) = (top[r] + log2f(total[r])) / LOG2E;
	}
	write(a.out, h.query, a.asking, h, out, 1 / total[0], 1 / total[1]);
}

// dot adds the products of two rows' fragments: r = 0 for the rows g, 1 for g+8.
DEVICE float dot(const Fragments x, const Fragments y, int r) {
	float sum = 0;
	UNROLL for (int i = 0; i < STEPS; i++) {
		UNROLL for (int e = r; e < 4; e += 2) {
			sum = fmaf(widen(x[i][e] & 0xffff), widen(y[i][e] & 0xffff), sum);
			sum = fmaf(widen(x[i][e] >> 16), widen(y[i][e] >> 16), sum);
		}
	}
	return quad_sum(sum);
}

// dq, and delta = dout . out of each query, which attention_mma_grad_kv needs.
KERNEL(attention_mma_grad_q, AttentionArgs, TEAM *WARP) {
	SHARED(u32, shared);
	u32 *k = shared, *v = k + ROWS_WORDS, *turned = v + ROWS_WORDS;
	Head h = head_of(a, a.asking, ROWS);
	Fragments q, dout;
	Result dq = {};
	float lse[2], delta[2], scale = LOG2E / sqrtf((float)HEAD);
	fetch(q, shared, a.out, h.query, a.asking, h, a.vec); // out first
	fetch(dout, shared, a.dout, h.query, a.asking, h, a.vec);
	UNROLL for (int r = 0; r < 2; r++) {
		i64 query = row_of(h, r);
		delta[r] = dot(dout, q, r);
		lse[r] = query < a.asking ? at(a.lse, h.index, query) * LOG2E : 0;
		if (lane() % 4 == 0 && query < a.asking) a.delta[h.index * a.asking + query] = delta[r];
	}
	fetch(q, shared, a.q, h.query, a.asking, h, a.vec);
	bool idle = h.r0 + warp() * 16 >= a.asking;
	for (i64 t0 = 0; t0 < keys_of(a, least(a.asking, h.r0 + ROWS) - 1); t0 += TILE_ROWS) {
		__syncthreads();
		stage(k, turned, a.k, h.key, a.len, h, t0, TILE_ROWS, a.vec);
		stage(v, nullptr, a.v, h.key, a.len, h, t0, TILE_ROWS, a.vec);
		__syncthreads();
		if (idle) continue;
		Scores s, dp;
		times(s, q, k);
		times(dp, dout, v);
		UNROLL for (int e = 0; e < 4; e++) {
			i64 query = row_of(h, e / 2), seen = query < a.asking ? keys_of(a, query) : 0;
			UNROLL for (int j = 0; j < TILE_ROWS / 8; j++) {
				i64 key = col_of(t0, j, e);
				float kept = a.p != 0 && key < seen ? keep_of(a, h, query, key) : 1;
				s[j][e] = key < seen ? exp2f(s[j][e] * scale - lse[e / 2]) * (kept * dp[j][e] - delta[e / 2]) : 0;
			}
		}
		gather(dq, s, turned);
	}
	float last = 1 / sqrtf((float)HEAD);
	if (!idle) write(a.dq, h.query, a.asking, h, dq, last, last);
}

// dk and dv: the warp's rows are keys, a tile's queries.
KERNEL(attention_mma_grad_kv, AttentionArgs, TEAM *WARP) {
	SHARED(u32, shared);
	u32 *q = shared, *dout = q + ROWS_WORDS, *q_turned = dout + ROWS_WORDS, *dout_turned = q_turned + TURNED_WORDS;
	Head h = head_of(a, a.len, ROWS);
	Fragments k, v;
	Result dk = {}, dv = {};
	float scale = LOG2E / sqrtf((float)HEAD);
	fetch(k, shared, a.k, h.key, a.len, h, a.vec);
	fetch(v, shared, a.v, h.key, a.len, h, a.vec);
	bool idle = h.r0 + warp() * 16 >= a.len;
	for (i64 t0 = 0; t0 < a.asking; t0 += TILE_ROWS) {
		if (keys_of(a, least(a.asking, t0 + TILE_ROWS) - 1) <= h.r0) continue; // none of these sees any of the keys
		__syncthreads();
		stage(q, q_turned, a.q, h.query, a.asking, h, t0, TILE_ROWS, a.vec);
		stage(dout, dout_turned, a.dout, h.query, a.asking, h, t0, TILE_ROWS, a.vec);
		__syncthreads();
		if (idle) continue;
		Scores s, dp;
		times(s, k, q);
		times(dp, v, dout);
		UNROLL for (int j = 0; j < TILE_ROWS / 8; j++) {
			UNROLL for (int e = 0; e < 4; e++) {
				i64 query = col_of(t0, j, e), key = row_of(h, e / 2);
				bool seen = query < a.asking && key < keys_of(a, query);
				float p = seen ? exp2f(s[j][e] * scale - at(a.lse, h.index, query) * LOG2E) : 0;
				float kept = a.p != 0 && seen ? keep_of(a, h, query, key) : 1;
				s[j][e] = seen ? p * (kept * dp[j][e] - a.delta[h.index * a.asking + query]) : 0;
				dp[j][e] = p * kept;
			}
		}
		gather(dk, s, q_turned);
		gather(dv, dp, dout_turned);
	}
	float last = 1 / sqrtf((float)HEAD);
	if (idle) return;
	write(a.dk, h.key, a.len, h, dk, last, last);
	write(a.dv, h.key, a.len, h, dv, 1, 1);
}
