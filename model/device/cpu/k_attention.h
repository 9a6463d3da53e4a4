// k_attention.h: attention of one head of one sequence a task, on the
// micro-kernels of k_gemm.h: in fp32 here, of bf16 matrices in
// k_attention_half.h, of a handful of tokens in k_attention_few.h. All keys of a
// query are scored at once (a sequence is a few hundred tokens), so softmax is
// exact in one pass and the scores never leave the cache; the backward pass
// makes them again from lse.

typedef struct {
	const AttentionArgs *a;
	i64 len, queries, dim; // keys, queries, columns
	i64 wide, deep;       // keys and columns as whole vectors
	i64 head, seq; // this task's number, and its sequence
	i64 col;
} Head;

static inline i64 whole(i64 n) { return (n + VL - 1) / VL * VL; }

static Head head_of(const AttentionArgs *a, i64 i) {
	return (Head){
		.a = a, .len = a->len, .queries = a->queries, .dim = a->dim, .wide = whole(a->len), .deep = whole(a->dim),
		.head = i, .seq = i / a->heads, .col = i % a->heads * a->dim,
	};
}

// of_tokens is this head's part of m, which has `tokens` rows a sequence.
static inline Mat of_tokens(const Head *h, Mat m, i64 tokens) {
	Mat here = part(m, h->a->by_token ? h->seq : h->seq * tokens, h->col, tokens, h->dim);
	if (h->a->by_token) here.stride *= h->a->seqs;
	return here;
}

static inline Mat of_queries(const Head *h, Mat m) { return of_tokens(h, m, h->queries); }
static inline Mat of_keys(const Head *h, Mat m) { return of_tokens(h, m, h->len); }

// token_of is the place in its sequence of query i, which is counted from the first query.
static inline i64 token_of(const AttentionArgs *a, i64 i) { return i + a->len - a->queries; }

static inline i64 keys_of(const AttentionArgs *a, i64 i) {
	return a->block == 0 ? a->len : least(a->len, (token_of(a, i) / a->block + 1) * a->block);
}

static inline uint64_t drop_index(const Head *h, i64 i) {
	return (uint64_t)((h->head * h->len + token_of(h->a, i)) * h->len);
}

static inline float *lse_at(const Head *h, i64 i) { return h->a->lse.p + h->head * h->a->lse.stride + i; }

static float head_scale(const Head *h) { return (float)(1 / sqrt((double)h->dim)); }

// A right factor of steps x cols numbers, packed as panels of PANEL columns.
static size_t factor_size(i64 steps, i64 cols) { return (size_t)steps * whole(cols); }

// pack_rows packs m (steps x cols), pack_transposed its transpose.
static void pack_rows(Mat m, float *dst) {
	for (i64 c = 0; c < m.cols; c += PANEL) {
		i64 n = least(PANEL, m.cols - c), width = whole(n);
		for (i64 r = 0; r < m.rows; r++, dst += width) {
			memcpy(dst, m.p + r * m.stride + c, n * 4);
			memset(dst + n, 0, (width - n) * 4);
		}
	}
}

static void pack_transposed(Mat m, float *dst) {
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = least(PANEL, m.rows - c), width = whole(n);
		transpose_panel(part(m, c, 0, n, m.cols), (uint32_t *)dst, width, 0);
		dst += width * m.cols;
	}
}

// head_product writes rows x cols sums of a times a packed factor to dst, whose rows hold whole vectors.
static void head_product(Rows a, i64 rows, i64 steps, const float *factor, i64 cols, Sums dst) {
	for (i64 c = 0; c < cols; c += PANEL) {
		i64 vecs = whole(least(PANEL, cols - c)) / VL;
		multiply(0, (int)vecs, rows, steps, a, factor, (Sums){dst.p + c, dst.stride, dst.carry});
		factor += vecs * VL * steps;
	}
}

static inline Rows by_row(Mat m) { return (Rows){(const uint32_t *)m.p, m.stride, 1}; }
static inline Rows by_column(const float *p, i64 stride) { return (Rows){(const uint32_t *)p, 1, stride}; }

static float row_dot(Mat a, i64 i, Mat b, i64 j) {
	vf sum = vset(0.0f);
	for (i64 c = 0; c < a.cols; c += VL) sum = vfma(mload(a, i, c), mload(b, j, c), sum);
	return vsum(sum);
}

// exponentials turns scores into exp(scale*s - top) and returns their sum; top is the largest of scale*s.
static float exponentials(float *s, i64 keys, i64 wide, float scale, float *top) {
	vf most = vset(-INFINITY), sum = vset(0.0f);
	for (i64 j = keys; j < wide; j++) s[j] = -INFINITY;
	for (i64 j = 0; j < wide; j += VL) most = vmax(most, vload(s + j));
	*top = vhmax(most) * scale;
	for (i64 j = 0; j < wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), vset(scale), vset(-*top)));
		vstore(s + j, p);
		sum += p;
	}
	return vsum(sum);
}

// softmax turns the scores of a query into probabilities and returns the log of their sum of exponentials.
static float softmax(float *s, i64 keys, i64 wide, float scale) {
	float top, total = exponentials(s, keys, wide, scale, &top);
	vf inv = vset(1.0f / total);
	for (i64 j = 0; j < wide; j += VL) vstore(s + j, vload(s + j) * inv);
	return top + vlog(vset(total))[0];
}

