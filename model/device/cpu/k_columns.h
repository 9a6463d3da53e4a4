// k_columns.h: sums over rows (sum_table), and BatchNorm and column norms, which are
// built on such sums.
//
// A column is summed in chunks of rows, each in ascending order, and the chunks are
// added in order. There are at most COLUMN_CHUNKS of them, a function of the number
// of rows only, so that the bits do not depend on threads.
//
// One task of BatchNorm computes a stripe of four vectors of columns, from statistics
// to output: y = gamma (x - mean) / sqrt(variance + eps) + beta. Its gradient is dx =
// gamma rstd (dy - mean(dy) - xhat mean(dy xhat)), with means over the rows.
//
// Memory traffic: sum_table reads src once and writes one row of partial sums per
// chunk. BatchNorm reads x three times in training (mean, variance, output) and once
// in evaluation; its gradient reads dy three times and xhat twice; normalize_columns
// reads x twice. Each writes its outputs once. A stripe's sums stay in registers.

// Largest number of chunks, and columns of a task.
enum { COLUMN_CHUNKS = 64, STRIPE = 4 * VL };

// stripes returns the number of stripes of a matrix.
static inline i64 stripes(i64 cols) { return (cols + STRIPE - 1) / STRIPE; }

// chunk_rows returns the length of a chunk of n rows: at least 16, to amortise a
// chunk's partial sums.
static inline i64 chunk_rows(i64 n) {
	i64 rows = (n + COLUMN_CHUNKS - 1) / COLUMN_CHUNKS;
	return rows < 16 ? 16 : rows;
}

static inline i64 chunks_of(i64 n) { return (n + chunk_rows(n) - 1) / chunk_rows(n); }

// TableSums is a SumTable of `blocks` blocks of table.rows rows, in chunks of `chunk`
// blocks. Its partial sums are partial[chunk][row of table][column].
typedef struct { const TableArgs *a; float *partial; i64 blocks, chunk; } TableSums;

// sum_chunk writes the sum of rows t*step + p of src to out, for blocks t in [t0,
// t1). The last block may be incomplete.
static void sum_chunk(Mat src, i64 p, i64 step, i64 t0, i64 t1, float *out) {
	memset(out, 0, src.cols * 4);
	for (i64 t = t0; t < t1; t++) {
		if (t * step + p >= src.rows) return;
		for (i64 c = 0; c < src.cols; c += VL) {
			vput(out, c, src.cols, vpart(out, c, src.cols) + mload(src, t * step + p, c));
		}
	}
}

static void sum_table_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const TableSums *s = args;
	i64 rows = s->a->table.rows, chunk = i / rows, p = i % rows;
	sum_chunk(s->a->src, p, rows, chunk * s->chunk, (chunk + 1) * s->chunk, s->partial + i * s->a->src.cols);
}

// add_chunks_task adds, for one stripe of one row of the table, the chunks to the
// table, in order.
static void add_chunks_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const TableSums *s = args;
	Mat table = s->a->table;
	i64 p = i % table.rows, c = i / table.rows * STRIPE, n = imin(STRIPE, table.cols - c);
	float sum[STRIPE] = {0};
	for (i64 k = 0; k < chunks_of(s->blocks); k++) {
		const float *in = s->partial + (k * table.rows + p) * table.cols + c;
		for (i64 j = 0; j < n; j++) sum[j] += in[j];
	}
	float *out = table.p + p * table.stride + c;
	for (i64 j = 0; j < n; j++) out[j] += sum[j];
}

static int sum_table(Pool *pool, const void *args) {
	const TableArgs *a = args;
	TableSums s = {.a = a, .blocks = (a->src.rows + a->table.rows - 1) / a->table.rows};
	if (s.blocks == 0) return OK;
	s.chunk = chunk_rows(s.blocks);
	i64 parts = chunks_of(s.blocks) * a->table.rows;
	if (pool_reserve(pool, 0, parts * a->src.cols * sizeof(float))) return NO_MEMORY;
	s.partial = pool_shared(pool);
	pool_run(pool, sum_table_task, &s, parts);
	pool_run(pool, add_chunks_task, &s, a->table.rows * stripes(a->src.cols));
	return OK;
}

