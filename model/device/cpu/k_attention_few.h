// k_attention_few.h: attention over a handful of tokens (the predictor's history):
// packing factors would cost more than it saves, so scores are dot products.

enum { FEW = 8, FEW_HEADS = 8 }; // heads of a task

static i64 few_tasks(const AttentionArgs *a) { return (a->seqs * a->heads + FEW_HEADS - 1) / FEW_HEADS; }

static inline float *token(Mat m, i64 t) { return m.p + t * m.stride; }

// weigh writes the sum of w[j] * row j of m.
static void weigh(float *dst, const float *w, Mat m, i64 rows) {
	for (i64 c = 0; c < m.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 j = 0; j < rows; j++) sum = vfma(vset(w[j]), vpart(token(m, j), c, m.cols), sum);
		vput(dst, c, m.cols, sum);
	}
}

static void add_scaled(float *dst, float w, const float *x, i64 cols) {
	for (i64 c = 0; c < cols; c += VL) vput(dst, c, cols, vfma(vset(w), vpart(x, c, cols), vpart(dst, c, cols)));
}

static void few_head(const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = of_head(&h, a->q), k = of_head(&h, a->k), v = of_head(&h, a->v), out = of_head(&h, a->out);
	float s[2 * VL + FEW], keep[FEW];
	for (i64 r = 0; r < h.len; r++) {
		i64 keys = keys_of(a, r);
		for (i64 j = 0; j < keys; j++) s[j] = row_dot(token(q, r), token(k, j), h.dim);
		float lse = softmax(s, keys, h.wide, head_scale(&h));
		if (a->lse.p) a->lse.p[i * a->lse.stride + r] = lse;
		if (a->p > 0) {
			keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
			for (i64 j = 0; j < keys; j++) s[j] *= keep[j];
		}
		weigh(token(out, r), s, v, keys);
	}
}

static void few_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) few_head(a, h);
}

static void few_head_grad(const AttentionArgs *a, i64 i) {
	Head h = head_of(a, i);
	Mat q = of_head(&h, a->q), k = of_head(&h, a->k), v = of_head(&h, a->v);
	Mat out = of_head(&h, a->out), dout = of_head(&h, a->dout);
	Mat dq = of_head(&h, a->dq), dk = of_head(&h, a->dk), dv = of_head(&h, a->dv);
	float s[2 * VL + FEW] = {0}, ds[2 * VL + FEW] = {0}, keep[2 * VL + FEW];
	for (i64 j = 0; j < h.len; j++) {
		memset(token(dk, j), 0, h.dim * sizeof(float));
		memset(token(dv, j), 0, h.dim * sizeof(float));
	}
	for (i64 j = 0; j < h.wide; j++) keep[j] = 1;
	for (i64 r = 0; r < h.len; r++) {
		i64 keys = keys_of(a, r);
		const float *grad = token(dout, r);
		for (i64 j = 0; j < keys; j++) {
			s[j] = row_dot(token(q, r), token(k, j), h.dim);
			ds[j] = row_dot(grad, token(v, j), h.dim);
		}
		if (a->p > 0) keep_factors(keep, h.len, a->p, a->key, drop_index(&h, r));
		score_grads(&h, r, s, ds, keep, row_dot(grad, token(out, r), h.dim));
		weigh(token(dq, r), ds, k, keys);
		for (i64 j = 0; j < keys; j++) {
			add_scaled(token(dk, j), ds[j], token(q, r), h.dim);
			add_scaled(token(dv, j), s[j], grad, h.dim);
		}
	}
}

static void few_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AttentionArgs *a = args;
	for (i64 h = i * FEW_HEADS; h < least((i + 1) * FEW_HEADS, a->seqs * a->heads); h++) few_head_grad(a, h);
}
