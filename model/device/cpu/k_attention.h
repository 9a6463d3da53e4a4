// k_attention.h: out = softmax(q k^T / sqrt(dim)) v for each head of each sequence,
// and its gradient. There are two implementations: one for any number of tokens, on
// the GEMM of k_gemm.h, and one for at most FEW tokens, without packing.
//
// All keys of a query are scored at once. A sequence has a few hundred tokens, so
// that the scores of a strip of queries stay in the cache and softmax needs no online
// rescaling, as FlashAttention does. The backward pass recomputes the scores from q
// and k, and the probabilities from lse, the log of each query's sum of exponentials:
//
//   p = exp(s - lse), ds = p (dp - dout.out) / sqrt(dim), with dp = dout v^T,
//   dq = ds k, dk = ds^T q, dv = p^T dout.
//
// Memory traffic: the forward pass reads q, k and v once and writes out once; the
// backward pass reads q, k, v, out, dout and lse and writes dq, dk and dv. Scores
// never go to memory.

// A Head is one head of one sequence.
typedef struct Head {
	const AttentionArgs *a;
	i64 len, queries, dim;      // number of keys, queries and columns
	i64 padded_len, padded_dim; // len and dim, rounded up to full vectors
	i64 head, seq;              // seq*heads + head, and the sequence
	i64 col;                    // first column of the head in q, k, v, ...
	Layout layout;              // of the factors of its GEMMs
	const struct Head *next;    // the next head of the same task, or NULL
} Head;

// round_up rounds n up to a multiple of VL.
static inline i64 round_up(i64 n) { return (n + VL - 1) / VL * VL; }

// head_of returns head i, counted over all sequences. It uses bf16 GEMMs if the
// matrices are stored as bf16, whatever the device's precision for other GEMMs.
static Head head_of(const AttentionArgs *a, i64 i) {
	return (Head){
		.a = a, .len = a->len, .queries = a->queries, .dim = a->dim, .padded_len = round_up(a->len), .padded_dim = round_up(a->dim),
		.head = i, .seq = i / a->heads, .col = i % a->heads * a->dim, .layout = layout_of(VEC_BF16 && a->q.bf16),
	};
}

// head_tokens returns this head's part of m, a matrix with `tokens` rows per
// sequence.
static inline Mat head_tokens(const Head *h, Mat m, i64 tokens) {
	Mat rows = part(m, h->a->by_token ? h->seq : h->seq * tokens, h->col, tokens, h->dim);
	if (h->a->by_token) rows.stride *= h->a->seqs;
	return rows;
}

static inline Mat head_queries(const Head *h, Mat m) { return head_tokens(h, m, h->queries); }
static inline Mat head_keys(const Head *h, Mat m) { return head_tokens(h, m, h->len); }

// query_token returns the index within its sequence of query i, counted from the
// first query: queries are the last tokens of a sequence.
static inline i64 query_token(const AttentionArgs *a, i64 i) { return i + a->len - a->queries; }

// visible_keys returns how many keys query i attends to (device.Heads.Keys).
static inline i64 visible_keys(const AttentionArgs *a, i64 i) {
	return a->block == 0 ? a->len : imin(a->len, (query_token(a, i) / a->block + 1) * a->block);
}

// drop_index returns the dropout element index of query i and key 0.
static inline uint64_t drop_index(const Head *h, i64 i) {
	return (uint64_t)((h->head * h->len + query_token(h->a, i)) * h->len);
}

static inline float *lse_at(const Head *h, i64 i) { return h->a->lse.p + h->head * h->a->lse.stride + i; }

// head_scale returns 1/sqrt(dim), by which scores are multiplied.
static float head_scale(const Head *h) { return (float)(1 / sqrt((double)h->dim)); }

// row_dot returns the dot product of two rows.
INLINED float row_dot(const int full, Mat a, i64 i, Mat b, i64 j) {
	vf sum = vset(0.0f);
	for (i64 c = 0; c < a.cols; c += VL) sum = vfma(mget(full, a, i, c), mget(full, b, j, c), sum);
	return vsum(sum);
}

// fill_tail sets s[keys..padded_len) to x. It rewrites the vector that contains the
// last key as a vector: after scalar stores, the next vector load would span several
// of them and stall, since store forwarding cannot combine them.
static void fill_tail(float *s, i64 keys, i64 padded_len, float x) {
	vf lane = __builtin_convertvector(viota(), vf);
	for (i64 j = keys / VL * VL; j < padded_len; j += VL) vstore(s + j, vless(lane, vset((float)(keys - j)), vload(s + j), vset(x)));
}

