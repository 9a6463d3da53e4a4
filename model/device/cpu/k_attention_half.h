// k_attention_half.h: attention of bf16 matrices. Products multiply pairs of
// bf16 (probabilities and the gradients of scores are rounded to it), softmax
// and all sums are fp32. Queries go by strips, so that scores stay near.

enum { STRIP = 96 }; // queries of a strip at most

// strip_rows is the length of a strip.
static i64 strip_rows(i64 queries) {
	i64 strips = (queries + STRIP - 1) / STRIP;
	return (queries + strips - 1) / strips;
}

// right_factor lays out m (k x columns) as the right factor of pair_product, right_transposed m's transpose.
static void right_factor(Mat m, uint32_t *dst) { pack_panels(m, 1, dst, PANEL * whole_steps(1, m.rows)); }

static void right_transposed(Mat m, uint32_t *dst) {
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = least(PANEL, m.rows - c);
		transpose_panel(part(m, c, 0, n, m.cols), dst + c * whole_steps(1, m.cols), whole(n), 1);
	}
}

// pair_product writes rows x cols sums of k products to dst, whose rows hold whole vectors and whose
// count of rows is whole too.
static void pair_product(Rows a, i64 rows, i64 k, const uint32_t *factor, i64 cols, Sums dst) {
	i64 steps = whole_steps(1, k);
	for (i64 c = 0; c < cols; c += PANEL, factor += PANEL * steps) {
		int vecs = (int)(whole(least(PANEL, cols - c)) / VL);
		Sums to = {dst.p + c, dst.stride, dst.carry};
#if TILES
		Block none = {0};
		for (i64 r = 0; r < rows; r += BLOCK_ROWS, to.p += BLOCK_ROWS * to.stride) {
			Rows from = {a.p + r * a.row_step, a.row_step, a.step};
			multiply_tiles(vecs, least(BLOCK_ROWS, rows - r), steps, from, factor, to, &none);
		}
#else
		multiply(1, vecs, rows, steps, a, factor, to);
#endif
	}
}

// Scratch of a head: scores s and their gradients t of a strip, the products dk and dv, which go on
// from strip to strip; a left factor; right factors of k and v, by row and transposed, and one more.
typedef struct {
	float *s, *t, *dk, *dv, *keep;
	uint32_t *left, *kt, *vt, *rows, *x;
} HalfSpace;

static float *take(char **at, i64 words) {
	float *p = (float *)*at;
	*at += words * 4;
	return p;
}

static HalfSpace bf16_space(const Head *h, char *at, size_t *bytes) {
	char *begin = at;
	i64 queries = whole(strip_rows(h->queries)), most = h->wide > h->deep ? h->wide : h->deep;
	i64 longest = queries > most ? queries : most;
	HalfSpace sp;
	sp.s = take(&at, queries * most);
	sp.t = take(&at, queries * most);
	sp.dk = take(&at, h->wide * h->deep);
	sp.dv = take(&at, h->wide * h->deep);
	sp.keep = take(&at, h->wide);
	sp.left = (uint32_t *)take(&at, longest * copy_step(whole_steps(1, longest)));
	sp.kt = (uint32_t *)take(&at, whole_steps(1, h->dim) * h->wide);
	sp.vt = (uint32_t *)take(&at, whole_steps(1, h->dim) * h->wide);
	sp.rows = (uint32_t *)take(&at, whole_steps(1, h->len) * h->deep);
	sp.x = (uint32_t *)take(&at, whole_steps(1, queries) * h->deep);
	*bytes = at - begin;
	return sp;
}

static size_t bf16_bytes(const Head *h) {
	size_t bytes;
	bf16_space(h, NULL, &bytes);
	return bytes;
}

// left_rows is m as a left factor.
static Rows left_rows(Mat m, const HalfSpace *sp) { return rows_along(m, 1, whole_steps(1, m.cols), sp->left); }

// keep_row is the dropout factors of query r; without dropout they stay what they are, all ones.
static void keep_row(const Head *h, i64 r, float *keep) {
	if (h->a->p > 0) keep_factors(keep, h->len, h->a->p, h->a->key, drop_index(h, r));
}

static HalfSpace bf16_begin(const Head *h, Worker *w) {
	size_t bytes;
	HalfSpace sp = bf16_space(h, w->scratch, &bytes);
	for (i64 j = 0; j < h->wide; j++) sp.keep[j] = 1;
#if TILES
	tiles_begin();
#endif
	return sp;
}

