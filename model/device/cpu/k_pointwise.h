// k_pointwise.h: element-wise and row-wise kernels, y = f(x). They are bound by
// memory bandwidth.
//
// An element-wise kernel is a formula on vectors (EACH). A task processes SPAN
// elements; dense matrices are treated as one long row. Nothing is kept between
// elements.
//
// Memory traffic: each input is read once and each output written once, and read if
// it is added to. Dropout factors are recomputed from the key, 256 at a time, and
// stay in the L1 cache.

// Elements of a task.
enum { SPAN = 8192 };

// Spans divides rows x cols elements into tasks.
typedef struct { const EachArgs *a; i64 rows, cols, per_row; } Spans;

// An Each is the formula of a kernel: it maps vectors of the inputs, and the old
// numbers of out[0] if a->add is set, to vectors of the outputs.
typedef struct { vf v[3]; } Out;
typedef Out (*Each)(const EachArgs *a, const vf *in, vf old);

// dense reports whether all matrices are stored without gaps.
static int dense(const EachArgs *a, int outs, int ins) {
	for (int i = 0; i < outs; i++) {
		if (a->out[i].rows > 1 && a->out[i].stride != a->out[i].cols) return 0;
	}
	for (int i = 0; i < ins; i++) {
		if (a->in[i].rows > 1 && a->in[i].stride != a->in[i].cols) return 0;
	}
	return 1;
}

// each_span runs f on the elements of task i. The end of a row uses the same vector
// code as the rest, so that the bits of an element do not depend on its position.
INLINED void each_span(const Spans *s, i64 i, int outs, int ins, Each f) {
	const EachArgs *a = s->a;
	i64 first = i * SPAN, end = imin(first + SPAN, s->rows * s->cols);
	while (first < end) {
		i64 r = first / s->cols, c = first % s->cols, n = imin(s->cols - c, end - first);
		float *out[3];
		const float *in[5];
		for (int j = 0; j < outs; j++) out[j] = a->out[j].p + r * a->out[j].stride + c;
		for (int j = 0; j < ins; j++) in[j] = a->in[j].p + r * a->in[j].stride + c;
		first += n;
		i64 k = 0;
		vf v[5];
		for (; k + VL <= n; k += VL) {
			for (int j = 0; j < ins; j++) v[j] = vload(in[j] + k);
			Out o = f(a, v, a->add ? vload(out[0] + k) : vset(0.0f));
			for (int j = 0; j < outs; j++) vstore(out[j] + k, o.v[j]);
		}
		if (k == n) continue;
		for (int j = 0; j < ins; j++) v[j] = vloadn(in[j] + k, n - k);
		Out o = f(a, v, a->add ? vloadn(out[0] + k, n - k) : vset(0.0f));
		for (int j = 0; j < outs; j++) vstoren(out[j] + k, o.v[j], n - k);
	}
}

// each_run runs an element-wise kernel.
static int each_run(Pool *pool, const EachArgs *a, int outs, int ins, Task task) {
	Spans s = {.a = a, .rows = a->out[0].rows, .cols = a->out[0].cols};
	if (s.rows * s.cols == 0) return OK;
	if (dense(a, outs, ins)) {
		s.cols *= s.rows;
		s.rows = 1;
	}
	pool_run(pool, task, &s, (s.rows * s.cols + SPAN - 1) / SPAN);
	return OK;
}

