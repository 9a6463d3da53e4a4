// k_pointwise.h: element-wise and row-wise kernels, y = f(x). They are bound by memory.
//
// Idea: a kernel is a formula of vectors (EACH), and a task SPAN elements of dense matrices seen as one long row,
// or of rows where they are not dense. Nothing is kept between elements.
// Memory traffic: each input is read once and each output written once, and read where it is added to. Dropout's
// factors are made anew from the key 256 at a time and stay in the nearest cache.

enum { SPAN = 8192 }; // elements of a task

// each_spans cuts rows x cols elements into tasks: dense matrices are one long row.
typedef struct { const EachArgs *a; i64 rows, cols, per_row; } Spans;

typedef struct { vf v[3]; } Out;
typedef Out (*Each)(const EachArgs *a, const vf *in, vf old);

static int dense(const EachArgs *a, int outs, int ins) {
	for (int i = 0; i < outs; i++) {
		if (a->out[i].rows > 1 && a->out[i].stride != a->out[i].cols) return 0;
	}
	for (int i = 0; i < ins; i++) {
		if (a->in[i].rows > 1 && a->in[i].stride != a->in[i].cols) return 0;
	}
	return 1;
}

// each_span runs f on its share of the elements. Tails use the same vector code, so that an
// element's bits do not depend on where it lies.
INLINED void each_span(const Spans *s, i64 i, int outs, int ins, Each f) {
	const EachArgs *a = s->a;
	i64 first = i * SPAN, end = least(first + SPAN, s->rows * s->cols);
	while (first < end) {
		i64 r = first / s->cols, c = first % s->cols, n = least(s->cols - c, end - first);
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

// EACH makes a kernel of a formula of the vectors x[0], x[1], ... and old (out[0] where adding).
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

enum { ROWS = 16 }; // rows of a task of a row-wise kernel

static inline i64 row_tasks(i64 rows) { return (rows + ROWS - 1) / ROWS; }

static void copy_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], x = a->in[0];
	for (i64 r = i * ROWS; r < least((i + 1) * ROWS, dst.rows); r++) {
		for (i64 c = 0; c < dst.cols; c += VL) mstore(dst, r, c, mload(x, r, c));
	}
}

static int copy(Pool *pool, const void *args) {
	pool_run(pool, copy_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}

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
		i64 n = least(256, dst.cols - c);
		keep_factors(keep, n, a->p, a->key, (uint64_t)(r * dst.cols + c));
		for (i64 i = 0; i < n; i += VL) mstore(dst, r, c + i, mload(x, r, c + i) * vload(keep + i));
	}
}

static int dropout(Pool *pool, const void *args) {
	const EachArgs *a = args;
	pool_run(pool, dropout_task, a, a->out[0].rows);
	return OK;
}

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

static void add_repeated_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const EachArgs *a = args;
	Mat dst = a->out[0], x = a->in[0], y = a->in[1];
	for (i64 r = i * ROWS; r < least((i + 1) * ROWS, dst.rows); r++) {
		float *out = dst.p + r * dst.stride;
		const float *p = x.p + r * x.rows / dst.rows * x.stride, *q = y.p + r * y.rows / dst.rows * y.stride;
		for (i64 c = 0; c < dst.cols; c++) out[c] = p[c] + q[c];
	}
}

static int add_repeated(Pool *pool, const void *args) {
	pool_run(pool, add_repeated_task, args, row_tasks(((const EachArgs *)args)->out[0].rows));
	return OK;
}
