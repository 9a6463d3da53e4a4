// k_losses.h: the losses of the objectives, and the planners' cost.
//
// - mse: the mean of (pred-target)^2. pred and target are read once; the gradients +-2
//   weight/n (pred-target) are accumulated in the same pass, where given.
// - sum_squares reads each number once.
// - distance: |z_i - z_j|^2 reads two rows and writes one number per pair. Its gradient
//   adds +-2 ddist (z_i - z_j) to both rows of dz.
// - correlation: 1 - corr of two rows.
// - cost: |pred - goal|^2 or its mean. pred is read once, the goal once per candidate.
//
// Flat sums run in fp32 within a row of a chunk, and in double precision over rows and
// chunks.

// Columns of a chunk of a flat sum.
enum { CHUNK = 4096 };

// Chunks divides a flat sum into chunks of ROWS rows by at most CHUNK columns;
// `pieces` is the number of chunks side by side. Chunks are defined on rows and
// columns, not on addresses, so that strided matrices give the same bits as dense
// ones.
typedef struct { const void *args; i64 rows, cols, pieces; double *partial; } Chunks;

// chunks_run runs task for all chunks and adds their partial sums in order.
static int chunks_run(Pool *pool, Chunks *s, Task task, double *total) {
	s->pieces = (s->cols + CHUNK - 1) / CHUNK;
	i64 n = row_tasks(s->rows) * s->pieces;
	*total = 0;
	if (n == 0) return OK;
	if (pool_reserve(pool, 0, n * sizeof(double))) return NO_MEMORY;
	s->partial = pool_shared(pool);
	pool_run(pool, task, s, n);
	for (i64 i = 0; i < n; i++) *total += s->partial[i];
	return OK;
}

// CHUNK_PLACE declares the position of chunk i: rows [r0, r1) and n columns from c
// on.
#define CHUNK_PLACE(s, i) \
	i64 c = (i) % (s)->pieces * CHUNK, n = imin(CHUNK, (s)->cols - c); \
	i64 r0 = (i) / (s)->pieces * ROWS, r1 = imin(r0 + ROWS, (s)->rows)

static void mse_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const Chunks *s = args;
	const MSEArgs *a = s->args;
	CHUNK_PLACE(s, i);
	vf grad = vset((float)(2 * a->weight / ((double)s->rows * (double)s->cols)));
	double total = 0;
	for (i64 r = r0; r < r1; r++) {
		const float *x = a->pred.p + r * a->pred.stride + c, *y = a->target.p + r * a->target.stride + c;
		float *dx = a->dpred.p ? a->dpred.p + r * a->dpred.stride + c : NULL;
		float *dy = a->dtarget.p ? a->dtarget.p + r * a->dtarget.stride + c : NULL;
		vf sum = vset(0.0f);
		for (i64 j = 0; j < n; j += VL) {
			vf d = vpart(x, j, n) - vpart(y, j, n);
			sum = vfma(d, d, sum);
			if (dx) vput(dx, j, n, vfma(grad, d, vpart(dx, j, n)));
			if (dy) vput(dy, j, n, vfma(-grad, d, vpart(dy, j, n)));
		}
		total += vsum(sum);
	}
	s->partial[i] = total;
}

static int mse(Pool *pool, const void *args) {
	const MSEArgs *a = args;
	Chunks s = {.args = a, .rows = a->pred.rows, .cols = a->pred.cols};
	double total;
	if (chunks_run(pool, &s, mse_task, &total)) return NO_MEMORY;
	*a->loss.p = (float)(total / ((double)s.rows * (double)s.cols));
	return OK;
}

static void sum_squares_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const Chunks *s = args;
	const PairArgs *a = s->args;
	CHUNK_PLACE(s, i);
	double total = 0;
	for (i64 r = r0; r < r1; r++) {
		vf sum = vset(0.0f);
		const float *x = a->x.p + r * a->x.stride + c;
		for (i64 j = 0; j < n; j += VL) {
			vf v = vpart(x, j, n);
			sum = vfma(v, v, sum);
		}
		total += vsum(sum);
	}
	s->partial[i] = total;
}

static int sum_squares(Pool *pool, const void *args) {
	const PairArgs *a = args;
	Chunks s = {.args = a, .rows = a->x.rows, .cols = a->x.cols};
	double total;
	if (chunks_run(pool, &s, sum_squares_task, &total)) return NO_MEMORY;
	*a->dst.p = (float)total;
	return OK;
}