static void bf16_end(void) {
#if TILES
	tiles_end();
#endif
}

// store_scaled stores the first rows of a product, each times its factor.
static void store_scaled(Mat dst, const float *from, i64 stride, const float *factor) {
	for (i64 r = 0; r < dst.rows; r++) {
		vf f = vset(factor ? factor[r] : 1.0f);
		for (i64 c = 0; c < dst.cols; c += VL) mstore(dst, r, c, vload(from + r * stride + c) * f);
	}
}

static void bf16_strip(const Head *h, const HalfSpace *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	pair_product(left_rows(q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	float inv[STRIP];
	for (i64 r = 0; r < rows; r++) {
		float *s = sp->s + r * h->wide, top, total = exponentials(s, keys_of(a, first + r), h->wide, head_scale(h), &top);
		inv[r] = 1.0f / total;
		if (a->lse.p) *lse_at(h, first + r) = top + vlog(vset(total))[0];
		if (a->p == 0) continue;
		keep_row(h, first + r, sp->keep);
		for (i64 j = 0; j < h->wide; j += VL) vstore(s + j, vload(s + j) * vload(sp->keep + j));
	}
	Mat p = {sp->s, rows, h->len, h->wide, 0};
	pair_product(left_rows(p, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->t, h->deep, 0});
	store_scaled(out, sp->t, h->deep, inv);
}

static void bf16_task(const void *args, i64 i, Worker *w) {
	Head h = head_of(args, i);
	HalfSpace sp = bf16_begin(&h, w);
	right_transposed(of_keys(&h, h.a->k), sp.kt);
	right_factor(of_keys(&h, h.a->v), sp.rows);
	for (i64 r = 0, strip = strip_rows(h.queries); r < h.queries; r += strip) {
		bf16_strip(&h, &sp, r, least(strip, h.queries - r));
	}
	bf16_end();
}

// add_keys adds the products of a strip's weights (queries x keys) and its queries' rows to dst.
static void add_keys(const Head *h, const HalfSpace *sp, const float *weights, Mat rows, float *dst, int carry) {
	right_factor(rows, sp->x);
	for (i64 j = 0; j < h->len; j += MC) {
		Mat w = {(float *)weights + j, rows.rows, least(MC, h->len - j), h->wide, 0};
		Rows left = rows_across(w, 1, whole_steps(1, rows.rows), sp->left);
		pair_product(left, w.cols, rows.rows, sp->x, h->dim, (Sums){dst + j * h->deep, h->deep, carry});
	}
}

static void bf16_grad_strip(const Head *h, const HalfSpace *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), dq = part(of_queries(h, a->dq), first, 0, rows, h->dim);
	Mat dout = part(of_queries(h, a->dout), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	pair_product(left_rows(q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	pair_product(left_rows(dout, sp), rows, h->dim, sp->vt, h->len, (Sums){sp->t, h->wide, 0});
	for (i64 r = 0; r < rows; r++) {
		keep_row(h, first + r, sp->keep);
		score_grads(h, first + r, sp->s + r * h->wide, sp->t + r * h->wide, sp->keep, row_dot(dout, r, out, r));
	}
	add_keys(h, sp, sp->t, q, sp->dk, first > 0);
	add_keys(h, sp, sp->s, dout, sp->dv, first > 0);
	Mat ds = {sp->t, rows, h->len, h->wide, 0};
	pair_product(left_rows(ds, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->s, h->deep, 0});
	store_scaled(dq, sp->s, h->deep, NULL);
}

static void bf16_grad_task(const void *args, i64 i, Worker *w) {
	Head h = head_of(args, i);
	HalfSpace sp = bf16_begin(&h, w);
	right_transposed(of_keys(&h, h.a->k), sp.kt);
	right_transposed(of_keys(&h, h.a->v), sp.vt);
	right_factor(of_keys(&h, h.a->k), sp.rows);
	for (i64 r = 0, strip = strip_rows(h.queries); r < h.queries; r += strip) {
		bf16_grad_strip(&h, &sp, r, least(strip, h.queries - r));
	}
	store_scaled(of_keys(&h, h.a->dk), sp.dk, h.deep, NULL);
	store_scaled(of_keys(&h, h.a->dv), sp.dv, h.deep, NULL);
	bf16_end();
}