// A Term returns the terms of row r for the m <= VL columns from c + j on.
typedef vf (*Term)(const void *args, i64 r, i64 c, i64 j, i64 m);

// column_sums sums the terms f over all rows, for the n <= STRIPE columns at c. A chunk
// is summed in fp32, and chunks are added in double precision, which bounds the
// rounding error of long columns. Four independent sums hide the latency of additions.
INLINED void column_sums(const void *args, i64 rows, i64 c, i64 n, Term f,
	double *total) {
	for (i64 j = 0; j < n; j++) total[j] = 0;
	for (i64 r = 0, chunk = chunk_rows(rows); r < rows; r += chunk) {
		float sums[STRIPE];
		i64 end = imin(r + chunk, rows);
		if (n == STRIPE) {
			vf s0 = vset(0.0f), s1 = s0, s2 = s0, s3 = s0;
			for (i64 k = r; k < end; k++) {
				s0 += f(args, k, c, 0, VL);
				s1 += f(args, k, c, VL, VL);
				s2 += f(args, k, c, 2 * VL, VL);
				s3 += f(args, k, c, 3 * VL, VL);
			}
			vstore(sums, s0);
			vstore(sums + VL, s1);
			vstore(sums + 2 * VL, s2);
			vstore(sums + 3 * VL, s3);
		}
		for (i64 j = 0; n < STRIPE && j < n; j += VL) {
			vf s = vset(0.0f);
			for (i64 k = r; k < end; k++) s += f(args, k, c, j, imin(VL, n - j));
			vstore(sums + j, s);
		}
		for (i64 j = 0; j < n; j++) total[j] += sums[j];
	}
}

// vec_at returns the n numbers of m at (r, c+j), and zeros.
static inline vf vec_at(Mat m, i64 r, i64 c, i64 j, i64 n) { return vpart(m.p + r * m.stride + c + j, 0, n); }

static inline vf square_term(const void *args, i64 r, i64 c, i64 j, i64 m) {
	vf x = vec_at(*(const Mat *)args, r, c, j, m);
	return x * x;
}

// normalize_columns_task divides a stripe of columns by their L2 norms.
static void normalize_columns_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const PairArgs *a = args;
	i64 c = i * STRIPE, n = imin(STRIPE, a->x.cols - c);
	double total[STRIPE];
	float scale[STRIPE];
	column_sums(&a->x, a->x.rows, c, n, square_term, total);
	for (i64 j = 0; j < n; j++) scale[j] = (float)(1 / sqrt(total[j]));
	for (i64 r = 0; r < a->x.rows; r++) {
		const float *in = a->x.p + r * a->x.stride + c;
		float *out = a->dst.p + r * a->dst.stride + c;
		for (i64 j = 0; j < n; j++) out[j] = in[j] * scale[j];
	}
}

static int normalize_columns(Pool *pool, const void *args) {
	pool_run(pool, normalize_columns_task, args, stripes(((const PairArgs *)args)->x.cols));
	return OK;
}


static inline vf sum_term(const void *args, i64 r, i64 c, i64 j, i64 m) {
	return vec_at(*(const Mat *)args, r, c, j, m);
}

// Centred is the argument of centred_term, the squares of x - mean. The variance is
// computed in a second pass about the mean: E[x^2] - mean^2 would cancel.
typedef struct { Mat x; float mean[STRIPE]; } Centred;

static inline vf centred_term(const void *args, i64 r, i64 c, i64 j, i64 m) {
	const Centred *a = args;
	vf d = vec_at(a->x, r, c, j, m) - vload(a->mean + j);
	return d * d;
}