static void distance_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const DistanceArgs *a = args;
	for (i64 k = i * ROWS; k < imin((i + 1) * ROWS, a->count); k++) {
		const float *x = a->z.p + a->pairs[k] * a->z.stride;
		const float *y = a->z.p + a->pairs[a->count + k] * a->z.stride;
		vf sum = vset(0.0f);
		for (i64 c = 0; c < a->z.cols; c += VL) {
			vf d = vpart(x, c, a->z.cols) - vpart(y, c, a->z.cols);
			sum = vfma(d, d, sum);
		}
		a->dst.p[k] = vsum(sum);
	}
}

// bad_pairs reports whether an index is out of range.
static int bad_pairs(const DistanceArgs *a) {
	for (i64 k = 0; k < 2 * a->count; k++) {
		if (a->pairs[k] < 0 || a->pairs[k] >= a->z.rows) return 1;
	}
	return 0;
}

static int distance(Pool *pool, const void *args) {
	const DistanceArgs *a = args;
	if (bad_pairs(a)) return BAD_INDEX;
	pool_run(pool, distance_task, a, row_tasks(a->count));
	return OK;
}

// distance_grad_task processes all pairs for one vector of columns. A row occurs in
// many pairs, and this way its additions have a fixed order without locks.
static void distance_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const DistanceArgs *a = args;
	i64 cols = a->z.cols, c = i * VL;
	for (i64 k = 0; k < a->count; k++) {
		i64 p = a->pairs[k], q = a->pairs[a->count + k];
		vf d = vpart(a->z.p + p * a->z.stride, c, cols) - vpart(a->z.p + q * a->z.stride, c, cols);
		vf g = vset(2 * a->ddist.p[k]) * d;
		float *dp = a->dst.p + p * a->dst.stride, *dq = a->dst.p + q * a->dst.stride;
		vput(dp, c, cols, vpart(dp, c, cols) + g);
		vput(dq, c, cols, vpart(dq, c, cols) - g);
	}
}

static int distance_grad(Pool *pool, const void *args) {
	const DistanceArgs *a = args;
	if (bad_pairs(a)) return BAD_INDEX;
	pool_run(pool, distance_grad_task, a, (a->z.cols + VL - 1) / VL);
	return OK;
}

// deviation computes the mean and the standard deviation of x.
static void deviation(const float *x, i64 n, double divisor, double *mean, double *dev) {
	double sum = 0, squares = 0;
	for (i64 i = 0; i < n; i++) sum += x[i];
	*mean = sum / (double)n;
	for (i64 i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
	*dev = sqrt(squares / divisor);
}

// correlation takes a few thousand numbers: one thread computes it in double
// precision. See device.Correlation for the two forms and the guard.
static int correlation(Pool *pool, const void *args) {
	(void)pool;
	const CorrelationArgs *a = args;
	const float *x = a->x.p, *y = a->y.p;
	float *dx = a->dx.p, *result = a->result.p;
	i64 n = a->x.cols;
	const double guard = 1e-6;
	double divisor = (double)(a->paper ? n : n - 1), eps = guard, mx, my, dev, dev_y, sum = 0;
	deviation(x, n, divisor, &mx, &dev);
	deviation(y, n, divisor, &my, &dev_y);
	result[0] = 0;
	result[1] = dev < guard || dev_y < guard;
	if (dx) memset(dx, 0, n * sizeof(float));
	if (result[1]) return OK;
	double sx = dev + eps, sy = dev_y + eps;
	for (i64 i = 0; i < n; i++) sum += (x[i] - mx) * (y[i] - my);
	double corr = sum / (sx * sy) / (double)n;
	result[0] = (float)(1 - corr);
	for (i64 i = 0; dx && i < n; i++) {
		double g = (y[i] - my) / ((double)n * sx * sy) - corr / sx * (x[i] - mx) / (divisor * dev);
		dx[i] = (float)(-a->weight * g);
	}
	return OK;
}

// cost_task computes one candidate of one episode.
static void cost_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const CostArgs *a = args;
	i64 patches = a->goal.rows / a->dst.rows, episode = i / a->dst.cols, cols = a->pred.cols;
	vf sum = vset(0.0f);
	for (i64 p = 0; p < patches; p++) {
		const float *x = a->pred.p + (i * patches + p) * a->pred.stride;
		const float *y = a->goal.p + (episode * patches + p) * a->goal.stride;
		for (i64 c = 0; c < cols; c += VL) {
			vf d = vpart(x, c, cols) - vpart(y, c, cols);
			sum = vfma(d, d, sum);
		}
	}
	float total = vsum(sum);
	if (a->mean) total /= (float)(patches * cols);
	a->dst.p[episode * a->dst.stride + i % a->dst.cols] = total;
}

static int cost(Pool *pool, const void *args) {
	const CostArgs *a = args;
	pool_run(pool, cost_task, a, a->dst.rows * a->dst.cols);
	return OK;
}
