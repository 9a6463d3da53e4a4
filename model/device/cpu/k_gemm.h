// k_gemm.h: matrix products. A is M x K and B is K x N after op.
//
// A task computes a block of rows by a block of columns, slice of K after slice
// of K into sums in its scratch, and finishes them: bias, activation, store. A
// slice of B is a panel of PANEL columns, zero-padded, that a micro-kernel reads
// in order. Weights (NN, NT) are packed once for all tasks; for TN, where both
// factors are long, each task packs the slice it is about to use.
//
// Every element of the result is one chain of multiply-adds over ascending k:
// neither block sizes nor the other rows and columns can change its bits.

#define PANEL (VL * TILE_VECTORS)
enum {
	KC = 256,       // slice of K; even, since bf16 goes by pairs
	MC = 192,       // rows of a task at most; down to MC/8 all are multiples of every tile_rows
	NC = 4 * PANEL, // columns of a task
	SUM_BYTES = MC * NC * 4,
	A_BYTES = MC * KC * 4,
	PANEL_BYTES = PANEL * KC * 4 // of a panel's slice
};

typedef struct {
	const GemmArgs *g;
	i64 m, n, k;
	i64 rows, cols, blocks; // of a task; blocks of columns side by side
	const char *panels;     // all of B packed, or NULL
} Product;

// A factor's slice as micro-kernels read it, in units of 4 bytes (a float or a
// pair of bf16): element (row, step) is p[row*row_step + step*step].
typedef struct { const uint32_t *p; i64 row_step, step; } Rows;

// Where sums go, and whether they go on from what is there.
typedef struct { float *p; i64 stride; int carry; } Sums;

#include "k_gemm_pack.h"

// A micro-kernel adds `steps` products to rows x vecs vectors of sums. The sums have to stay in
// registers, which the compiler grants to variables but not to arrays: these macros write one
// variable, c<row>_<vector>, for each.
#define VECS1(X, r) X(r, 0)
#define VECS2(X, r) VECS1(X, r) X(r, 1)
#define VECS3(X, r) VECS2(X, r) X(r, 2)
#define VECS4(X, r) VECS3(X, r) X(r, 3)
#define ROWS1(F, V) F(0, V)
#define ROWS2(F, V) ROWS1(F, V) F(1, V)
#define ROWS4(F, V) ROWS2(F, V) F(2, V) F(3, V)
#define ROWS6(F, V) ROWS4(F, V) F(4, V) F(5, V)
#define ROWS8(F, V) ROWS6(F, V) F(6, V) F(7, V)
#define ROWS12(F, V) ROWS8(F, V) F(8, V) F(9, V) F(10, V) F(11, V)

#define BEGIN_ONE(r, v) vf c##r##_##v = to.carry ? vload(to.p + r * to.stride + v * VL) : vset(0.0f);
#define BEGIN(r, V) V(BEGIN_ONE, r)
#define COLUMN(r, v) vf b##v = vload(b + v * VL);
#define ADD_ONE_0(r, v) c##r##_##v = vfma(x, b##v, c##r##_##v);
#define ADD_ONE_1(r, v) c##r##_##v = vdot(x, b##v, c##r##_##v);
#define ADD_0(r, V) { vf x = vset(p[r * a.row_step]); V(ADD_ONE_0, r) }
#define ADD_1(r, V) { vf x = vset(p[r * a.row_step]); V(ADD_ONE_1, r) }
#define END_ONE(r, v) vstore(to.p + r * to.stride + v * VL, c##r##_##v);
#define END(r, V) V(END_ONE, r)

typedef void (*Micro)(i64 steps, Rows a, const float *b, Sums to);

#define MICRO(rows, vecs, native) \
	static void micro_##rows##_##vecs##_##native(i64 steps, Rows a, const float *b, Sums to) { \
		const float *p = (const float *)a.p; \
		ROWS##rows(BEGIN, VECS##vecs) \
		for (i64 s = 0; s < steps; s++, p += a.step, b += vecs * VL) { \
			VECS##vecs(COLUMN, 0) \
			ROWS##rows(ADD_##native, VECS##vecs) \
		} \
		ROWS##rows(END, VECS##vecs) \
	}
#define MICROS(full, vecs, native) \
	MICRO(full, vecs, native) MICRO(4, vecs, native) MICRO(2, vecs, native) MICRO(1, vecs, native)
