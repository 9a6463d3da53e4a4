// k_search.h: kernels of the optimiser and of the planners, and the conversion of
// frames to patches.
//
// - adamw: m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, p = (1 - lr decay) p - lr/c1 m /
//   (sqrt(v/c2) + eps), with g clipped to max_norm and c1, c2 Adam's bias corrections.
//   It reads four floats and writes three per parameter.
// - normal: z = sqrt(-2 log u1) (cos and sin)(2 pi u2). It writes one float and reads
//   nothing.
// - candidates: mean + std z.
// - smallest: the k lowest costs by insertion; reads each cost once.
// - moments: mean and standard deviation (divisor k-1) of the chosen candidates, which
//   it reads twice; weighted_mean and gather read them once.
// - softmin: w = exp((lowest - cost)/temperature) / sum.
// - color: a circular filter over the horizon, then division by the standard deviation.
//   A row of noise stays in the L1 cache.
// - patches: byte*scale + shift for each channel; reads each byte and writes each
//   number once.
//
// A task is one episode or some rows.

// adamw_task updates SPAN parameters. Scalars are computed in double precision and
// rounded once.
static void adamw_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const AdamArgs *a = args;
	double norm = sqrt((double)*a->sumsq.p);
	vf clip = vset(a->max_norm > 0 && a->max_norm < norm + 1e-6 ? (float)(a->max_norm / (norm + 1e-6)) : 1.0f);
	if (isnan(norm) && a->max_norm > 0) clip = vset(NAN); // min(1, NaN) is NaN in PyTorch
	vf keep = vset((float)(1 - a->lr * a->decay)), b1 = vset((float)a->beta1), b2 = vset((float)a->beta2);
	vf n1 = vset((float)(1 - a->beta1)), n2 = vset((float)(1 - a->beta2));
	vf rate = vset((float)(a->lr / a->correct1)), root = vset((float)(1 / sqrt(a->correct2)));
	vf eps = vset((float)a->eps);
	i64 end = imin((i + 1) * SPAN, a->p.cols);
	for (i64 c = i * SPAN; c < end; c += VL) {
		vf g = vpart(a->g.p, c, end) * clip;
		vf m = vfma(b1, vpart(a->m.p, c, end), n1 * g);
		vf v = vfma(b2, vpart(a->v.p, c, end), n2 * g * g);
		vf p = vpart(a->p.p, c, end) * keep;
		vput(a->m.p, c, end, m);
		vput(a->v.p, c, end, v);
		vput(a->p.p, c, end, p - rate * m / (vsqrt(v) * root + eps));
	}
}

static int adamw(Pool *pool, const void *args) {
	pool_run(pool, adamw_task, args, (((const AdamArgs *)args)->p.cols + SPAN - 1) / SPAN);
	return OK;
}

// normal_pair turns two vectors of random words into standard normal numbers by the
// Box-Muller transform, as rng.Normal does: the cosine gives the even number, the sine
// the odd one.
//
// The uniform u = (n + 0.5) 2^-24 has 25 bits, one more than a float. u and 1 - u are
// exact only below one half. Therefore log(u) is computed from u below 0.75, and as
// log1p(-(1-u)) above, where rounding u would cost most of the logarithm's bits.
static inline void normal_pair(vu x, vu y, vf *even, vf *odd) {
	vf n = __builtin_convertvector((vi)(x >> 8), vf);
	vf low = (n + vset(0.5f)) * vset(0x1p-24f), in_range = (vset(16777215.0f) - n + vset(0.5f)) * vset(0x1p-24f);
	vf f;
	vi e = vsplit(low, &f);
	vf l = vless(low, vset(0.75f), vlog_core(e, f), vlog_core(viset(0), -in_range));
	vf r = vsqrt(vset(-2.0f) * l), s, c;
	// The angle in units of 2^-24 turns. Its nearest quarter turn is subtracted in
	// integers, so that the argument reduction is exact. 3.745e-7 is 2 pi / 2^24.
	vi w = (vi)(y >> 8), q = (w + (1 << 21)) >> 22;
	vf a = __builtin_convertvector(w - (q << 22), vf) + vset(0.5f);
	vsincos_reduced(a * vset(3.74507039e-7f), q, &s, &c);
	*even = r * c;
	*odd = r * s;
}

