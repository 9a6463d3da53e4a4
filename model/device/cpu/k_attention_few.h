// k_attention_few.h: attention over a handful of tokens (the predictor's history):
// packing factors would cost more than it saves, so scores are dot products.

enum { FEW = 8, FEW_HEADS = 8 }; // heads of a task

static i64 few_tasks(const AttentionArgs *a) { return (a->seqs * a->heads + FEW_HEADS - 1) / FEW_HEADS; }

// weigh writes the sum of w[j] * row j of m to row r of dst.
static void weigh(Mat dst, i64 r, const float *w, Mat m, i64 rows) {
	for (i64 c = 0; c < m.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 j = 0; j < rows; j++) sum = vfma(vset(w[j]), mload(m, j, c), sum);
		mstore(dst, r, c, sum);
	}
}

static void few_head(const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = of_queries(&h, a->q), k = of_keys(&h, a->k), v = of_keys(&h, a->v), out = of_queries(&h, a->out);
	float s[2 * VL + FEW], keep[FEW];
	for (i64 r = 0; r < h.asking; r++) {
		i64 keys = keys_of(a, r);
		for (i64 j = 0; j < keys; j++) s[j] = row_dot(q, r, k, j);
		float lse = softmax(s, keys, h.wide, head_scale(&h));
		if (a->lse.p) *lse_at(&h, r) = lse;
		if (a->p > 0) {
			keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
			for (i64 j = 0; j < keys; j++) s[j] *= keep[j];
		}
		weigh(out, r, s, v, keys);
	}
}

static void few_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) few_head(a, h);
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
	for (i64 r = 0; r < h.asking; r++) {
		i64 keys = keys_of(a, r);
		for (i64 j = 0; j < keys; j++) {
			s[j] = row_dot(q, r, k, j);
			ds[j] = row_dot(dout, r, v, j);
		}
		if (a->p > 0) keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, s, ds, keep, row_dot(dout, r, out, r));
		weigh(of_queries(&h, a->dq), r, ds, k, keys);
		for (i64 j = 0; j < keys; j++) {
			by_key.s[j][r] = s[j];
			by_key.ds[j][r] = ds[j];
		}
	}
	for (i64 j = 0; j < h.len; j++) {
		weigh(of_keys(&h, a->dk), j, by_key.ds[j], q, h.asking);
		weigh(of_keys(&h, a->dv), j, by_key.s[j], dout, h.asking);
	}
}

static void few_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) few_head_grad(a, h);
}
