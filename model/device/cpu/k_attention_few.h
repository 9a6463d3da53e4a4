// k_attention_few.h: attention over a handful of tokens (the predictor's history):
// packing factors would cost more than it saves, so scores are dot products.

// All heads of a sequence are scored together, a head a lane.

enum { FEW = 8, FEW_GROUPS = 2, FEW_HEADS = 8 }; // groups of VL heads of a task; heads of a backward one

static i64 few_groups(const AttentionArgs *a) { return (a->heads + VL - 1) / VL; }

// weigh writes the sum of w[j*apart] * row j of m to row r of dst.
static inline void weigh(Mat dst, i64 r, const float *w, i64 apart, Mat m, i64 rows) {
	for (i64 c = 0; c < m.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 j = 0; j < rows; j++) sum = vfma(vset(w[j * apart]), mload(m, j, c), sum);
		mstore(dst, r, c, sum);
	}
}

// beside is what the head i places further has.
static inline Mat beside(Mat m, i64 i) {
	m.p = mat_at(m, 0, i * m.cols);
	return m;
}

// few_scores is q of row r times k of row j of n heads, from m's on.
static inline vf few_scores(Mat q, i64 r, Mat k, i64 j, i64 n) {
	vf t[VL];
	for (i64 i = 0; i < VL; i++) t[i] = vset(0.0f);
	for (i64 i = 0; i < n; i++) {
		Mat qi = beside(q, i), ki = beside(k, i);
		for (i64 c = 0; c < q.cols; c += VL) t[i] = vfma(mload(qi, r, c), mload(ki, j, c), t[i]);
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

static void few_group(const AttentionArgs *a, i64 seq, i64 first) {
	Head h = head_of(a, seq * a->heads + first);
	Mat q = of_queries(&h, a->q), k = of_keys(&h, a->k), v = of_keys(&h, a->v), out = of_queries(&h, a->out);
	i64 n = least(VL, a->heads - first);
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = keys_of(a, r);
		vf s[FEW];
		float w[FEW * VL];
		for (i64 j = 0; j < keys; j++) s[j] = few_scores(q, r, k, j, n);
		few_softmax(&h, r, n, s);
		for (i64 j = 0; j < keys; j++) vstore(w + j * VL, s[j]);
		for (i64 i = 0; i < n; i++) weigh(beside(out, i), r, w + i, VL, beside(v, i), keys);
	}
}

static void few_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	i64 groups = few_groups(a), end = least((i + 1) * FEW_GROUPS, a->seqs * groups);
	for (i64 g = i * FEW_GROUPS; g < end; g++) few_group(a, g / groups, g % groups * VL);
}

static void few(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_task, a, (a->seqs * few_groups(a) + FEW_GROUPS - 1) / FEW_GROUPS);
}

// The weights of all keys for each query, as columns: what dk and dv sum up.
typedef struct { float s[FEW][FEW], ds[FEW][FEW]; } FewGrads;

static void few_head_grad(const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = of_queries(&h, a->q), k = of_keys(&h, a->k), v = of_keys(&h, a->v);
	Mat out = of_queries(&h, a->out), dout = of_queries(&h, a->dout);
	float s[2 * VL + FEW] = {0}, ds[2 * VL + FEW] = {0}, keep[2 * VL + FEW];
	FewGrads by_key = {0};
	for (i64 j = 0; j < h.wide; j++) keep[j] = 1;
	for (i64 r = 0; r < h.queries; r++) {
		i64 keys = keys_of(a, r);
		for (i64 j = 0; j < keys; j++) {
			s[j] = row_dot(q, r, k, j);
			ds[j] = row_dot(dout, r, v, j);
		}
		if (a->p > 0) keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, s, ds, keep, row_dot(dout, r, out, r));
		weigh(of_queries(&h, a->dq), r, ds, 1, k, keys);
		for (i64 j = 0; j < keys; j++) {
			by_key.s[j][r] = s[j];
			by_key.ds[j][r] = ds[j];
		}
	}
	for (i64 j = 0; j < h.len; j++) {
		weigh(of_keys(&h, a->dk), j, by_key.ds[j], 1, q, h.queries);
		weigh(of_keys(&h, a->dv), j, by_key.s[j], 1, dout, h.queries);
	}
}

static void few_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) few_head_grad(a, h);
}

static void few_grad(Pool *pool, const AttentionArgs *a) {
	pool_run(pool, few_grad_task, a, (a->seqs * a->heads + FEW_HEADS - 1) / FEW_HEADS);
}