// batchnorm_task computes statistics, running statistics and output of a stripe.
static void batchnorm_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const BatchArgs *a = args;
	i64 c = i * STRIPE, n = imin(STRIPE, a->x.cols - c), rows = a->x.rows;
	double mean[STRIPE], var[STRIPE];
	float inv[STRIPE];
	Centred m = {.x = a->x};
	column_sums(&a->x, rows, c, n, sum_term, mean);
	for (i64 j = 0; j < n; j++) m.mean[j] = (float)(mean[j] /= (double)rows);
	column_sums(&m, rows, c, n, centred_term, var);
	float *rm = a->mean.p + c, *rv = a->var.p + c;
	for (i64 j = 0; j < n; j++) {
		inv[j] = (float)(1 / sqrt(var[j] / (double)rows + a->eps));
		if (a->rstd.p) a->rstd.p[c + j] = inv[j];
		rm[j] = (float)((1 - a->momentum) * rm[j] + a->momentum * mean[j]);
		rv[j] = (float)((1 - a->momentum) * rv[j] + a->momentum * var[j] / (double)(rows - 1));
	}
	const float *gamma = a->gamma.p + c, *beta = a->beta.p + c;
	for (i64 r = 0; r < rows; r++) {
		const float *in = a->x.p + r * a->x.stride + c;
		float *y = a->y.p + r * a->y.stride + c, h[STRIPE];
		for (i64 j = 0; j < n; j++) h[j] = (in[j] - m.mean[j]) * inv[j];
		if (a->xhat.p) memcpy(a->xhat.p + r * a->xhat.stride + c, h, n * 4);
		for (i64 j = 0; j < n; j++) y[j] = h[j] * gamma[j] + beta[j];
	}
}

static int batchnorm(Pool *pool, const void *args) {
	pool_run(pool, batchnorm_task, args, stripes(((const BatchArgs *)args)->x.cols));
	return OK;
}

// batchnorm_eval_task folds the running statistics and gamma into one factor for each
// column.
static void batchnorm_eval_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const BatchArgs *a = args;
	i64 c = i * STRIPE, n = imin(STRIPE, a->x.cols - c);
	float scale[STRIPE];
	const float *mean = a->mean.p + c, *beta = a->beta.p + c;
	for (i64 j = 0; j < n; j++) {
		scale[j] = (float)(a->gamma.p[c + j] / sqrt((double)a->var.p[c + j] + a->eps));
	}
	for (i64 r = 0; r < a->x.rows; r++) {
		const float *in = a->x.p + r * a->x.stride + c;
		float *y = a->y.p + r * a->y.stride + c;
		for (i64 j = 0; j < n; j++) y[j] = (in[j] - mean[j]) * scale[j] + beta[j];
	}
}

static int batchnorm_eval(Pool *pool, const void *args) {
	pool_run(pool, batchnorm_eval_task, args, stripes(((const BatchArgs *)args)->x.cols));
	return OK;
}

typedef struct { Mat x, y; } MatPair;

static inline vf product_term(const void *args, i64 r, i64 c, i64 j, i64 m) {
	const MatPair *a = args;
	return vec_at(a->x, r, c, j, m) * vec_at(a->y, r, c, j, m);
}

// batchnorm_grad_task computes the gradients of a stripe.
static void batchnorm_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const NormGradArgs *a = args;
	i64 c = i * STRIPE, n = imin(STRIPE, a->dy.cols - c), rows = a->dy.rows;
	double sum[STRIPE], dot[STRIPE];
	float mean[STRIPE], mean_dot[STRIPE], scale[STRIPE];
	MatPair both = {a->dy, a->xhat};
	column_sums(&a->dy, rows, c, n, sum_term, sum);
	column_sums(&both, rows, c, n, product_term, dot);
	for (i64 j = 0; j < n; j++) {
		a->dbeta.p[c + j] += (float)sum[j];
		a->dgamma.p[c + j] += (float)dot[j];
		mean[j] = (float)(sum[j] / (double)rows);
		mean_dot[j] = (float)(dot[j] / (double)rows);
		scale[j] = a->gamma.p[c + j] * a->rstd.p[c + j];
	}
	for (i64 r = 0; r < rows; r++) {
		const float *dy = a->dy.p + r * a->dy.stride + c, *h = a->xhat.p + r * a->xhat.stride + c;
		float *dx = a->dx.p + r * a->dx.stride + c;
		for (i64 j = 0; j < n; j++) dx[j] = scale[j] * (dy[j] - mean[j] - h[j] * mean_dot[j]);
	}
}

static int batchnorm_grad(Pool *pool, const void *args) {
	pool_run(pool, batchnorm_grad_task, args, stripes(((const NormGradArgs *)args)->dy.cols));
	return OK;
}
