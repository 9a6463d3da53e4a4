// k_attention.h: out = softmax(q k^T / sqrt(dim)) v of one head of one sequence a
// task, in two ways: any number of tokens in fp32 or bf16, and a handful of them.
//
// Idea: all keys of a query are scored at once (a sequence is a few hundred tokens),
// so softmax is exact in one pass and the scores never leave the cache; the backward
// pass makes them again from lse, the log of each query's sum of exponentials:
//   p = exp(s - lse), ds = p (dp - dout.out) / sqrt(dim), with dp = dout v^T,
//   dq = ds k, dk = ds^T q, dv = p^T dout.
// Memory traffic: q, k, v are read once and out is written once; backward reads
// q, k, v, out, dout and lse and writes dq, dk, dv. Products are those of k_gemm.h.

typedef struct Head {
	const AttentionArgs *a;
	i64 len, queries, dim; // keys, queries, columns
	i64 wide, deep;        // keys and columns as whole vectors
	i64 head, seq;         // its number, and its sequence
	i64 col;
	Layout layout;           // of products' factors
	const struct Head *next; // of the same task, or NULL
} Head;

static inline i64 whole(i64 n) { return (n + VL - 1) / VL * VL; }

static Head head_of(const AttentionArgs *a, i64 i) {
	return (Head){
		.a = a, .len = a->len, .queries = a->queries, .dim = a->dim, .wide = whole(a->len), .deep = whole(a->dim),
		.head = i, .seq = i / a->heads, .col = i % a->heads * a->dim, .layout = layout_of(VEC_BF16 && a->q.bf16),
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

INLINED float row_dot(const int whole, Mat a, i64 i, Mat b, i64 j) {
	vf sum = vset(0.0f);
	for (i64 c = 0; c < a.cols; c += VL) sum = vfma(mget(whole, a, i, c), mget(whole, b, j, c), sum);
	return vsum(sum);
}

// fill_past makes numbers past a query's keys x: by whole vectors, since what is stored number by number has to reach
// the cache before a vector can be loaded.
static void fill_past(float *s, i64 keys, i64 wide, float x) {
	vf lane = __builtin_convertvector(viota(), vf);
	for (i64 j = keys / VL * VL; j < wide; j += VL) vstore(s + j, vless(lane, vset((float)(keys - j)), vload(s + j), vset(x)));
}

// largest is the largest of a query's scores s; those past its keys become less than all.
static float largest(float *s, i64 keys, i64 wide) {
	vf most = vset(-INFINITY);
	fill_past(s, keys, wide, -INFINITY);
	for (i64 j = 0; j < wide; j += VL) most = vmax(most, vload(s + j));
	return vhmax(most);
}

// exponentials turns scores into exp(scale*s - top) and returns their sum.
static float exponentials(float *s, i64 wide, float scale, float top) {
	vf sum = vset(0.0f);
	for (i64 j = 0; j < wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), vset(scale), vset(-top)));
		vstore(s + j, p);
		sum += p;
	}
	return vsum(sum);
}

// score_grads turns the scores s of query r and dp = dout.v into dropped probabilities (in s) and
// the gradients of the scores (in dp), zero past the keys that the query sees.
static void score_grads(const Head *h, i64 r, float scaling, float *s, float *dp, const float *keep, float delta) {
	vf lse = vset(*lse_at(h, r)), scale = vset(scaling);
	i64 keys = keys_of(h->a, r);
	for (i64 j = 0; j < h->wide; j += VL) {
		vf p = vexp(vfma(vload(s + j), scale, -lse)), d = vload(dp + j), k = vload(keep + j);
		vstore(s + j, p * k);
		vstore(dp + j, p * (d * k - vset(delta)) * scale);
	}
	fill_past(s, keys, h->wide, 0);
	fill_past(dp, keys, h->wide, 0);
}

// --- Any number of tokens --------------------------------------------------
//
// Softmax and all sums are fp32. Products of bf16 matrices multiply pairs of bf16, to which probabilities and the
// gradients of scores are rounded for them. Queries go by strips, so that scores stay near.

enum { STRIP = 96 }; // queries of a strip at most, in whole vectors

// strip_rows is the length of a strip.
static i64 strip_rows(i64 queries) {
	i64 strips = (queries + STRIP - 1) / STRIP;
	return (queries + strips - 1) / strips;
}

// A Heads is what tasks divide: `group` heads each, one after the other, so that a head can ask for the memory of the next.
typedef struct { const AttentionArgs *a; i64 count, group; } Heads;