// mask_and_max returns the largest of a query's scores s. Scores of keys that the
// query does not attend to become -inf, so that their exponentials are zero.
static float mask_and_max(float *s, i64 keys, i64 padded_len) {
	vf most = vset(-INFINITY);
	fill_tail(s, keys, padded_len, -INFINITY);
	for (i64 j = 0; j < padded_len; j += VL) most = vmax(most, vload(s + j));
	return vhmax(most);
}

// exponentials replaces scores s by exp(scale*s - top) and returns their sum.
static float exponentials(float *s, i64 padded_len, float scale, float top) {
	vf sum = vset(0.0f);
	for (i64 j = 0; j < padded_len; j += VL) {
		vf p = vexp(vfma(vload(s + j), vset(scale), vset(-top)));
		vstore(s + j, p);
		sum += p;
	}
	return vsum(sum);
}

// score_grads replaces the scores s of query r by its probabilities after dropout,
// and dp = dout.v by the gradients of the scores. Both become zero for keys that the
// query does not attend to. keep holds the dropout factors.
//
// The gradients of a query's scores add up to zero. The sum of p keep dp makes them do so;
// dout.out equals it by its formula, but not once out is stored as bf16: where values
// differ little among keys, its error is larger than the gradients.
static void score_grads(const Head *h, i64 r, float scaling, float *s, float *dp, const float *keep) {
	vf lse = vset(*lse_at(h, r)), scale = vset(scaling), sum = vset(0.0f);
	i64 keys = visible_keys(h->a, r);
	fill_tail(s, keys, h->padded_len, -INFINITY);
	fill_tail(dp, keys, h->padded_len, 0);
	for (i64 j = 0; j < h->padded_len; j += VL) {
		vf p = vexp(vfma(vload(s + j), scale, -lse)), d = vload(dp + j) * vload(keep + j);
		vstore(s + j, p);
		vstore(dp + j, d);
		sum = vfma(p, d, sum);
	}
	vf delta = vset(vsum(sum));
	for (i64 j = 0; j < h->padded_len; j += VL) {
		vf p = vload(s + j);
		vstore(dp + j, p * (vload(dp + j) - delta) * scale);
		vstore(s + j, p * vload(keep + j));
	}
}

// --- Any number of tokens --------------------------------------------------
//
// Softmax and all sums are in fp32. With bf16 matrices, probabilities and the gradients of
// scores are rounded to bf16 when they become factors of a GEMM. Queries are processed in
// strips, so that their scores stay in the cache.

// Largest number of queries in a strip, a multiple of VL.
enum { STRIP = 96 };

// strip_rows returns the length of a strip: queries are divided evenly, so that the
// last strip is not much shorter than the others.
static i64 strip_rows(i64 queries) {
	i64 strips = (queries + STRIP - 1) / STRIP;
	return (queries + strips - 1) / strips;
}

// HeadTasks divides `count` heads into tasks of `group` consecutive heads. A head
// prefetches the memory of the next head of its task.
typedef struct { const AttentionArgs *a; i64 count, group; } HeadTasks;

// A KeyRange is the keys that are prefetched while query r is processed. All keys are
// spread evenly over the queries, since prefetching many rows at once delays the
// loads in progress.
typedef struct { i64 from, count; } KeyRange;

static inline KeyRange key_range(const Head *h, i64 r) {
	if (h->len == h->queries) return (KeyRange){r, 1};
	i64 from = r * h->len / h->queries;
	return (KeyRange){from, (r + 1) * h->len / h->queries - from};
}

static inline Mat key_rows(const Head *h, KeyRange k, Mat m) { return part(head_keys(h, m), k.from, 0, k.count, h->dim); }

// prefetch_next_head prefetches, a little with each query, what the next head of the
// task reads: keys, values and queries, and for the gradient dout.
PREFETCH_FN prefetch_next_head(const Head *h, i64 r, int grad) {
	if (!h->next) return;
	const AttentionArgs *a = h->a;
	KeyRange keys = key_range(h, r);
	prefetch_rows(key_rows(h->next, keys, a->k));
	prefetch_rows(key_rows(h->next, keys, a->v));
	prefetch_row(head_queries(h->next, a->q), r);
	if (grad) prefetch_row(head_queries(h->next, a->dout), r);
}

static inline i64 head_steps(const Head *h, i64 k) { return padded_steps(h->layout, k); }

