// k_gemm.h: matrix products. A is M x K and B is K x N after op.
//
// A task computes some rows by some columns, block by block of BLOCK_ROWS rows
// by one panel of B: PANEL columns, zero-padded, laid out in the order in which
// they are read. Weights (NN, NT) are packed for all tasks at once, or beforehand
// where they are frozen, and a task reads all of K in one go. For TN, where both
// factors are long, it goes slice by slice of K, packs what it is about to use, and
// keeps its sums in scratch between slices.
//
// Every element of the result is one chain of additions over ascending k that does
// not depend on blocks, slices, or the other rows and columns.

#if TILES
enum { BLOCK_ROWS = 32 };
#else
enum { BLOCK_ROWS = 24 }; // a multiple of every tile_rows
#endif
enum {
	MC = 192,       // rows of a task at most; down to MC/4 all are multiples of BLOCK_ROWS
	NC = 4 * PANEL, // columns of a task that packs B
	PACK_K = 256,   // of K, packed by one task
	SLICE = 256     // words of K that TN goes by
};

typedef struct {
	const GemmArgs *g;
	i64 m, n, k;
	int native;             // bf16 pairs are multiplied
	i64 slice;              // of K
	i64 rows, cols, blocks; // of a task; blocks of columns side by side
	const char *panels;     // all of B packed, or NULL
	size_t sums, a;         // bytes of a worker's scratch: sums, copied rows of A, then panels of B
} Product;

#include "k_gemm_pack.h"
#include "k_gemm_finish.h"
#if TILES
#include "k_tiles.h"
#endif

// panel_words is the size of a panel of k numbers of each column; panels lie so far apart.
static inline i64 panel_words(const Product *p, i64 k) { return PANEL * whole_steps(p->native, k); }

// multiply_block multiplies at most BLOCK_ROWS rows by a panel of `vecs` vectors, and finishes rows of
// the block before as it goes.
static void multiply_block(int native, int vecs, i64 rows, i64 steps, Rows a, const void *panel, Sums to, Block *before) {
	i64 size = tile_rows[vecs];
	for (i64 r = 0; r < rows; r += size) {
		Rows here = {a.p + r * a.row_step, a.row_step, a.step};
		multiply(native, vecs, least(size, rows - r), steps, here, panel, (Sums){to.p + r * to.stride, to.stride, to.carry});
		finish(before, size);
	}
}

// A Share is what a task works on.
typedef struct { i64 r, c, rows, cols; } Share;

// slice_product adds the products of one slice to all blocks of a share. After the last slice
// blocks are finished, except for the one that is left waiting in `before`.
static void slice_product(const Product *p, Share s, i64 k, Rows a, const char *panels, float *sums, Block *before) {
	i64 kn = least(p->slice, p->k - k), steps = whole_steps(p->native, kn);
	int once = p->slice >= p->k, last = k + kn >= p->k, turn = 0;
	for (i64 c = 0; c < s.cols; c += PANEL) {
		i64 cols = least(PANEL, s.cols - c);
		int vecs = (int)((cols + VL - 1) / VL);
		const void *panel = panels + c / PANEL * panel_words(p, once ? p->k : p->slice) * 4;
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS, turn ^= 1) {
			i64 rows = least(BLOCK_ROWS, s.rows - r);
			// Blocks that are finished at once take turns in two places.
			float *here = sums + (once ? turn * BLOCK_ROWS * PANEL : c * p->rows + r * PANEL);
			Rows from = {a.p + r * a.row_step, a.row_step, a.step};
			Sums to = {here, PANEL, k > 0};
#if TILES
			if (p->native) multiply_tiles(vecs, rows, steps, from, panel, to, before);
			else
#endif
			multiply_block(p->native, vecs, rows, steps, from, panel, to, before);
			finish(before, BLOCK_ROWS);
			if (!last) continue;
			*before = (Block){p->g, here, s.r + r, s.c + c, rows, cols, 0};
			ask_ahead(before);
		}
	}
}

// add_rows adds the sum over rows of a, a slice of K x M, to total.
static void add_rows(Mat a, float *total) {
	for (i64 c = 0; c < a.cols; c += VL) {
		vf sum = vset(0.0f);
		for (i64 k = 0; k < a.rows; k++) sum += mload(a, k, c);
		vput(total, c, a.cols, vpart(total, c, a.cols) + sum);
	}
}