// A Beside is the keys whose memory query r asks for.
typedef struct { i64 from, count; } Beside;

static inline Beside keys_beside(const Head *h, i64 r) {
	if (h->len == h->queries) return (Beside){r, 1};
	i64 from = r * h->len / h->queries;
	return (Beside){from, (r + 1) * h->len / h->queries - from};
}

static inline Mat these_keys(const Head *h, Beside k, Mat m) { return part(of_keys(h, m), k.from, 0, k.count, h->dim); }

// ask_next asks, a little with each query, for what the next head of the task begins with.
ASKS ask_next(const Head *h, i64 r, int grad) {
	if (!h->next) return;
	const AttentionArgs *a = h->a;
	Beside keys = keys_beside(h, r);
	ask_rows(these_keys(h->next, keys, a->k));
	ask_rows(these_keys(h->next, keys, a->v));
	prefetch(of_queries(h->next, a->q), r);
	if (!grad) return;
	prefetch(of_queries(h->next, a->dout), r);
	prefetch(of_queries(h->next, a->out), r);
}

static inline i64 head_steps(const Head *h, i64 k) { return whole_steps(h->layout, k); }

// right_factor lays out m (k x columns) as the right factor of head_product, right_transposed m's transpose.
static void right_factor(const Head *h, Mat m, uint32_t *dst) { pack_panels(m, h->layout, dst, PANEL * head_steps(h, m.rows)); }

static void right_transposed(const Head *h, Mat m, uint32_t *dst) {
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = least(PANEL, m.rows - c);
		transpose_panel(part(m, c, 0, n, m.cols), dst + c * head_steps(h, m.cols), whole(n), h->layout);
	}
}

// head_product writes rows x cols sums of k products to dst, whose rows hold whole vectors and whose
// count of rows is whole too.
static void head_product(const Head *h, Rows a, i64 rows, i64 k, const uint32_t *factor, i64 cols, Sums dst) {
	i64 steps = head_steps(h, k);
	for (i64 c = 0; c < cols; c += PANEL, factor += PANEL * steps) {
		int vecs = (int)(whole(least(PANEL, cols - c)) / VL);
		Sums to = {dst.p + c, dst.stride, dst.carry};
#if TILES
		if (h->layout == PAIRS) {
			Block none = {0};
			for (i64 r = 0; r < rows; r += BLOCK_ROWS, to.p += BLOCK_ROWS * to.stride) {
				Rows from = {a.p + r * a.row_step, a.row_step, a.step};
				multiply_tiles(vecs, least(BLOCK_ROWS, rows - r), steps, from, factor, to, &none);
			}
			continue;
		}
#endif
		Asks none = {0};
		multiply(h->layout, vecs, rows, steps, a, factor, to, &none);
	}
}

// Scratch of a head: scores s and their gradients t of a strip, the products dk and dv, which go on
// from strip to strip; a left factor; right factors of k and v, by row and transposed, and one more.
typedef struct {
	float *s, *t, *dk, *dv, *keep;
	uint32_t *left, *kt, *vt, *rows, *x;
} Space;

static float *take(char **at, i64 words) {
	float *p = (float *)*at;
	*at += words * 4;
	return p;
}

static Space space_of(const Head *h, char *at, size_t *bytes) {
	char *begin = at;
	i64 queries = whole(strip_rows(h->queries)), most = h->wide > h->deep ? h->wide : h->deep;
	i64 longest = queries > most ? queries : most;
	Space sp;
	sp.s = take(&at, queries * most);
	sp.t = take(&at, queries * most);
	sp.dk = take(&at, h->wide * h->deep);
	sp.dv = take(&at, h->wide * h->deep);
	sp.keep = take(&at, h->wide);
	sp.left = (uint32_t *)take(&at, h->layout != FLOATS ? longest * copy_step(head_steps(h, longest)) : 0);
	sp.kt = (uint32_t *)take(&at, head_steps(h, h->dim) * h->wide);
	sp.vt = (uint32_t *)take(&at, head_steps(h, h->dim) * h->wide);
	sp.rows = (uint32_t *)take(&at, head_steps(h, h->len) * h->deep);
	sp.x = (uint32_t *)take(&at, head_steps(h, queries) * h->deep);
	*bytes = at - begin;
	return sp;
}

static size_t space_bytes(const Head *h) {
	size_t bytes;
	space_of(h, NULL, &bytes);
	return bytes;
}