// normal_words is the Stream of standard normal numbers. It has no parameter.
static inline void normal_words(uint64_t key, uint64_t block, float p, float *dst) {
	(void)p;
	vu x[4];
	vf z[4];
	vphilox(key, block, x);
	normal_pair(x[0], x[1], &z[0], &z[1]);
	normal_pair(x[2], x[3], &z[2], &z[3]);
	vinterleave4(z);
	for (int w = 0; w < 4; w++) vstore(dst + w * VL, z[w]);
}

static void normal_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const NormalArgs *a = args;
	i64 rows = a->dst.rows / a->groups;
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, a->dst.rows); r++) {
		uint64_t first = a->offset + (uint64_t)(r % rows * a->dst.cols);
		stream(normal_words, a->dst.p + r * a->dst.stride, a->dst.cols, 0, a->keys[r / rows], first);
	}
}

static int normal(Pool *pool, const void *args) {
	pool_run(pool, normal_task, args, row_tasks(((const NormalArgs *)args)->dst.rows));
	return OK;
}

// Candidate 0 of each episode is the mean itself.
static void candidates_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], mean = a->in[0], std = a->in[1], noise = a->in[2];
	i64 count = dst.rows / mean.rows, cols = dst.cols;
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, dst.rows); r++) {
		const float *mu = mean.p + r / count * mean.stride, *sd = std.p + r / count * std.stride;
		const float *z = noise.p + r * noise.stride;
		for (i64 c = 0; c < cols; c += VL) {
			vf v = vpart(mu, c, cols);
			if (r % count) v = vfma(vpart(sd, c, cols), vpart(z, c, cols), v);
			vput(dst.p + r * dst.stride, c, cols, v);
		}
	}
}

static int candidates(Pool *pool, const void *args) {
	pool_run(pool, candidates_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

static void nan_to_inf_task(const void *args, i64 r, Worker *w) {
	(void)w;
	const PairArgs *a = args; // dst: the counts
	float *x = a->x.p + r * a->x.stride, *count = a->dst.p + r * a->dst.stride;
	for (i64 c = 0; c < a->x.cols; c++) {
		if (x[c] < INFINITY) continue;
		x[c] = INFINITY;
		*count += 1;
	}
}

static int nan_to_inf(Pool *pool, const void *args) {
	pool_run(pool, nan_to_inf_task, args, ((const PairArgs *)args)->x.rows);
	return OK;
}

// better orders costs: NaN comes after every number. It is false for equal costs, so
// that ties stay in the order of their indices.
static inline int better(float a, float b) { return a < b || (isnan(b) && !isnan(a)); }

// smallest_task keeps the k best costs seen so far in order, and inserts each cost
// that is better than the last of them. Of costs in random order most fail this test,
// which takes one comparison.
static void smallest_task(const void *args, i64 e, Worker *w) {
	(void)w;
	const EliteArgs *a = args;
	const float *cost = a->cand.p + e * a->cand.stride;
	int32_t *best = a->idx + e * a->k;
	i64 n = 0;
	for (i64 c = 0; c < a->cand.cols; c++) {
		if (n == a->k && !better(cost[c], cost[best[n - 1]])) continue;
		i64 at = n < a->k ? n++ : n - 1;
		for (; at > 0 && better(cost[c], cost[best[at - 1]]); at--) best[at] = best[at - 1];
		best[at] = (int32_t)c;
	}
}

static int smallest(Pool *pool, const void *args) {
	pool_run(pool, smallest_task, args, ((const EliteArgs *)args)->cand.rows);
	return OK;
}

// in_range reports whether n indices are in [0, count).
static int in_range(const int32_t *idx, i64 n, i64 count) {
	for (i64 i = 0; i < n; i++) {
		if (idx[i] < 0 || idx[i] >= count) return 0;
	}
	return 1;
}

// moments_task computes the mean first and the variance about it in a second pass.
static void moments_task(const void *args, i64 e, Worker *w) {
	(void)w;
	const EliteArgs *a = args;
	i64 count = a->cand.rows / a->mean.rows, cols = a->mean.cols;
	const int32_t *chosen = a->idx + e * a->k;
	const float *base = a->cand.p + e * count * a->cand.stride;
	for (i64 c = 0; c < cols; c += VL) {
		vf mean = vset(0.0f), var = vset(0.0f);
		for (i64 k = 0; k < a->k; k++) mean += vpart(base + chosen[k] * a->cand.stride, c, cols);
		mean /= vset((float)a->k);
		vput(a->mean.p + e * a->mean.stride, c, cols, mean);
		if (!a->std.p) continue;
		for (i64 k = 0; k < a->k; k++) {
			vf d = vpart(base + chosen[k] * a->cand.stride, c, cols) - mean;
			var = vfma(d, d, var);
		}
		vput(a->std.p + e * a->std.stride, c, cols, vsqrt(var / vset((float)(a->k - 1))));
	}
}

static int moments(Pool *pool, const void *args) {
	const EliteArgs *a = args;
	if (!in_range(a->idx, a->mean.rows * a->k, a->cand.rows / a->mean.rows)) return BAD_INDEX;
	pool_run(pool, moments_task, a, a->mean.rows);
	return OK;
}

// patches_task writes one patch. A bf16 row is computed as fp32 in scratch first.
static void patches_task(const void *args, i64 r, Worker *w) {
	const PatchArgs *a = args;
	i64 side = a->size / a->patch, grid = side * side, area = a->patch * a->patch, frame = a->list ? a->list[r / grid] : r / grid;
	const uint8_t *px = a->px + ((frame * a->size + r % grid / side * a->patch) * a->size + r % side * a->patch) * 3;
	float *out = a->dst.bf16 ? (float *)w->scratch : a->dst.p + r * a->dst.stride;
	for (i64 y = 0; y < a->patch; y++, px += a->size * 3) {
		for (i64 x = 0; x < a->patch; x++) {
			for (i64 ch = 0; ch < 3; ch++) {
				out[ch * area + y * a->patch + x] = (float)px[x * 3 + ch] * a->scale[ch] + a->shift[ch];
			}
		}
	}
	if (!a->dst.bf16) return;
	Mat row = {out, 1, a->dst.cols, a->dst.cols, 0};
	for (i64 c = 0; c < row.cols; c += VL) mstore(a->dst, r, c, mload(row, 0, c));
}

static int patches(Pool *pool, const void *args) {
	const PatchArgs *a = args;
	i64 side = a->size / a->patch;
	if (a->list && !in_range(a->list, a->dst.rows / (side * side), a->frames)) return BAD_INDEX;
	if (a->dst.bf16 && pool_reserve(pool, a->dst.cols * sizeof(float), 0)) return NO_MEMORY;
	pool_run(pool, patches_task, a, a->dst.rows);
	return OK;
}

// --- iCEM and MPPI ---------------------------------------------------------

// color_row filters one row. Columns of a block are independent series along the
// blocks, so each lane is one column.
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
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, dst.rows); r++) {
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
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, dst.rows); r++) {
		float *x = dst.p + r * dst.stride;
		// max and min return the second operand if either is NaN, so NaN passes through.
		for (i64 c = 0; c < dst.cols; c += VL) {
			vf v = vmax(vpart(low, c, dst.cols), vpart(x, c, dst.cols));
			vput(x, c, dst.cols, vmin(vpart(high, c, dst.cols), v));
		}
	}
}

