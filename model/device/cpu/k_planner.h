// k_planner.h: what iCEM, MPPI and the gradient planner add to k_search.h.

// Columns of a block are independent series along the blocks, so that lanes are columns.
static void color_row(float *y, const float *x, const float *taps, i64 h, i64 width) {
	for (i64 c = 0; c < width; c += VL) {
		vf mean = vset(0.0f), var = vset(0.0f);
		for (i64 i = 0; i < h; i++) {
			vf sum = vset(0.0f);
			for (i64 j = 0; j < h; j++) sum = vfma(vset(taps[(i - j + h) % h]), vpart(x + j * width, c, width), sum);
			vput(y + i * width, c, width, sum);
			mean += sum;
		}
		mean /= vset((float)h);
		for (i64 i = 0; i < h; i++) {
			vf d = vpart(y + i * width, c, width) - mean;
			var = vfma(d, d, var);
		}
		vf std = vmax(vsqrt(var / vset((float)(h - 1))), vset(1e-8f));
		for (i64 i = 0; i < h; i++) vput(y + i * width, c, width, vpart(y + i * width, c, width) / std);
	}
}

static void color_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], noise = a->in[0], taps = a->in[1];
	for (i64 r = i * ROWS; r < least((i + 1) * ROWS, dst.rows); r++) {
		color_row(dst.p + r * dst.stride, noise.p + r * noise.stride, taps.p, taps.cols, dst.cols / taps.cols);
	}
}

static int color(Pool *pool, const void *args) {
	pool_run(pool, color_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

static void clip_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0];
	const float *low = a->in[0].p, *high = a->in[1].p;
	for (i64 r = i * ROWS; r < least((i + 1) * ROWS, dst.rows); r++) {
		float *x = dst.p + r * dst.stride;
		for (i64 c = 0; c < dst.cols; c += VL) { // NaN in the second operand stays
			vf v = vmax(vpart(low, c, dst.cols), vpart(x, c, dst.cols));
			vput(x, c, dst.cols, vmin(vpart(high, c, dst.cols), v));
		}
	}
}

static int clip(Pool *pool, const void *args) {
	pool_run(pool, clip_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

// alpha is what stays of dst, p the share of x.
EACH(lerp, 1, 1, vfma(vset(a->alpha), old, vset(a->p) * x[0]))

static void softmin_task(const void *args, i64 e, Worker *worker) {
	(void)worker;
	const ChosenArgs *a = args;
	const int32_t *idx = a->idx + e * a->k;
	const float *cost = a->costs.p + e * a->costs.stride;
	float *w = a->weights.p + e * a->weights.stride, lowest = INFINITY, rate = 1 / a->temperature;
	for (i64 i = 0; i < a->k; i++) lowest = cost[idx[i]] < lowest ? cost[idx[i]] : lowest;
	for (i64 i = 0; i < a->k; i++) w[i] = cost[idx[i]] == lowest ? 0 : (lowest - cost[idx[i]]) * rate;
	float sum = 0;
	for (i64 c = 0; c < a->k; c += VL) vput(w, c, a->k, vexp(vpart(w, c, a->k)));
	for (i64 i = 0; i < a->k; i++) sum += w[i];
	for (i64 i = 0; i < a->k; i++) w[i] /= sum;
}

static int softmin(Pool *pool, const void *args) {
	const ChosenArgs *a = args;
	if (!below(a->idx, a->episodes * a->k, a->costs.cols)) return BAD_INDEX;
	pool_run(pool, softmin_task, a, a->episodes);
	return OK;
}

// pick is candidate i of the chosen of episode e.
static inline const float *pick(const ChosenArgs *a, i64 e, i64 i) {
	return a->cand.p + (e * (a->cand.rows / a->episodes) + a->idx[e * a->k + i]) * a->cand.stride;
}

static int on_chosen(Pool *pool, const void *args, Task task) {
	const ChosenArgs *a = args;
	if (!below(a->idx, a->episodes * a->k, a->cand.rows / a->episodes)) return BAD_INDEX;
	pool_run(pool, task, a, a->episodes);
	return OK;
}

static void weighted_mean_task(const void *args, i64 e, Worker *w) {
	(void)w;
	const ChosenArgs *a = args;
	const float *weight = a->weights.p + e * a->weights.stride;
	for (i64 c = 0; c < a->dst.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 i = 0; i < a->k; i++) sum = vfma(vset(weight[i]), vpart(pick(a, e, i), c, a->dst.cols), sum);
		vput(a->dst.p + e * a->dst.stride, c, a->dst.cols, sum);
	}
}

static int weighted_mean(Pool *pool, const void *args) { return on_chosen(pool, args, weighted_mean_task); }

static void gather_task(const void *args, i64 e, Worker *w) {
	(void)w;
	const ChosenArgs *a = args;
	i64 n = a->dst.rows / a->episodes;
	for (i64 i = 0; i < n; i++) memcpy(a->dst.p + (e * n + i) * a->dst.stride, pick(a, e, i), a->dst.cols * 4);
}

static int gather(Pool *pool, const void *args) { return on_chosen(pool, args, gather_task); }
