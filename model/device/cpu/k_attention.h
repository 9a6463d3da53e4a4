// k_attention.h: attention of one head of one sequence a task, in fp32, on the
// micro-kernels of k_gemm.h. All keys of a query are scored at once (a sequence
// is a few hundred tokens), so softmax is exact in one pass and the scores never
// leave the cache; the backward pass makes them again from lse.

typedef struct {
	const AttentionArgs *a;
	i64 len, dim;       // tokens, columns
	i64 wide, deep;     // both, as whole vectors
	i64 head, row, col; // this task's place
} Head;

static Head head_of(const AttentionArgs *a, i64 i) {
	Head h = {.a = a, .len = a->len, .dim = a->dim, .head = i};
	h.wide = (a->len + VL - 1) / VL * VL;
	h.deep = (a->dim + VL - 1) / VL * VL;
	h.row = i / a->heads * a->len;
	h.col = i % a->heads * a->dim;
	return h;
}

static inline Mat of_head(const Head *h, Mat m) { return part(m, h->row, h->col, h->len, h->dim); }

// A right factor of steps x cols numbers, packed as panels of PANEL columns.
static size_t factor_size(i64 steps, i64 cols) { return (size_t)steps * ((cols + VL - 1) / VL * VL); }

// pack_rows packs m (steps x cols), pack_transposed its transpose.
static void pack_rows(Mat m, float *dst) {
	for (i64 c = 0; c < m.cols; c += PANEL) {
		i64 n = least(PANEL, m.cols - c), width = (n + VL - 1) / VL * VL;
		for (i64 r = 0; r < m.rows; r++, dst += width) {
			memcpy(dst, m.p + r * m.stride + c, n * 4);
			memset(dst + n, 0, (width - n) * 4);
		}
	}
}

static void pack_transposed(Mat m, float *dst) {
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = least(PANEL, m.rows - c), width = (n + VL - 1) / VL * VL;
		transpose_panel(m.p + c * m.stride, m.stride, m.cols, n, (uint32_t *)dst, width, 0);
		dst += width * m.cols;
	}
}

// head_product writes len x cols sums of a times a packed factor to dst, whose rows are `stride`
// apart and hold whole vectors.
static void head_product(Rows a, i64 rows, i64 steps, const float *factor, i64 cols, float *dst, i64 stride) {
	for (i64 c = 0; c < cols; c += PANEL) {
		i64 vecs = (least(PANEL, cols - c) + VL - 1) / VL;
		multiply(0, (int)vecs, rows, steps, a, factor, (Sums){dst + c, stride, 0});
		factor += vecs * VL * steps;
	}
}

static inline Rows by_row(Mat m) { return (Rows){(const uint32_t *)m.p, m.stride, 1}; }
static inline Rows by_column(const float *p, i64 stride) { return (Rows){(const uint32_t *)p, 1, stride}; }

static inline i64 keys_of(const AttentionArgs *a, i64 i) {
	return a->block == 0 ? a->len : least(a->len, (i / a->block + 1) * a->block);
}

static inline uint64_t drop_index(const Head *h, i64 i) { return (uint64_t)((h->head * h->len + i) * h->len); }

static float head_scale(const Head *h) { return (float)(1 / sqrt((double)h->dim)); }

static float row_dot(const float *a, const float *b, i64 n) {
	vf sum = vset(0.0f);
	for (i64 c = 0; c < n; c += VL) sum = vfma(vpart(a, c, n), vpart(b, c, n), sum);
	return vsum(sum);
}

// softmax turns the scores of a query into probabilities and returns the log of their sum of exponentials.
static float softmax(float *s, i64 keys, i64 wide, float scale) {
	vf top = vset(-INFINITY), sum = vset(0.0f);
	for (i64 j = keys; j < wide; j++) s[j] = -INFINITY;
	for (i64 j = 0; j < wide; j += VL) top = vmax(top, vload(s + j));
	float m = vhmax(top) * scale;
	for (i64 j = 0; j < wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), vset(scale), vset(-m)));
		vstore(s + j, p);
		sum += p;
	}
	float total = vsum(sum);
	vf inv = vset(1.0f / total);
	for (i64 j = 0; j < wide; j += VL) vstore(s + j, vload(s + j) * inv);
	return m + vlog(vset(total))[0];
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