// right_factor packs m (K x columns) as the right factor of head_gemm,
// right_transposed the transpose of m.
static void right_factor(const Head *h, Mat m, uint32_t *dst) { pack_panels(m, h->layout, dst, PANEL * head_steps(h, m.rows)); }

static void right_transposed(const Head *h, Mat m, uint32_t *dst) {
	for (i64 c = 0; c < m.rows; c += PANEL) {
		i64 n = imin(PANEL, m.rows - c);
		pack_transposed(part(m, c, 0, n, m.cols), dst + c * head_steps(h, m.cols), round_up(n), h->layout);
	}
}

// head_gemm computes rows x cols sums of k products each. dst must have room for rows
// of full vectors and, for tiles, for a number of rows rounded up to full tiles.
static void head_gemm(const Head *h, LeftFactor a, i64 rows, i64 k, const uint32_t *factor, i64 cols, Sums dst) {
	i64 steps = head_steps(h, k);
#if TILES
	Backlog l = {0};
#endif
	for (i64 c = 0; c < cols; c += PANEL, factor += PANEL * steps) {
		int vecs = (int)(round_up(imin(PANEL, cols - c)) / VL);
		Sums to = {dst.p + c, dst.stride, dst.accumulate};
#if TILES
		for (i64 r = 0; r < rows; r += BLOCK_ROWS, to.p += BLOCK_ROWS * to.stride) {
			multiply_tiles(vecs, imin(BLOCK_ROWS, rows - r), steps, from_row(a, r), factor, to, &l);
		}
#else
		PrefetchList empty = {0};
		multiply(h->layout, vecs, rows, steps, a, factor, to, &empty);
#endif
	}
#if TILES
	store_tiles(&l);
#endif
}

// Scratch is the memory that a head needs besides its matrices:
//
// - s, t: scores of a strip and their gradients, later other results of the strip;
// - dk, dv: sums that accumulate from strip to strip;
// - keep: dropout factors of one query;
// - left: the left factor of the current GEMM;
// - kt, vt: k and v, transposed, as right factors; rows: k or v as right factor;
// - x: q or dout of a strip as right factor.
typedef struct {
	float *s, *t, *dk, *dv, *keep;
	uint32_t *left, *kt, *vt, *rows, *x;
} Scratch;

// carve takes `words` 4-byte words from the memory at *at.
static float *carve(char **at, i64 words) {
	float *p = (float *)*at;
	*at += words * 4;
	return p;
}

// scratch_layout lays out a head's scratch at `at`. With NULL it only computes the
// size.
static Scratch scratch_layout(const Head *h, char *at, size_t *bytes) {
	char *begin = at;
	i64 queries = round_up(strip_rows(h->queries)), most = h->padded_len > h->padded_dim ? h->padded_len : h->padded_dim;
	i64 longest = queries > most ? queries : most;
	Scratch sp;
	sp.s = carve(&at, queries * most);
	sp.t = carve(&at, queries * most);
	sp.dk = carve(&at, h->padded_len * h->padded_dim);
	sp.dv = carve(&at, h->padded_len * h->padded_dim);
	sp.keep = carve(&at, h->padded_len);
	sp.left = (uint32_t *)carve(&at, h->layout != FLOATS ? longest * copy_pitch(head_steps(h, longest)) : 0);
	sp.kt = (uint32_t *)carve(&at, head_steps(h, h->dim) * h->padded_len);
	sp.vt = (uint32_t *)carve(&at, head_steps(h, h->dim) * h->padded_len);
	sp.rows = (uint32_t *)carve(&at, head_steps(h, h->len) * h->padded_dim);
	sp.x = (uint32_t *)carve(&at, head_steps(h, queries) * h->padded_dim);
	*bytes = at - begin;
	return sp;
}

static size_t scratch_bytes(const Head *h) {
	size_t bytes;
	scratch_layout(h, NULL, &bytes);
	return bytes;
}

// left_rows lays out m as a left factor, left_columns the transpose of m.
static LeftFactor left_rows(const Head *h, Mat m, const Scratch *sp) { return layout_rows(m, h->layout, head_steps(h, m.cols), sp->left); }

static LeftFactor left_columns(const Head *h, Mat m, const Scratch *sp) {
	if (h->layout == FLOATS) return (LeftFactor){(const uint32_t *)m.p, 1, m.stride, 0};
	return layout_columns(m, h->layout, head_steps(h, m.rows), sp->left);
}