static void gemm_task(const void *args, i64 i, Worker *w) {
	const Product *p = args;
	const GemmArgs *g = p->g;
	Share s = {i / p->blocks * p->rows, i % p->blocks * p->cols, 0, 0};
	s.rows = least(p->rows, p->m - s.r);
	s.cols = least(p->cols, p->n - s.c);
	float *sums = (float *)w->scratch, total[MC] = {0};
	uint32_t *a_space = (uint32_t *)(w->scratch + p->sums);
	char *b_space = w->scratch + p->sums + p->a;
	int summed = g->sum_a.p && s.c == 0;
	Block before = {.g = g};
#if TILES
	if (p->native) tiles_begin();
#endif
	i64 k = 0;
	do { // once at least: a product without terms is finished too
		i64 kn = least(p->slice, p->k - k), steps = whole_steps(p->native, kn);
		if (g->op != TN) {
			const char *panels = p->panels + s.c / PANEL * panel_words(p, p->k) * 4;
			slice_product(p, s, k, rows_along(part(g->a, s.r, k, s.rows, kn), g->bf16, steps, a_space), panels, sums, &before);
		} else {
			Mat a = part(g->a, k, s.r, kn, s.rows);
			Rows rows = rows_across(a, g->bf16, steps, a_space);
			if (summed) add_rows(a, total);
			pack_panels(part(g->b, k, s.c, kn, s.cols), g->bf16, (uint32_t *)b_space, panel_words(p, least(p->slice, p->k)));
			slice_product(p, s, k, rows, b_space, sums, &before);
		}
		k += p->slice;
	} while (k < p->k);
	finish(&before, BLOCK_ROWS);
#if TILES
	if (p->native) tiles_end();
#endif
	if (summed) {
		Mat sum = part(g->sum_a, 0, s.r, 1, s.rows);
		for (i64 c = 0; c < s.rows; c += VL) mstore(sum, 0, c, mload(sum, 0, c) + vload(total + c));
	}
}

// share makes tasks smaller until there are enough for all threads. It returns their count.
static i64 share(Product *p, int threads) {
	int packs = p->g->op == TN;
	p->rows = packs ? MC : MC / 2;
	p->cols = packs ? NC : (p->n + PANEL - 1) / PANEL * PANEL;
	for (;;) {
		p->blocks = (p->n + p->cols - 1) / p->cols;
		i64 tasks = (p->m + p->rows - 1) / p->rows * p->blocks;
		if (threads == 1 || tasks >= 4 * threads) return tasks;
		if (p->rows > MC / 2) p->rows = MC / 2;
		else if (p->cols > PANEL) p->cols = (p->cols / 2 + PANEL - 1) / PANEL * PANEL;
		else if (p->rows > MC / 4) p->rows = MC / 4;
		else return tasks;
	}
}

static Product product_of(const GemmArgs *g) {
	Product p = {.g = g, .m = g->dst.rows, .n = g->dst.cols, .k = g->op == TN ? g->a.rows : g->a.cols, .panels = g->packed};
	p.native = g->bf16 && VEC_BF16;
	p.slice = g->op != TN ? p.k : p.native ? 2 * SLICE : SLICE;
	return p;
}

static i64 panels_of(const Product *p) { return (p->n + PANEL - 1) / PANEL; }
static i64 packs_of(const Product *p) { return (p->k + PACK_K - 1) / PACK_K; }
static size_t packed_bytes(const Product *p) { return (size_t)(panels_of(p) * panel_words(p, p->k)) * 4; }

static void pack_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const Product *p = args;
	const GemmArgs *g = p->g;
	i64 c = i / packs_of(p) * PANEL, k = i % packs_of(p) * PACK_K;
	i64 kn = least(PACK_K, p->k - k), cols = least(PANEL, p->n - c), width = (cols + VL - 1) / VL * VL;
	uint32_t *panel = (uint32_t *)(uintptr_t)p->panels + c / PANEL * panel_words(p, p->k);
	uint32_t *dst = panel + (p->native ? k / 2 : k) * width;
	if (g->op == NN) pack_panels(part(g->b, k, c, kn, cols), g->bf16, dst, 0);
	else transpose_panel(part(g->b, c, k, cols, kn), dst, width, g->bf16);
}

static int gemm(Pool *pool, const void *args) {
	const GemmArgs *g = args;
	Product p = product_of(g);
	if (p.m == 0 || p.n == 0) return OK;
	i64 tasks = share(&p, pool_threads(pool)), kn = least(p.slice, p.k), steps = whole_steps(p.native, kn);
	int once = p.slice >= p.k;
	p.sums = (size_t)(once ? 2 * BLOCK_ROWS * PANEL : p.rows * p.cols) * 4;
	p.a = (size_t)(g->op == TN ? MC * (steps + 2 * VL) : g->bf16 ? p.rows * copy_step(steps) : 0) * 4;
	size_t b = g->op == TN ? (size_t)(p.cols / PANEL * panel_words(&p, kn)) * 4 : 0;
	size_t packed = g->op == TN || g->packed ? 0 : packed_bytes(&p);
	if (pool_reserve(pool, p.sums + p.a + b, packed)) return NO_MEMORY;
	if (packed) {
		p.panels = pool_shared(pool);
		pool_run(pool, pack_task, &p, panels_of(&p) * packs_of(&p));
	}
	pool_run(pool, gemm_task, &p, tasks);
	return OK;
}

static int pack(Pool *pool, const void *args) {
	PackArgs *a = (PackArgs *)args; // its size is a result
	Product p = product_of(&a->g);
	a->size = packed_bytes(&p);
	p.panels = a->dst;
	if (a->dst) pool_run(pool, pack_task, &p, panels_of(&p) * packs_of(&p));
	return OK;
}