static int clip(Pool *pool, const void *args) {
	pool_run(pool, clip_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

// alpha is the weight of dst, p that of x.
EACH(lerp, 1, 1, vfma(vset(a->alpha), old, vset(a->p) * x[0]))

// softmin_task computes the weights of one episode. A cost equal to the lowest gets
// exponent 0 by comparison: if both are infinite, their difference is NaN.
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
	if (!in_range(a->idx, a->episodes * a->k, a->costs.cols)) return BAD_INDEX;
	pool_run(pool, softmin_task, a, a->episodes);
	return OK;
}

// pick returns the i-th chosen candidate of episode e.
static inline const float *pick(const ChosenArgs *a, i64 e, i64 i) {
	return a->cand.p + (e * (a->cand.rows / a->episodes) + a->idx[e * a->k + i]) * a->cand.stride;
}

// run_on_chosen checks the indices of the chosen candidates and runs a task per
// episode.
static int run_on_chosen(Pool *pool, const void *args, Task task) {
	const ChosenArgs *a = args;
	if (!in_range(a->idx, a->episodes * a->k, a->cand.rows / a->episodes)) return BAD_INDEX;
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

static int weighted_mean(Pool *pool, const void *args) { return run_on_chosen(pool, args, weighted_mean_task); }

static void gather_task(const void *args, i64 e, Worker *w) {
	(void)w;
	const ChosenArgs *a = args;
	i64 n = a->dst.rows / a->episodes;
	for (i64 i = 0; i < n; i++) memcpy(a->dst.p + (e * n + i) * a->dst.stride, pick(a, e, i), a->dst.cols * 4);
}

static int gather(Pool *pool, const void *args) { return run_on_chosen(pool, args, gather_task); }