// score_grads turns the scores s of query r and dp = dout.v into dropped probabilities (in s) and
// the gradients of the scores (in dp), zero past the keys that the query sees.
static void score_grads(const Head *h, i64 r, float *s, float *dp, const float *keep, float delta) {
	const AttentionArgs *a = h->a;
	float scale = head_scale(h);
	vf lse = vset(a->lse.p[h->head * a->lse.stride + r]);
	i64 keys = keys_of(a, r);
	for (i64 j = 0; j < h->wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), vset(scale), -lse)), d = vload(dp + j), k = vload(keep + j);
		vstore(s + j, p * k);
		vstore(dp + j, p * (d * k - vset(delta)) * vset(scale));
	}
	for (i64 j = keys; j < h->wide; j++) s[j] = dp[j] = 0;
}

#include "k_attention_few.h"

static void attention_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	Space sp = space_of(&h, w);
	Mat q = of_head(&h, a->q), out = of_head(&h, a->out);
	pack_transposed(of_head(&h, a->k), sp.x);
	head_product(by_row(q), h.len, h.dim, sp.x, h.len, sp.s, h.wide);
	for (i64 r = 0; r < h.len; r++) {
		float *s = sp.s + r * h.wide, lse = softmax(s, keys_of(a, r), h.wide, head_scale(&h));
		if (a->lse.p) a->lse.p[i * a->lse.stride + r] = lse;
		if (a->p == 0) continue;
		keep_factors(sp.keep, h.len, a->p, a->key, drop_index(&h, r));
		for (i64 j = 0; j < h.len; j++) s[j] *= sp.keep[j];
	}
	pack_rows(of_head(&h, a->v), sp.x);
	head_product((Rows){(uint32_t *)sp.s, h.wide, 1}, h.len, h.len, sp.x, h.dim, sp.t, h.deep);
	for (i64 r = 0; r < h.len; r++) memcpy(out.p + r * out.stride, sp.t + r * h.deep, h.dim * 4);
}

static int attention(Pool *pool, const void *args) {
	const AttentionArgs *a = args;
	Head h = head_of(a, 0);
	if (pool_reserve(pool, space_bytes(&h), 0)) return NO_MEMORY;
	if (h.len <= FEW) pool_run(pool, few_task, a, few_tasks(a));
	else pool_run(pool, attention_task, a, a->seqs * a->heads);
	return OK;
}

// store_head copies a product of whole vectors to its head's columns.
static void store_head(const Head *h, Mat m, const float *from) {
	Mat dst = of_head(h, m);
	for (i64 r = 0; r < h->len; r++) memcpy(dst.p + r * dst.stride, from + r * h->deep, h->dim * 4);
}

static void attention_grad_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	Space sp = space_of(&h, w);
	Mat q = of_head(&h, a->q), k = of_head(&h, a->k), dout = of_head(&h, a->dout), out = of_head(&h, a->out);
	pack_transposed(k, sp.x);
	head_product(by_row(q), h.len, h.dim, sp.x, h.len, sp.s, h.wide);
	pack_transposed(of_head(&h, a->v), sp.x);
	head_product(by_row(dout), h.len, h.dim, sp.x, h.len, sp.t, h.wide);
	for (i64 j = 0; j < h.wide; j++) sp.keep[j] = 1;
	for (i64 r = 0; r < h.len; r++) {
		if (a->p > 0) keep_factors(sp.keep, h.len, a->p, a->key, drop_index(&h, r));
		float delta = row_dot(dout.p + r * dout.stride, out.p + r * out.stride, h.dim);
		score_grads(&h, r, sp.s + r * h.wide, sp.t + r * h.wide, sp.keep, delta);
	}
	pack_rows(k, sp.x);
	head_product((Rows){(uint32_t *)sp.t, h.wide, 1}, h.len, h.len, sp.x, h.dim, sp.y, h.deep);
	store_head(&h, a->dq, sp.y);
	pack_rows(q, sp.x);
	head_product(by_column(sp.t, h.wide), h.len, h.len, sp.x, h.dim, sp.y, h.deep);
	store_head(&h, a->dk, sp.y);
	pack_rows(dout, sp.x);
	head_product(by_column(sp.s, h.wide), h.len, h.len, sp.x, h.dim, sp.y, h.deep);
	store_head(&h, a->dv, sp.y);
}

static int attention_grad(Pool *pool, const void *args) {
	const AttentionArgs *a = args;
	Head h = head_of(a, 0);
	if (pool_reserve(pool, space_bytes(&h), 0)) return NO_MEMORY;
	if (h.len <= FEW) pool_run(pool, few_grad_task, a, few_tasks(a));
	else pool_run(pool, attention_grad_task, a, a->seqs * a->heads);
	return OK;
}