// keep_row fills in the dropout factors of query r. Without dropout they stay all
// ones.
static void keep_row(const Head *h, i64 r, float *keep) {
	if (h->a->p > 0) keep_factors(keep, h->len, h->a->p, h->a->key, drop_index(h, r));
}

// head_begin lays out the scratch of a worker and enables tiles if they are used;
// head_end disables them.
static Scratch head_begin(const Head *h, Worker *w) {
	size_t bytes;
	Scratch sp = scratch_layout(h, w->scratch, &bytes);
	for (i64 j = 0; j < h->padded_len; j++) sp.keep[j] = 1;
#if TILES
	tiles_begin();
#endif
	return sp;
}

static void head_end(const Head *h) {
	(void)h;
#if TILES
	tiles_end();
#endif
}

// store_scaled stores the first rows of a product, row r multiplied by factor[r], or
// by 1 if factor is NULL.
static void store_scaled(Mat dst, const float *from, i64 stride, const float *factor) {
	for (i64 r = 0; r < dst.rows; r++) {
		vf f = vset(factor ? factor[r] : 1.0f);
		for (i64 c = 0; c < dst.cols; c += VL) mstore(dst, r, c, vload(from + r * stride + c) * f);
	}
}

// strip_forward computes the output of `rows` queries from query `first` on. The
// division by the sum of exponentials comes last, on rows of out, which takes one
// division per query; lse is stored for the backward pass.
static void strip_forward(const Head *h, const Scratch *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(head_queries(h, a->q), first, 0, rows, h->dim), out = part(head_queries(h, a->out), first, 0, rows, h->dim);
	head_gemm(h, left_rows(h, q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->padded_len, 0});
	float top[STRIP], total[STRIP], inv[STRIP], scale = head_scale(h);
	for (i64 r = 0; r < rows; r++) top[r] = scale * mask_and_max(sp->s + r * h->padded_len, visible_keys(a, first + r), h->padded_len);
	for (i64 r = 0; r < rows; r++) {
		float *s = sp->s + r * h->padded_len;
		prefetch_next_head(h, first + r, 0);
		prefetch_row_write(out, r);
		total[r] = exponentials(s, h->padded_len, scale, top[r]);
		if (a->p == 0) continue;
		keep_row(h, first + r, sp->keep);
		for (i64 j = 0; j < h->padded_len; j += VL) vstore(s + j, vload(s + j) * vload(sp->keep + j));
	}
	for (i64 r = 0; r < rows; r += VL) {
		vf sum = vpart(total, r, rows);
		vstore(inv + r, vset(1.0f) / sum);
		if (a->lse.p) vput(lse_at(h, first), r, rows, vpart(top, r, rows) + vlog(sum));
	}
	Mat p = {sp->s, rows, h->len, h->padded_len, 0};
	head_gemm(h, left_rows(h, p, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->t, h->padded_dim, 0});
	store_scaled(out, sp->t, h->padded_dim, inv);
}

static void attention_head(const Head *h, Worker *w) {
	Scratch sp = head_begin(h, w);
	right_transposed(h, head_keys(h, h->a->k), sp.kt);
	right_factor(h, head_keys(h, h->a->v), sp.rows);
	for (i64 r = 0, n = strip_rows(h->queries); r < h->queries; r += n) strip_forward(h, &sp, r, imin(n, h->queries - r));
	head_end(h);
}

// add_keys adds weights^T rows to dst: weights are queries x keys of a strip, rows
// the queries' rows of q (for dk) or dout (for dv). It goes through the keys MC at a
// time.
static void add_keys(const Head *h, const Scratch *sp, const float *weights, Mat rows, float *dst, int accumulate) {
	right_factor(h, rows, sp->x);
	for (i64 j = 0; j < h->len; j += MC) {
		Mat w = {(float *)weights + j, rows.rows, imin(MC, h->len - j), h->padded_len, 0};
		head_gemm(h, left_columns(h, w, sp), w.cols, rows.rows, sp->x, h->dim, (Sums){dst + j * h->padded_dim, h->padded_dim, accumulate});
	}
}