#define ROW(full, vecs, native) \
	{micro_##full##_##vecs##_##native, micro_4_##vecs##_##native, micro_2_##vecs##_##native, micro_1_##vecs##_##native}

#if TILE_VECTORS == 4
MICROS(12, 1, 0) MICROS(12, 2, 0) MICROS(8, 3, 0) MICROS(6, 4, 0)
#if VEC_BF16
MICROS(12, 1, 1) MICROS(12, 2, 1) MICROS(8, 3, 1) MICROS(6, 4, 1)
#endif
static const Micro micros[][5][4] = {
	{{0}, ROW(12, 1, 0), ROW(12, 2, 0), ROW(8, 3, 0), ROW(6, 4, 0)},
#if VEC_BF16
	{{0}, ROW(12, 1, 1), ROW(12, 2, 1), ROW(8, 3, 1), ROW(6, 4, 1)},
#endif
};
#else
MICROS(8, 1, 0) MICROS(6, 2, 0)
static const Micro micros[][3][4] = {{{0}, ROW(8, 1, 0), ROW(6, 2, 0)}};
#endif

// multiply adds rows of a times a packed slice of `vecs` vectors to the sums.
static void multiply(int native, int vecs, i64 rows, i64 steps, Rows a, const void *panel, Sums to) {
	const Micro *kind = micros[native][vecs];
	const int sizes[4] = {tile_rows[vecs], 4, 2, 1};
	for (i64 r = 0, s = 0; r < rows; r += sizes[s]) {
		while (sizes[s] > rows - r) s++;
		Rows here = {a.p + r * a.row_step, a.row_step, a.step};
		kind[s](steps, here, panel, (Sums){to.p + r * to.stride, to.stride, to.carry});
	}
}

static inline __attribute__((always_inline)) void finish_as(const int act, const GemmArgs *g, const float *sums,
	Mat dst, const float *bias, Mat pre, Mat grad) {
	for (i64 r = 0; r < dst.rows; r++, sums += PANEL) {
		for (i64 c = 0; c < dst.cols; c += VL) {
			i64 n = least(VL, dst.cols - c);
			vf v = vload(sums + c);
			if (bias) v += vloadn(bias + c, n);
			if (pre.p) mstore(pre, r, c, v);
			if (grad.p) v *= vslope(act, mload(grad, r, c));
			else v = vact(act, v);
			if (g->add) v += mload(dst, r, c);
			mstore(dst, r, c, v);
		}
	}
}

static void finish(const GemmArgs *g, const float *sums, i64 r, i64 c, i64 rows, i64 cols) {
	Mat dst = part(g->dst, r, c, rows, cols), pre = part(g->pre, r, c, rows, cols), grad = part(g->grad, r, c, rows, cols);
	const float *bias = g->bias.p ? g->bias.p + c : NULL;
	switch (g->act) {
	case GELU: finish_as(GELU, g, sums, dst, bias, pre, grad); break;
	case GELU_TANH: finish_as(GELU_TANH, g, sums, dst, bias, pre, grad); break;
	case SILU: finish_as(SILU, g, sums, dst, bias, pre, grad); break;
	case RELU: finish_as(RELU, g, sums, dst, bias, pre, grad); break;
	default: finish_as(IDENTITY, g, sums, dst, bias, pre, grad);
	}
}

static void gemm_task(const void *args, i64 i, Worker *w) {
	const Product *p = args;
	const GemmArgs *g = p->g;
	float *sums = (float *)w->scratch;
	uint32_t *a_space = (uint32_t *)(w->scratch + SUM_BYTES);
	char *b_space = w->scratch + SUM_BYTES + A_BYTES;
	int native = g->bf16 && VEC_BF16;
	i64 r0 = i / p->blocks * p->rows, rows = least(p->rows, p->m - r0);
	i64 c0 = i % p->blocks * p->cols, cols = least(p->cols, p->n - c0);
	i64 k0 = 0;
	do { // once at least: a product without terms is finished too
		i64 kn = least(KC, p->k - k0), steps = native ? (kn + 1) / 2 : kn;
		Rows a = slice_a(g, r0, rows, k0, kn, a_space);
		if (!p->panels) pack_panels(g, k0, kn, c0, cols, (uint32_t *)b_space);
		for (i64 c = 0; c < cols; c += PANEL) {
			i64 wide = least(PANEL, cols - c);
			const char *panel = p->panels ? p->panels + panel_at(p, c0 + c, k0) : b_space + c * KC * 4;
			float *here = sums + c * MC; // the panel's own block of MC rows
			multiply(native, (int)((wide + VL - 1) / VL), rows, steps, a, panel, (Sums){here, PANEL, k0 > 0});
			if (k0 + KC >= p->k) finish(g, here, r0, c0 + c, rows, wide);
		}
		k0 += KC;
	} while (k0 < p->k);
}

// share makes tasks smaller until there are enough for all threads.
static i64 share(Product *p, int threads) {
	p->rows = p->panels ? MC / 2 : MC; // where tasks pack B, more rows make it worth more
	p->cols = NC;
	for (;;) {
		p->blocks = (p->n + p->cols - 1) / p->cols;
		i64 tasks = (p->m + p->rows - 1) / p->rows * p->blocks;
		if (threads == 1 || tasks >= 4 * threads) return tasks;
		if (p->rows > MC / 2) p->rows = MC / 2;
		else if (p->cols > PANEL) p->cols -= PANEL;
		else if (p->rows > MC / 8) p->rows /= 2;
		else return tasks;
	}
}

static Product product_of(const GemmArgs *g) {
	return (Product){.g = g, .m = g->dst.rows, .n = g->dst.cols, .k = g->op == TN ? g->a.rows : g->a.cols, .panels = g->packed};
}

static i64 panels_of(const Product *p) { return (p->n + PANEL - 1) / PANEL; }
static i64 slices_of(const Product *p) { return (p->k + KC - 1) / KC; }
static size_t packed_bytes(const Product *p) { return (size_t)panels_of(p) * slices_of(p) * PANEL_BYTES; }

static int gemm(Pool *pool, const void *args) {
	const GemmArgs *g = args;
	Product p = product_of(g);
	if (p.m == 0 || p.n == 0) return OK;
	size_t packed = g->op == TN || g->packed ? 0 : packed_bytes(&p);
	if (pool_reserve(pool, SUM_BYTES + A_BYTES + NC / PANEL * PANEL_BYTES, packed)) return NO_MEMORY;
	if (packed) {
		p.panels = pool_shared(pool);
		pool_run(pool, pack_task, &p, panels_of(&p) * slices_of(&p));
	}
	pool_run(pool, gemm_task, &p, share(&p, pool_threads(pool)));
	return OK;
}

static int pack(Pool *pool, const void *args) {
	PackArgs *a = (PackArgs *)args; // its size is a result
	Product p = product_of(&a->g);
	a->size = packed_bytes(&p);
	p.panels = a->dst;
	if (a->dst) pool_run(pool, pack_task, &p, panels_of(&p) * slices_of(&p));
	return OK;
}
