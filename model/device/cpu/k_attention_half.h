// k_attention_half.h: attention of bf16 matrices. Products multiply pairs of
// bf16 (probabilities and the gradients of scores are rounded to it), softmax
// and all sums are fp32. Queries go by strips, so that scores stay near.

enum { STRIP = 96 }; // queries of a strip at most

// strip_rows is the length of a strip: even, so that pairs of queries stay together.
static i64 strip_rows(i64 asking) {
	i64 strips = (asking + STRIP - 1) / STRIP;
	return ((asking + strips - 1) / strips + 1) / 2 * 2;
}

static inline i64 pairs(i64 n) { return (n + 1) / 2; }

// words is up to 16 pairs of row r of m from column 2*s on; zeros past the row.
static inline vf words(Mat m, i64 r, i64 s) {
	i64 n = m.cols - 2 * s;
	__mmask32 mask = n >= 32 ? ~0u : n <= 0 ? 0 : (1u << n) - 1;
	return (vf)_mm512_maskz_loadu_epi16(mask, mat_at(m, r, 2 * s));
}

// pack_pairs packs m (tokens x columns) as a right factor whose steps are pairs of tokens.
static void pack_pairs(Mat m, uint32_t *dst) {
	for (i64 c = 0; c < m.cols; c += PANEL) {
		Mat here = part(m, 0, c, m.rows, least(PANEL, m.cols - c));
		for (i64 r = 0; r < m.rows; r += 2) {
			for (i64 j = 0; j < here.cols; j += VL, dst += VL) {
				vf y = r + 1 < m.rows ? mload(here, r + 1, j) : vset(0.0f);
				vstore((float *)dst, vbits((vi)((vu)mload(here, r, j) >> 16) | (vi)y));
			}
		}
	}
}

// pack_pairs_transposed packs the transpose of m: steps are pairs of columns.
static void pack_pairs_transposed(Mat m, uint32_t *dst) {
	i64 steps = pairs(m.cols);
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = least(PANEL, m.rows - c), width = whole(n);
		for (i64 j = 0; j < n; j += VL) {
			for (i64 s = 0; s < steps; s += VL) {
				vf t[VL];
				for (i64 r = 0; r < VL; r++) t[r] = j + r < n ? words(m, c + j + r, s) : vset(0.0f);
				vtranspose(t);
				for (i64 k = 0; k < least(VL, steps - s); k++) vstore((float *)(dst + (s + k) * width + j), t[k]);
			}
		}
		dst += width * steps;
	}
}

// A left factor of pairs along columns, copied so that its rows end in zeros.
static Rows left_pairs(Mat m, uint32_t *dst) {
	i64 width = whole(pairs(m.cols));
	for (i64 r = 0; r < m.rows; r++) {
		for (i64 s = 0; s < width; s += VL) vstore((float *)(dst + r * width + s), words(m, r, s));
	}
	return (Rows){dst, width, 1};
}

// Scratch of a head. Scores s and their gradients t of a strip in fp32; p, ds by row and pt, dst by
// column as bf16 pairs; right factors; the products dk, dv, which go on from strip to strip.
typedef struct {
	float *s, *t, *dk, *dv, *keep;
	uint32_t *p, *pt, *dst, *a, *kt, *vt, *kr, *x;
} HalfSpace;

static float *take(char **at, size_t words) {
	float *p = (float *)*at;
	*at += words * 4;
	return p;
}

static HalfSpace half_space(const Head *h, char *at, size_t *bytes) {
	i64 rows = strip_rows(h->asking), most = h->wide > h->deep ? h->wide : h->deep, key_pairs = whole(pairs(h->wide)), dim_pairs = whole(pairs(h->dim));
	char *begin = at;
	HalfSpace sp;
	sp.s = take(&at, rows * h->wide);
	sp.t = take(&at, rows * most);
	sp.dk = take(&at, h->len * h->deep);
	sp.dv = take(&at, h->len * h->deep);
	sp.keep = take(&at, h->wide + 4 * VL);
	sp.p = (uint32_t *)take(&at, rows * key_pairs);
	sp.pt = (uint32_t *)take(&at, rows / 2 * h->wide);
	sp.dst = (uint32_t *)take(&at, rows / 2 * h->wide);
	sp.a = (uint32_t *)take(&at, rows * dim_pairs);
	sp.kt = (uint32_t *)take(&at, pairs(h->dim) * h->wide);
	sp.vt = (uint32_t *)take(&at, pairs(h->dim) * h->wide);
	sp.kr = (uint32_t *)take(&at, pairs(h->len) * h->deep);
	sp.x = (uint32_t *)take(&at, pairs(h->len > rows ? h->len : rows) * h->deep);
	*bytes = at - begin;
	return sp;
}

static size_t half_bytes(const Head *h) {
	size_t bytes;
	half_space(h, NULL, &bytes);
	return bytes;
}

// keep_row is the dropout factors of query r, all ones without dropout.
static void keep_row(const Head *h, i64 r, float *keep) {
	if (h->a->p > 0) keep_factors(keep, h->len, h->a->p, h->a->key, drop_index(h, r));
}