// strip_backward computes dq of a strip and adds the strip's part of dk and dv to the
// sums in scratch.
static void strip_backward(const Head *h, const Scratch *sp, i64 first, i64 rows) {
	const AttentionArgs *a = h->a;
	Mat q = part(head_queries(h, a->q), first, 0, rows, h->dim), dq = part(head_queries(h, a->dq), first, 0, rows, h->dim);
	Mat dout = part(head_queries(h, a->dout), first, 0, rows, h->dim);
	head_gemm(h, left_rows(h, q, sp), rows, h->dim, sp->kt, h->len, (Sums){sp->s, h->padded_len, 0});
	head_gemm(h, left_rows(h, dout, sp), rows, h->dim, sp->vt, h->len, (Sums){sp->t, h->padded_len, 0});
	float scale = head_scale(h);
	for (i64 r = 0; r < rows; r++) {
		KeyRange range = key_range(h, first + r);
		prefetch_next_head(h, first + r, 1);
		prefetch_row_write(dq, r);
		prefetch_rows_write(key_rows(h, range, a->dk));
		prefetch_rows_write(key_rows(h, range, a->dv));
		keep_row(h, first + r, sp->keep);
		score_grads(h, first + r, scale, sp->s + r * h->padded_len, sp->t + r * h->padded_len, sp->keep);
	}
	add_keys(h, sp, sp->t, q, sp->dk, first > 0);
	add_keys(h, sp, sp->s, dout, sp->dv, first > 0);
	Mat ds = {sp->t, rows, h->len, h->padded_len, 0};
	head_gemm(h, left_rows(h, ds, sp), rows, h->len, sp->rows, h->dim, (Sums){sp->s, h->padded_dim, 0});
	store_scaled(dq, sp->s, h->padded_dim, NULL);
}

// attention_grad_head goes through the strips in order, so that the sums of dk and dv
// have a fixed order.
static void attention_grad_head(const Head *h, Worker *w) {
	Scratch sp = head_begin(h, w);
	right_transposed(h, head_keys(h, h->a->k), sp.kt);
	right_transposed(h, head_keys(h, h->a->v), sp.vt);
	right_factor(h, head_keys(h, h->a->k), sp.rows);
	for (i64 r = 0, n = strip_rows(h->queries); r < h->queries; r += n) strip_backward(h, &sp, r, imin(n, h->queries - r));
	store_scaled(head_keys(h, h->a->dk), sp.dk, h->padded_dim, NULL);
	store_scaled(head_keys(h, h->a->dv), sp.dv, h->padded_dim, NULL);
	head_end(h);
}

// head_tasks runs `one` for all heads of task i.
INLINED void head_tasks(const HeadTasks *all, i64 i, Worker *w, void (*one)(const Head *, Worker *)) {
	i64 first = i * all->group, end = imin(first + all->group, all->count);
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
// The predictor attends to a history of a few frames, for which packing would cost more
// than it saves. The forward pass computes scores as dot products and then processes VL
// heads of a sequence at a time, one head per lane, so that softmax over so few keys still
// uses full vectors.

// Number of tokens up to which this implementation is used; groups of VL heads in a
// forward task, and heads in a backward task.
enum { FEW = 8, FEW_GROUPS = 8, FEW_HEADS = 8 };

// few_groups returns the number of groups of up to VL heads in a sequence.
static i64 few_groups(const AttentionArgs *a) { return (a->heads + VL - 1) / VL; }

// weighted_sum writes the sum over j of w[j*step] * row j of m to row r of dst.
INLINED void weighted_sum(const int full, Mat dst, i64 r, const float *w, i64 step, Mat m, i64 rows) {
	for (i64 c = 0; c < m.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 j = 0; j < rows; j++) sum = vfma(vset(w[j * step]), mget(full, m, j, c), sum);
		mset(full, dst, r, c, sum);
	}
}

// head_columns returns the columns of the head i heads after m's.
static inline Mat head_columns(Mat m, i64 i) {
	m.p = mat_at(m, 0, i * m.cols);
	return m;
}

// few_scores returns, in lane i, the dot product of row r of q and row j of k for
// head i of the n heads that begin at q and k. The partial sums of each head are
// transposed, so that one tree of vector additions reduces those of all heads.
INLINED vf few_scores(const int full, Mat q, i64 r, Mat k, i64 j, i64 n) {
	vf t[VL];
	for (i64 i = 0; i < VL; i++) t[i] = vset(0.0f);
	for (i64 i = 0; i < n; i++) {
		Mat qi = head_columns(q, i), ki = head_columns(k, i);
		for (i64 c = 0; c < q.cols; c += VL) t[i] = vfma(mget(full, qi, r, c), mget(full, ki, j, c), t[i]);
	}
	vtranspose(t);
#pragma GCC unroll 4
	for (i64 half = VL / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
		for (i64 i = 0; i < half; i++) t[i] += t[i + half];
	}
	return t[0];
}