// left_rows is m as a left factor, left_columns its transpose.
static Rows left_rows(const Head *h, Mat m, const Space *sp) { return rows_along(m, h->layout, head_steps(h, m.cols), sp->left); }

static Rows left_columns(const Head *h, Mat m, const Space *sp) {
	if (h->layout == FLOATS) return (Rows){(const uint32_t *)m.p, 1, m.stride};
	return rows_across(m, h->layout, head_steps(h, m.rows), sp->left);
}

// keep_row is the dropout factors of query r; without dropout they stay what they are, all ones.
static void keep_row(const Head *h, i64 r, float *keep) {
	if (h->a->p > 0) keep_factors(keep, h->len, h->a->p, h->a->key, drop_index(h, r));
}

static Space head_begin(const Head *h, Worker *w) {
	size_t bytes;
	Space sp = space_of(h, w->scratch, &bytes);
	for (i64 j = 0; j < h->wide; j++) sp.keep[j] = 1;
#if TILES
	if (h->layout == PAIRS) tiles_begin();
#endif
	return sp;
}

static void head_end(const Head *h) {
	(void)h;
#if TILES
	if (h->layout == PAIRS) tiles_end();
#endif
}

// store_scaled stores the first rows of a product, each times its factor.
static void store_scaled(Mat dst, const float *from, i64 stride, const float *factor) {
	for (i64 r = 0; r < dst.rows; r++) {
		vf f = vset(factor ? factor[r] : 1.0f);
		for (i64 c = 0; c < dst.cols; c += VL) mstore(dst, r, c, vload(from + r * stride + c) * f);
	}
}