// EACH defines kernel `name` by formulas for its outputs, in terms of the vectors
// x[0], x[1], ... and old.
#define EACH(name, outs, ins, ...) \
	static inline Out name##_of(const EachArgs *a, const vf *x, vf old) { \
		(void)a, (void)x, (void)old; \
		return (Out){{__VA_ARGS__}}; \
	} \
	static void name##_task(const void *s, i64 i, Worker *w) { \
		(void)w; \
		each_span(s, i, outs, ins, name##_of); \
	} \
	static int name(Pool *pool, const void *args) { return each_run(pool, args, outs, ins, name##_task); }

EACH(fill, 1, 0, vset(a->alpha))
EACH(axpy, 1, 1, vfma(vset(a->alpha), x[0], old))
EACH(gate_grad, 2, 3, x[0] * x[1], x[0] * x[2])
EACH(modulate_grad, 3, 3, x[0] * (vset(1.0f) + x[2]), x[0] * x[1], x[0])
EACH(act_gelu, 1, 1, vact(GELU, x[0]))
EACH(act_silu, 1, 1, vact(SILU, x[0]))
EACH(act_relu, 1, 1, vact(RELU, x[0]))
EACH(act_grad_gelu, 1, 2, x[0] * vact_grad(GELU, x[1]))
EACH(act_grad_silu, 1, 2, x[0] * vact_grad(SILU, x[1]))
EACH(act_grad_relu, 1, 2, x[0] * vact_grad(RELU, x[1]))

// Rows of a task of a row-wise kernel.
enum { ROWS = 16 };

// row_tasks returns the number of tasks for some rows.
static inline i64 row_tasks(i64 rows) { return (rows + ROWS - 1) / ROWS; }

static void copy_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], x = a->in[0];
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, dst.rows); r++) {
		for (i64 c = 0; c < dst.cols; c += VL) mstore(dst, r, c, mload(x, r, c));
	}
}

static int copy(Pool *pool, const void *args) {
	pool_run(pool, copy_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

// The identity is a copy.
static int activate(Pool *pool, const void *args) {
	static const Kernel kinds[] = {copy, act_gelu, act_silu, act_relu};
	return kinds[((const EachArgs *)args)->act](pool, args);
}

static int activate_grad(Pool *pool, const void *args) {
	static const Kernel kinds[] = {copy, act_grad_gelu, act_grad_silu, act_grad_relu};
	return kinds[((const EachArgs *)args)->act](pool, args);
}

static void dropout_task(const void *args, i64 r, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], x = a->in[0];
	float keep[256];
	for (i64 c = 0; c < dst.cols; c += 256) {
		i64 n = imin(256, dst.cols - c);
		keep_factors(keep, n, a->p, a->key, (uint64_t)(r * dst.cols + c));
		for (i64 i = 0; i < n; i += VL) mstore(dst, r, c + i, mload(x, r, c + i) * vload(keep + i));
	}
}

static int dropout(Pool *pool, const void *args) {
	const EachArgs *a = args;
	pool_run(pool, dropout_task, a, a->out[0].rows);
	return OK;
}

// blocks_task copies, or adds, the rows of block i.
static void blocks_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const BlocksArgs *a = args;
	for (i64 r = 0; r < a->rows; r++) {
		float *out = a->dst.p + (i * a->dst_block + r) * a->dst.stride;
		const float *in = a->src.p + (i * a->src_block + r) * a->src.stride;
		if (!a->add) memcpy(out, in, a->dst.cols * 4);
		else for (i64 c = 0; c < a->dst.cols; c++) out[c] += in[c];
	}
}

static int copy_blocks(Pool *pool, const void *args) {
	pool_run(pool, blocks_task, args, ((const BlocksArgs *)args)->blocks);
	return OK;
}

// add_repeated_task computes ROWS rows. Row r*x.rows/dst.rows of x is repeated
// dst.rows/x.rows times.
static void add_repeated_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], x = a->in[0], y = a->in[1];
	for (i64 r = i * ROWS; r < imin((i + 1) * ROWS, dst.rows); r++) {
		float *out = dst.p + r * dst.stride;
		const float *p = x.p + r * x.rows / dst.rows * x.stride, *q = y.p + r * y.rows / dst.rows * y.stride;
		for (i64 c = 0; c < dst.cols; c++) out[c] = p[c] + q[c];
	}
}

static int add_repeated(Pool *pool, const void *args) {
	pool_run(pool, add_repeated_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}