// few_softmax turns the scores of n heads, s[key] with one head per lane, into
// probabilities after dropout, and stores lse.
static void few_softmax(const Head *h, i64 r, i64 n, vf *s) {
	const AttentionArgs *a = h->a;
	i64 keys = visible_keys(a, r);
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

// few_group computes the outputs of up to VL heads of a sequence, from head `first`
// on.
INLINED void few_group(const int full, const AttentionArgs *a, i64 seq, i64 first) {
	Head h = head_of(a, seq * a->heads + first);
	Mat q = head_queries(&h, a->q), k = head_keys(&h, a->k), v = head_keys(&h, a->v), out = head_queries(&h, a->out);
	i64 n = imin(VL, a->heads - first);
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = visible_keys(a, r);
		vf s[FEW];
		float w[FEW * VL];
		for (i64 j = 0; j < keys; j++) s[j] = few_scores(full, q, r, k, j, n);
		few_softmax(&h, r, n, s);
		for (i64 j = 0; j < keys; j++) vstore(w + j * VL, s[j]);
		for (i64 i = 0; i < n; i++) weighted_sum(full, head_columns(out, i), r, w + i, VL, head_columns(v, i), keys);
	}
}

static void few_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	i64 groups = few_groups(a), end = imin((i + 1) * FEW_GROUPS, a->seqs * groups);
	for (i64 g = i * FEW_GROUPS; g < end; g++) {
		if (a->dim % VL == 0) few_group(1, a, g / groups, g % groups * VL);
		else few_group(0, a, g / groups, g % groups * VL);
	}
}

static void few(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_task, a, (a->seqs * few_groups(a) + FEW_GROUPS - 1) / FEW_GROUPS);
}

// FewGrads holds the weights [key][query] with which dk and dv sum up rows of q and
// dout.
typedef struct { float s[FEW][FEW], ds[FEW][FEW]; } FewGrads;

// few_head_grad computes the gradients of head i. The arrays by key have room for the
// full vectors that score_grads processes.
INLINED void few_head_grad(const int full, const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = head_queries(&h, a->q), k = head_keys(&h, a->k), v = head_keys(&h, a->v);
	Mat dout = head_queries(&h, a->dout);
	float s[2 * VL + FEW] = {0}, ds[2 * VL + FEW] = {0}, keep[2 * VL + FEW];
	FewGrads by_key = {0};
	for (i64 j = 0; j < h.padded_len; j++) keep[j] = 1;
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = visible_keys(a, r);
		for (i64 j = 0; j < keys; j++) {
			s[j] = row_dot(full, q, r, k, j);
			ds[j] = row_dot(full, dout, r, v, j);
		}
		if (a->p > 0) keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, head_scale(&h), s, ds, keep);
		weighted_sum(full, head_queries(&h, a->dq), r, ds, 1, k, keys);
		for (i64 j = 0; j < keys; j++) {
			by_key.s[j][r] = s[j];
			by_key.ds[j][r] = ds[j];
		}
	}
	for (i64 j = 0; j < h.len; j++) {
		weighted_sum(full, head_keys(&h, a->dk), j, by_key.ds[j], 1, q, h.queries);
		weighted_sum(full, head_keys(&h, a->dv), j, by_key.s[j], 1, dout, h.queries);
	}
}

static void few_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < imin((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) {
		if (a->dim % VL == 0) few_head_grad(1, a, h);
		else few_head_grad(0, a, h);
	}
}

static void few_grad(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_grad_task, a, (a->seqs * a->heads + FEW_HEADS - 1) / FEW_HEADS);
}

// attend runs one of the two implementations, forward or backward. Tasks get up to 8
// heads, to prefetch for one another, as long as there are at least 16 tasks per
// thread.
static int attend(Pool *pool, const AttentionArgs *a, int grad) {
	Head h = head_of(a, 0);
	if (h.len <= FEW) {
		grad ? few_grad(pool, a) : few(pool, a);
		return OK;
	}
	if (pool_reserve(pool, scratch_bytes(&h), 0)) return NO_MEMORY;
	HeadTasks all = {a, a->seqs * a->heads, 1};
	while (all.group < 8 && all.count >= 16 * all.group * pool_threads(pool)) all.group *= 2;
	pool_run(pool, grad ? attention_grad_task : attention_task, &all, (all.count + all.group - 1) / all.group);
	return OK;
}

static int attention(Pool *pool, const void *args) { return attend(pool, args, 0); }
static int attention_grad(Pool *pool, const void *args) { return attend(pool, args, 1); }