static void strip(const Head *h, const Space *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	head_product(h, left_rows(h, q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	float top[STRIP], total[STRIP], inv[STRIP], scale = head_scale(h);
	for (i64 r = 0; r < rows; r++) top[r] = scale * largest(sp->s + r * h->wide, keys_of(a, first + r), h->wide);
	for (i64 r = 0; r < rows; r++) {
		float *s = sp->s + r * h->wide;
		ask_next(h, first + r, 0);
		prefetch_to(out, r);
		total[r] = exponentials(s, h->wide, scale, top[r]);
		if (a->p == 0) continue;
		keep_row(h, first + r, sp->keep);
		for (i64 j = 0; j < h->wide; j += VL) vstore(s + j, vload(s + j) * vload(sp->keep + j));
	}
	for (i64 r = 0; r < rows; r += VL) {
		vf sum = vpart(total, r, rows);
		vstore(inv + r, vset(1.0f) / sum);
		if (a->lse.p) vput(lse_at(h, first), r, rows, vpart(top, r, rows) + vlog(sum));
	}
	Mat p = {sp->s, rows, h->len, h->wide, 0};
	head_product(h, left_rows(h, p, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->t, h->deep, 0});
	store_scaled(out, sp->t, h->deep, inv);
}

static void attention_head(const Head *h, Worker *w) {
	Space sp = head_begin(h, w);
	right_transposed(h, of_keys(h, h->a->k), sp.kt);
	right_factor(h, of_keys(h, h->a->v), sp.rows);
	for (i64 r = 0, n = strip_rows(h->queries); r < h->queries; r += n) strip(h, &sp, r, least(n, h->queries - r));
	head_end(h);
}

// add_keys adds the products of a strip's weights (queries x keys) and its queries' rows to dst.
static void add_keys(const Head *h, const Space *sp, const float *weights, Mat rows, float *dst, int carry) {
	right_factor(h, rows, sp->x);
	for (i64 j = 0; j < h->len; j += MC) {
		Mat w = {(float *)weights + j, rows.rows, least(MC, h->len - j), h->wide, 0};
		head_product(h, left_columns(h, w, sp), w.cols, rows.rows, sp->x, h->dim, (Sums){dst + j * h->deep, h->deep, carry});
	}
}

static void grad_strip(const Head *h, const Space *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), dq = part(of_queries(h, a->dq), first, 0, rows, h->dim);
	Mat dout = part(of_queries(h, a->dout), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	head_product(h, left_rows(h, q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	head_product(h, left_rows(h, dout, sp), rows, h->dim, sp->vt, h->len, (Sums){sp->t, h->wide, 0});
	float delta[STRIP], scale = head_scale(h);
	for (i64 r = 0; r < rows; r++) delta[r] = h->dim % VL ? row_dot(0, dout, r, out, r) : row_dot(1, dout, r, out, r);
	for (i64 r = 0; r < rows; r++) {
		Beside beside = keys_beside(h, first + r);
		ask_next(h, first + r, 1);
		prefetch_to(dq, r);
		ask_rows_to(these_keys(h, beside, a->dk));
		ask_rows_to(these_keys(h, beside, a->dv));
		keep_row(h, first + r, sp->keep);
		score_grads(h, first + r, scale, sp->s + r * h->wide, sp->t + r * h->wide, sp->keep, delta[r]);
	}
	add_keys(h, sp, sp->t, q, sp->dk, first > 0);
	add_keys(h, sp, sp->s, dout, sp->dv, first > 0);
	Mat ds = {sp->t, rows, h->len, h->wide, 0};
	head_product(h, left_rows(h, ds, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->s, h->deep, 0});
	store_scaled(dq, sp->s, h->deep, NULL);
}

static void attention_grad_head(const Head *h, Worker *w) {
	Space sp = head_begin(h, w);
	right_transposed(h, of_keys(h, h->a->k), sp.kt);
	right_transposed(h, of_keys(h, h->a->v), sp.vt);
	right_factor(h, of_keys(h, h->a->k), sp.rows);
	for (i64 r = 0, n = strip_rows(h->queries); r < h->queries; r += n) grad_strip(h, &sp, r, least(n, h->queries - r));
	store_scaled(of_keys(h, h->a->dk), sp.dk, h->deep, NULL);
	store_scaled(of_keys(h, h->a->dv), sp.dv, h->deep, NULL);
	head_end(h);
}

// head_tasks does the heads of task i.
INLINED void head_tasks(const Heads *all, i64 i, Worker *w, void (*one)(const Head *, Worker *)) {
	i64 first = i * all->group, end = least(first + all->group, all->count);
	Head h = head_of(all->a, first);
	for (i64 j = first + 1; j <= end; j++) {
		Head next = head_of(all->a, j);
		h.next = j < end ? &next : NULL;
		one(&h, w);
		h = next;
	}
}

static void attention_task(const void *args, i64 i, Worker *w) { head_tasks(args, i, w, attention_head); }
static void attention_grad_task(const void *args, i64 i, Worker *w) { head_tasks(args, i, w, attention_grad_head); }

// --- A handful of tokens ---------------------------------------------------
//
// The predictor's history: packing factors would cost more than it saves, so scores
// are dot products, of all heads of a sequence together, a head a lane.

enum { FEW = 8, FEW_GROUPS = 8, FEW_HEADS = 8 }; // groups of VL heads of a task; heads of a backward one

static i64 few_groups(const AttentionArgs *a) { return (a->heads + VL - 1) / VL; }

// weigh writes the sum of w[j*apart] * row j of m to row r of dst.
INLINED void weigh(const int whole, Mat dst, i64 r, const float *w, i64 apart, Mat m, i64 rows) {
	for (i64 c = 0; c < m.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 j = 0; j < rows; j++) sum = vfma(vset(w[j * apart]), mget(whole, m, j, c), sum);
		mset(whole, dst, r, c, sum);
	}
}

// beside is what the head i places further has.
static inline Mat beside(Mat m, i64 i) {
	m.p = mat_at(m, 0, i * m.cols);
	return m;
}

// few_scores is q of row r times k of row j of n heads, from m's on.
INLINED vf few_scores(const int whole, Mat q, i64 r, Mat k, i64 j, i64 n) {
	vf t[VL];
	for (i64 i = 0; i < VL; i++) t[i] = vset(0.0f);
	for (i64 i = 0; i < n; i++) {
		Mat qi = beside(q, i), ki = beside(k, i);
		for (i64 c = 0; c < q.cols; c += VL) t[i] = vfma(mget(whole, qi, r, c), mget(whole, ki, j, c), t[i]);
	}
	vtranspose(t);
#pragma GCC unroll 4
	for (i64 half = VL / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
		for (i64 i = 0; i < half; i++) t[i] += t[i + half];
	}
	return t[0];
}

// few_softmax turns scores of n heads, by key, into dropped probabilities.
static void few_softmax(const Head *h, i64 r, i64 n, vf *s) {
	const AttentionArgs *a = h->a;
	i64 keys = keys_of(a, r);
	vf scale = vset(head_scale(h)), top = s[0], sum = vset(0.0f);
	for (i64 j = 1; j < keys; j++) top = vmax(top, s[j]);
	for (i64 j = 0; j < keys; j++) sum += s[j] = vexp(scale * (s[j] - top));
	for (i64 j = 0; j < keys; j++) s[j] *= vset(1.0f) / sum;
	if (a->lse.p) {
		vf lse = vfma(scale, top, vlog(sum));
		for (i64 i = 0; i < n; i++) a->lse.p[(h->head + i) * a->lse.stride + r] = lse[i];
	}
	for (i64 i = 0; a->p > 0 && i < n; i++) {
		float keep[FEW];
		Head other = *h;
		other.head += i;
		keep_factors(keep, h->len, a->p, a->key, drop_index(&other, r));
		for (i64 j = 0; j < keys; j++) s[j][i] *= keep[j];
	}
}

INLINED void few_group(const int whole, const AttentionArgs *a, i64 seq, i64 first) {
	Head h = head_of(a, seq * a->heads + first);
	Mat q = of_queries(&h, a->q), k = of_keys(&h, a->k), v = of_keys(&h, a->v), out = of_queries(&h, a->out);
	i64 n = least(VL, a->heads - first);
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = keys_of(a, r);
		vf s[FEW];
		float w[FEW * VL];
		for (i64 j = 0; j < keys; j++) s[j] = few_scores(whole, q, r, k, j, n);
		few_softmax(&h, r, n, s);
		for (i64 j = 0; j < keys; j++) vstore(w + j * VL, s[j]);
		for (i64 i = 0; i < n; i++) weigh(whole, beside(out, i), r, w + i, VL, beside(v, i), keys);
	}
}

static void few_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	i64 groups = few_groups(a), end = least((i + 1) * FEW_GROUPS, a->seqs * groups);
	for (i64 g = i * FEW_GROUPS; g < end; g++) {
		if (a->dim % VL == 0) few_group(1, a, g / groups, g % groups * VL);
		else few_group(0, a, g / groups, g % groups * VL);
	}
}

static void few(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_task, a, (a->seqs * few_groups(a) + FEW_GROUPS - 1) / FEW_GROUPS);
}