// score_grads turns the scores s of query r and dp = dout.v into dropped probabilities (in s) and
// the gradients of the scores (in dp), zero past the keys that the query sees.
static void score_grads(const Head *h, i64 r, float *s, float *dp, const float *keep, float delta) {
	vf lse = vset(*lse_at(h, r)), scale = vset(head_scale(h));
	i64 keys = keys_of(h->a, r);
	for (i64 j = 0; j < h->wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), scale, -lse)), d = vload(dp + j), k = vload(keep + j);
		vstore(s + j, p * k);
		vstore(dp + j, p * (d * k - vset(delta)) * scale);
	}
	for (i64 j = keys; j < h->wide; j++) s[j] = dp[j] = 0;
}

// Scratch of a head: two score matrices, a packed factor and a product.
typedef struct { float *s, *t, *x, *y, *keep; } Space;

static size_t factor_room(const Head *h) {
	size_t a = factor_size(h->len, h->dim), b = factor_size(h->dim, h->len);
	return a > b ? a : b;
}

static Space space_of(const Head *h, Worker *w) {
	size_t scores = (size_t)h->len * h->wide, factor = factor_room(h);
	Space sp = {.s = (float *)w->scratch};
	sp.t = sp.s + scores;
	sp.x = sp.t + (scores > factor ? scores : factor);
	sp.y = sp.x + factor;
	sp.keep = sp.y + factor;
	return sp;
}

static size_t space_bytes(const Head *h) {
	size_t scores = (size_t)h->len * h->wide, factor = factor_room(h);
	return (2 * scores + 3 * factor + h->wide) * sizeof(float);
}

// store_head copies a product of whole vectors to its head's columns.
static void store_head(const Head *h, Mat dst, const float *from) {
	for (i64 r = 0; r < dst.rows; r++) memcpy(dst.p + r * dst.stride, from + r * h->deep, h->dim * 4);
}

static void attention_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	Space sp = space_of(&h, w);
	pack_transposed(of_keys(&h, a->k), sp.x);
	head_product(by_row(of_queries(&h, a->q)), h.queries, h.dim, sp.x, h.len, (Sums){sp.s, h.wide, 0});
	for (i64 r = 0; r < h.queries; r++) {
		float *s = sp.s + r * h.wide, lse = softmax(s, keys_of(a, r), h.wide, head_scale(&h));
		if (a->lse.p) *lse_at(&h, r) = lse;
		if (a->p == 0) continue;
		keep_factors(sp.keep, h.len, a->p, a->key, drop_index(&h, r));
		for (i64 j = 0; j < h.len; j++) s[j] *= sp.keep[j];
	}
	pack_rows(of_keys(&h, a->v), sp.x);
	head_product((Rows){(uint32_t *)sp.s, h.wide, 1}, h.queries, h.len, sp.x, h.dim, (Sums){sp.t, h.deep, 0});
	store_head(&h, of_queries(&h, a->out), sp.t);
}

static void attention_grad_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	Space sp = space_of(&h, w);
	Mat q = of_queries(&h, a->q), dout = of_queries(&h, a->dout), out = of_queries(&h, a->out), k = of_keys(&h, a->k);
	Sums s = {sp.s, h.wide, 0}, t = {sp.t, h.wide, 0}, y = {sp.y, h.deep, 0};
	pack_transposed(k, sp.x);
	head_product(by_row(q), h.queries, h.dim, sp.x, h.len, s);
	pack_transposed(of_keys(&h, a->v), sp.x);
	head_product(by_row(dout), h.queries, h.dim, sp.x, h.len, t);
	for (i64 j = 0; j < h.wide; j++) sp.keep[j] = 1;
	for (i64 r = 0; r < h.queries; r++) {
		if (a->p > 0) keep_factors(sp.keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, sp.s + r * h.wide, sp.t + r * h.wide, sp.keep, row_dot(dout, r, out, r));
	}
	pack_rows(k, sp.x);
	head_product((Rows){(uint32_t *)sp.t, h.wide, 1}, h.queries, h.len, sp.x, h.dim, y);
	store_head(&h, of_queries(&h, a->dq), sp.y);
	pack_rows(q, sp.x);
	head_product(by_column(sp.t, h.wide), h.len, h.queries, sp.x, h.dim, y);
	store_head(&h, of_keys(&h, a->dk), sp.y);
	pack_rows(dout, sp.x);
	head_product(by_column(sp.s, h.wide), h.len, h.queries, sp.x, h.dim, y);
	store_head(&h, of_keys(&h, a->dv), sp.y);
}

#include "k_attention_few.h"
#if VEC_BF16
#include "k_attention_half.h"
#endif

// attend runs one of the three ways, in both directions.
static int attend(Pool *pool, const AttentionArgs *a, int grad) {
	Head h = head_of(a, 0);
	i64 heads = a->seqs * a->heads;
	if (h.len <= FEW) {
		grad ? few_grad(pool, a) : few(pool, a);
		return OK;
	}
#if VEC_BF16
	if (a->q.bf16) {
		if (pool_reserve(pool, bf16_bytes(&h), 0)) return NO_MEMORY;
		pool_run(pool, grad ? bf16_grad_task : bf16_task, a, heads);
		return OK;
	}
#endif
	if (pool_reserve(pool, space_bytes(&h), 0)) return NO_MEMORY;
	pool_run(pool, grad ? attention_grad_task : attention_task, a, heads);
	return OK;
}

static int attention(Pool *pool, const void *args) { return attend(pool, args, 0); }
static int attention_grad(Pool *pool, const void *args) { return attend(pool, args, 1); }