static void half_strip(const Head *h, const HalfSpace *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	i64 wide = whole(pairs(h->wide));
	head_product(1, left_pairs(q, sp->a), rows, pairs(h->dim), (float *)sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	float inv[STRIP];
	for (i64 r = 0; r < rows; r++) {
		float *s = sp->s + r * h->wide, top, total = exponentials(s, keys_of(a, first + r), h->wide, head_scale(h), &top);
		inv[r] = 1.0f / total;
		if (a->lse.p) *lse_at(h, first + r) = top + vlog(vset(total))[0];
		keep_row(h, first + r, sp->keep);
		for (i64 j = 0; j < h->wide; j += VL) {
			vstore_bf16(sp->p + r * wide + j / 2, a->p > 0 ? vload(s + j) * vload(sp->keep + j) : vload(s + j));
		}
	}
	head_product(1, (Rows){sp->p, wide, 1}, rows, pairs(h->len), (float *)sp->kr, h->dim, (Sums){sp->t, h->deep, 0});
	for (i64 r = 0; r < rows; r++) {
		for (i64 c = 0; c < h->dim; c += VL) mstore(out, r, c, vload(sp->t + r * h->deep + c) * vset(inv[r]));
	}
}

static void half_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	size_t bytes;
	HalfSpace sp = half_space(&h, w->scratch, &bytes);
	pack_pairs_transposed(of_keys(&h, a->k), sp.kt);
	pack_pairs(of_keys(&h, a->v), sp.kr);
	for (i64 j = 0; j < h.wide; j++) sp.keep[j] = 0;
	for (i64 r = 0, strip = strip_rows(h.asking); r < h.asking; r += strip) {
		half_strip(&h, &sp, r, least(strip, h.asking - r));
	}
}

// strip_grads turns scores and dout.v of a strip into bf16: dS by row, and dS and P as pairs of queries.
static void strip_grads(const Head *h, const HalfSpace *sp, Mat dout, Mat out, i64 first) {
	i64 wide = whole(pairs(h->wide));
	for (i64 r = 0; r < dout.rows; r += 2) {
		float *s[2], *t[2];
		for (i64 j = 0; j < 2; j++) {
			s[j] = sp->s + (r + j) * h->wide;
			t[j] = sp->t + (r + j) * h->wide;
			if (r + j == dout.rows) { // an odd strip ends with a query of zeros
				memset(s[j], 0, h->wide * 4);
				memset(t[j], 0, h->wide * 4);
				continue;
			}
			keep_row(h, first + r + j, sp->keep);
			score_grads(h, first + r + j, s[j], t[j], sp->keep, row_dot(dout, r + j, out, r + j));
		}
		for (i64 c = 0; c < h->wide; c += VL) {
			vf d0 = vload(t[0] + c), d1 = vload(t[1] + c);
			vstore_bf16(sp->p + r * wide + c / 2, d0);
			vstore_bf16(sp->p + (r + 1) * wide + c / 2, d1);
			vstore((float *)(sp->dst + r / 2 * h->wide + c), vpair(d0, d1));
			vstore((float *)(sp->pt + r / 2 * h->wide + c), vpair(vload(s[0] + c), vload(s[1] + c)));
		}
	}
}

static void half_grad_strip(const Head *h, const HalfSpace *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(of_queries(h, a->q), first, 0, rows, h->dim), dq = part(of_queries(h, a->dq), first, 0, rows, h->dim);
	Mat dout = part(of_queries(h, a->dout), first, 0, rows, h->dim), out = part(of_queries(h, a->out), first, 0, rows, h->dim);
	i64 wide = whole(pairs(h->wide)), steps = pairs(rows);
	head_product(1, left_pairs(q, sp->a), rows, pairs(h->dim), (float *)sp->kt, h->len, (Sums){sp->s, h->wide, 0});
	head_product(1, left_pairs(dout, sp->a), rows, pairs(h->dim), (float *)sp->vt, h->len, (Sums){sp->t, h->wide, 0});
	strip_grads(h, sp, dout, out, first);
	head_product(1, (Rows){sp->p, wide, 1}, rows, pairs(h->len), (float *)sp->kr, h->dim, (Sums){sp->t, h->deep, 0});
	for (i64 r = 0; r < rows; r++) {
		for (i64 c = 0; c < h->dim; c += VL) mstore(dq, r, c, vload(sp->t + r * h->deep + c));
	}
	pack_pairs(q, sp->x);
	head_product(1, (Rows){sp->dst, 1, h->wide}, h->len, steps, (float *)sp->x, h->dim, (Sums){sp->dk, h->deep, first > 0});
	pack_pairs(dout, sp->x);
	head_product(1, (Rows){sp->pt, 1, h->wide}, h->len, steps, (float *)sp->x, h->dim, (Sums){sp->dv, h->deep, first > 0});
}

static void half_grad_task(const void *args, i64 i, Worker *w) {
	const AttentionArgs *a = args;
	Head h = head_of(a, i);
	size_t bytes;
	HalfSpace sp = half_space(&h, w->scratch, &bytes);
	Mat k = of_keys(&h, a->k), dk = of_keys(&h, a->dk), dv = of_keys(&h, a->dv);
	pack_pairs_transposed(k, sp.kt);
	pack_pairs_transposed(of_keys(&h, a->v), sp.vt);
	pack_pairs(k, sp.kr);
	for (i64 j = 0; j < h.wide; j++) sp.keep[j] = 1;
	for (i64 r = 0, strip = strip_rows(h.asking); r < h.asking; r += strip) {
		half_grad_strip(&h, &sp, r, least(strip, h.asking - r));
	}
	for (i64 r = 0; r < h.len; r++) {
		for (i64 c = 0; c < h.dim; c += VL) {
			mstore(dk, r, c, vload(sp.dk + r * h.deep + c));
			mstore(dv, r, c, vload(sp.dv + r * h.deep + c));
		}
	}
}