// The weights of all keys for each query, as columns: what dk and dv sum up.
typedef struct { float s[FEW][FEW], ds[FEW][FEW]; } FewGrads;

INLINED void few_head_grad(const int whole, const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = of_queries(&h, a->q), k = of_keys(&h, a->k), v = of_keys(&h, a->v);
	Mat out = of_queries(&h, a->out), dout = of_queries(&h, a->dout);
	float s[2 * VL + FEW] = {0}, ds[2 * VL + FEW] = {0}, keep[2 * VL + FEW];
	FewGrads by_key = {0};
	for (i64 j = 0; j < h.wide; j++) keep[j] = 1;
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = keys_of(a, r);
		for (i64 j = 0; j < keys; j++) {
			s[j] = row_dot(whole, q, r, k, j);
			ds[j] = row_dot(whole, dout, r, v, j);
		}
		if (a->p > 0) keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, head_scale(&h), s, ds, keep, row_dot(whole, dout, r, out, r));
		weigh(whole, of_queries(&h, a->dq), r, ds, 1, k, keys);
		for (i64 j = 0; j < keys; j++) {
			by_key.s[j][r] = s[j];
			by_key.ds[j][r] = ds[j];
		}
	}
	for (i64 j = 0; j < h.len; j++) {
		weigh(whole, of_keys(&h, a->dk), j, by_key.ds[j], 1, q, h.queries);
		weigh(whole, of_keys(&h, a->dv), j, by_key.s[j], 1, dout, h.queries);
	}
}

static void few_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) {
		if (a->dim % VL == 0) few_head_grad(1, a, h);
		else few_head_grad(0, a, h);
	}
}

static void few_grad(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_grad_task, a, (a->seqs * a->heads + FEW_HEADS - 1) / FEW_HEADS);
}

// attend runs one of the two ways, in both directions.
static int attend(Pool *pool, const AttentionArgs *a, int grad) {
	Head h = head_of(a, 0);
	if (h.len <= FEW) {
		grad ? few_grad(pool, a) : few(pool, a);
		return OK;
	}
	if (pool_reserve(pool, space_bytes(&h), 0)) return NO_MEMORY;
	Heads all = {a, a->seqs * a->heads, 1};
	while (all.group < 8 && all.count >= 16 * all.group * pool_threads(pool)) all.group *= 2;
	pool_run(pool, grad ? attention_grad_task : attention_task, &all, (all.count + all.group - 1) / all.group);
	return OK;
}

static int attention(Pool *pool, const void *args) { return attend(pool, args, 0); }
static int attention_grad(Pool *pool, const void *args) { return attend(pool, args, 1); }
