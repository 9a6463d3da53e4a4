// k_gemm.h: matrix products, dst = epilogue(A B). A is M x K and B is K x N after op.
//
// Idea: sums of a block stay in registers (or in the tiles of AMX) while K goes by,
// both factors are laid out in the order in which they are read, and the epilogue
// (scale, bias, activation or its gradient, dropout, gate, addition) runs on sums
// that are still in the cache. Memory traffic: A is read once for each task beside
// others, B once and written once as packed panels, of weights in evaluation only
// the first time; dst and what the epilogue takes are touched once. 2 M N K operations.
//
// A task computes some rows by some columns, block by block of BLOCK_ROWS rows
// by BLOCK_COLS columns: a panel of B or two. A panel is PANEL columns, zero-padded,
// laid out in the order in which they are read. Weights (NN, NT) are packed for all tasks at once, or beforehand
// where they are frozen, and a task reads all of K in one go. For TN, where both
// factors are long, it goes slice by slice of K, packs what it is about to use, and
// keeps its sums in scratch between slices.
//
// Every element of the result is one chain of additions over ascending k that does
// not depend on blocks, slices, or the other rows and columns.

// A Layout is what a factor's numbers become, step by step of K: floats; or, rounded to bf16, pairs (k, k+1) for
// machines that multiply such pairs fast; or else floats again, the second number of each pair before the
// first, since one instruction of AVX512-BF16 adds the products of a pair in this order: the same bits by two.
typedef enum { FLOATS, PAIRS, APART } Layout;

static inline Layout layout_of(int bf16) { return !bf16 ? FLOATS : VEC_BF16 && (TILES || pairs_are_fast) ? PAIRS : APART; }

// --- The innermost loops ---------------------------------------------------
//
// A few rows of A times a panel of B, with the sums in registers.

#define PANEL (VL * TILE_VECTORS)

// A factor's slice as micro-kernels read it, in units of 4 bytes (a float or a
// pair of bf16): element (row, step) is p[row*row_step + step*step].
typedef struct { const uint32_t *p; i64 row_step, step; } Rows;

// Where sums go, and whether they go on from what is there.
typedef struct { float *p; i64 stride; int carry; } Sums;

// Asks are pieces of rows, some lines of memory each, that will be read or written soon: a micro-kernel asks for one
// every ASK_STEPS steps. More at a time would keep the factors waiting, since a core waits for few lines at once.
typedef struct { const char *p; i64 bytes; int write; } Ask;
typedef struct { const Ask *rows; i64 n; } Asks;
enum { ASK_STEPS = 8 };

ASKS ask_row(Asks *a) {
	if (a->n == 0) return;
	Ask row = a->rows[--a->n];
	ask_lines(row.p, row.bytes, row.write);
}

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

#define BEGIN_ONE(r, v) vf c##r##_##v = vset(0.0f);
#define BEGIN(r, V) V(BEGIN_ONE, r)
#define CARRY_ONE(r, v) c##r##_##v = vload(sums + v * VL);
#define CARRY(r, V) V(CARRY_ONE, r) sums += to->stride;
#define COLUMN(r, v) vf b##v = vload(b + v * VL);
#define ADD_ONE_0(r, v) c##r##_##v = vfma(x, b##v, c##r##_##v);
#define ADD_ONE_1(r, v) c##r##_##v = vdot(x, b##v, c##r##_##v);
#define ADD_0(r, V) { vf x = vset(p[r * row_step]); V(ADD_ONE_0, r) }
#define ADD_1(r, V) { vf x = vset(p[r * row_step]); V(ADD_ONE_1, r) }
#define END_ONE(r, v) vstore(sums + v * VL, c##r##_##v);
#define END(r, V) V(END_ONE, r) sums += stride;

// It takes pointers to what multiply changes in place: a structure that is copied for a call right after a write to it
// makes the copy wait until the write has left the core's store buffer, 70 to 140 cycles a call.
typedef void (*Micro)(i64 steps, const Rows *a, const float *b, const Sums *to, Asks *asks);

#define MICRO(rows, vecs, native) \
	static void micro_##rows##_##vecs##_##native(i64 steps, const Rows *a, const float *b, const Sums *to, Asks *asks) { \
		const float *p = (const float *)a->p; \
		float *sums = to->p; \
		i64 row_step = a->row_step, step = a->step; \
		ROWS##rows(BEGIN, VECS##vecs) \
		if (to->carry) { ROWS##rows(CARRY, VECS##vecs) } \
		for (i64 s = 0; s < steps;) { \
			ask_row(asks); \
			for (i64 end = least(steps, s + ASK_STEPS); s < end; s++, p += step, b += vecs * VL) { \
				VECS##vecs(COLUMN, 0) \
				ROWS##rows(ADD_##native, VECS##vecs) \
			} \
		} \
		i64 stride = to->stride; \
		sums = to->p; \
		__asm__("" : "+r"(sums), "+r"(stride)); /* else gcc keeps 24 addresses over the loop */ \
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

// multiply adds rows of a times a packed slice of `vecs` vectors to the sums, and asks for memory as it goes.
static void multiply(Layout layout, int vecs, i64 rows, i64 steps, Rows a, const void *panel, Sums to, Asks *asks) {
	const Micro *kind = micros[layout == PAIRS][vecs];
	const int sizes[4] = {tile_rows[vecs], 4, 2, 1};
	for (i64 r = 0, s = 0; r < rows; r += sizes[s]) {
		while (sizes[s] > rows - r) s++;
		kind[s](steps, &a, panel, &to, asks);
		a.p += sizes[s] * a.row_step;
		to.p += sizes[s] * to.stride;
	}
}

// --- Sizes -----------------------------------------------------------------

enum {
	// Sums that are finished together: some rows by four vectors, so that a row's finish is one sweep. As many as
	// leave the nearest cache to the factors.
	BLOCK_ROWS = TILES ? 32 : VL < 16 ? 12 : 24,
	BLOCK_COLS = 4 * VL,
	MC = 192,       // rows of A that are laid out at once; with vectors all down to MC/4 are multiples of BLOCK_ROWS
	NC = 192,       // columns of B that are, in TN; a third of it is a multiple of BLOCK_COLS
	PACK_K = 256,   // of K, packed by one task
	SLICE = 256     // of K, as floats or pairs, that TN goes by
};

typedef struct {
	const GemmArgs *g;
	i64 m, n, k;
	Layout layout;
	i64 slice;              // of K
	i64 rows, cols;         // of a task
	i64 down, right;        // tasks, one below and beside the other
	const char *panels;     // all of B packed, or NULL
	size_t sums, a;         // bytes of a worker's scratch: sums, copied rows of A, then panels of B
} Product;

// --- Laying out factors ----------------------------------------------------
//
// Where products round to bf16 this is where they do.

#if !VEC_BF16
// vround is numbers that bf16 could hold.
static inline vf vround(vf x) {
	vi bits = (vi)x, number = x == x; // NaN stays one
	vi up = (bits + 0x7fff + (bits >> 16 & 1)) & (int32_t)0xffff0000;
	return (vf)((up & number) | (bits & ~number));
}
#endif

// mround is mload of numbers that bf16 could hold.
static inline vf mround(Mat m, i64 r, i64 c) { return VEC_BF16 && m.bf16 ? mload(m, r, c) : vround(mload(m, r, c)); }

// ahead asks for the line that is read a few rows later: rows of a long factor lie far apart.
ASKS ahead(Mat m, i64 r) { prefetch(m, r + 8); }

#if VEC_BF16
// mpair is the pairs (m[r][c], m[r+1][c]) of VL columns from c on: zeros past the last row and column.
static inline vf mpair(Mat m, i64 r, i64 c) {
	if (!m.bf16) return vpair(mload(m, r, c), r + 1 < m.rows ? mload(m, r + 1, c) : vset(0.0f));
	vi lower = (vi)((vu)mload(m, r, c) >> 16);
	return (vf)(r + 1 < m.rows ? lower | (vi)mload(m, r + 1, c) : lower);
}

// mpairs stores those pairs of n columns from c on, whole vectors of them.
INLINED void mpairs(float *dst, Mat m, i64 r, i64 c, i64 n) {
	i64 j = 0;
	if (m.bf16 && r + 1 < m.rows) {
		const uint16_t *p = (const uint16_t *)mat_at(m, r, c), *q = p + m.stride;
		for (; j + 2 * VL <= n; j += 2 * VL) {
			__m512i x = _mm512_loadu_si512(p + j), y = _mm512_loadu_si512(q + j);
			vstore(dst + j, (vf)_mm512_permutex2var_epi16(x, (__m512i)zip_lower, y));
			vstore(dst + j + VL, (vf)_mm512_permutex2var_epi16(x, (__m512i)zip_upper, y));
		}
	}
	for (; j < n; j += VL) vstore(dst + j, mpair(m, r, c + j));
}

// pairs_along is the VL pairs (m[r][c], m[r][c+1]), ...: zeros past the last column.
static inline vf pairs_along(Mat m, i64 r, i64 c) {
	if (m.bf16) {
		i64 n = least(2 * VL, m.cols - c);
		const uint16_t *p = (const uint16_t *)mat_at(m, r, c);
		return (vf)(n == 2 * VL ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p));
	}
	return vpairs(mload(m, r, c), c + VL < m.cols ? mload(m, r, c + VL) : vset(0.0f));
}
#else
// Where there are no pairs these stand for what is never called.
static inline vf mpair(Mat m, i64 r, i64 c) { return mload(m, r, c); }
static inline vf pairs_along(Mat m, i64 r, i64 c) { return mload(m, r, c); }
static inline void mpairs(float *dst, Mat m, i64 r, i64 c, i64 n) { (void)n, vstore(dst, mload(m, r, c)); }
#endif

// whole_steps is the words that k numbers of a row or column take: one each, or one a pair, padded
// with zeros as the micro-kernels want it.
static inline i64 whole_steps(Layout layout, i64 k) {
	if (layout == FLOATS) return k;
	i64 pairs = (k + 1) / 2;
	if (layout == APART) return 2 * pairs;
	return TILES ? (pairs + VL - 1) / VL * VL : pairs;
}

// copy_step is the words from one copied row of A to the next: never a multiple of a page.
static inline i64 copy_step(i64 steps) { return (steps + VL - 1) / VL * VL + VL; }

// rows_along lays out rows of A whose steps follow one another in memory: in place where that is
// what micro-kernels need, else a copy in `space`.
static Rows rows_along(Mat a, Layout layout, i64 steps, uint32_t *space) {
	i64 apart = copy_step(steps);
	if (layout == FLOATS) return (Rows){(const uint32_t *)a.p, a.stride, 1};
	int fits = TILES ? a.cols % (2 * VL) == 0 && a.rows % VL == 0 : a.cols % 2 == 0;
	if (layout == PAIRS && a.bf16 && fits && a.stride % 2 == 0) return (Rows){(const uint32_t *)a.p, a.stride / 2, 1};
	for (i64 r = 0; r < a.rows; r++) {
		float *row = (float *)(space + r * apart);
		for (i64 s = 0; s < steps; s += VL) vstore(row + s, layout == PAIRS ? pairs_along(a, r, 2 * s) : vswap(mround(a, r, s)));
	}
	return (Rows){space, apart, 1};
}

// line is step s of n columns of m from c on, m being some of K by columns: whole vectors of them, zeros past the last row.
INLINED void line(float *dst, Layout layout, Mat m, i64 s, i64 c, i64 n) {
	i64 r = layout == PAIRS ? 2 * s : layout == APART ? s ^ 1 : s;
	if (r >= m.rows) memset(dst, 0, (n + VL - 1) / VL * VL * 4);
	else if (layout == PAIRS) mpairs(dst, m, r, c, n);
	else for (i64 j = 0; j < n; j += VL) vstore(dst + j, layout == APART ? mround(m, r, c + j) : mload(m, r, c + j));
}

// lines_ahead asks for what line will read a few steps later.
ASKS lines_ahead(Layout layout, Mat m, i64 s) {
	if (layout != PAIRS) ahead(m, s);
	else ahead(m, 2 * s), ahead(m, 2 * s + 1);
}

// rows_across lays out rows of A, which are columns in memory (a is K x M). Vectors are multiplied
// step by step: lines of all rows. Tiles want each row's steps side by side.
static Rows rows_across(Mat a, Layout layout, i64 steps, uint32_t *space) {
	if (layout == PAIRS && TILES) {
		i64 apart = copy_step(steps);
		for (i64 s = 0; s < steps; s += VL) {
			for (i64 c = 0; c < a.cols; c += VL) {
				vf t[VL];
				for (i64 j = 0; j < VL; j++) t[j] = 2 * (s + j) < a.rows ? mpair(a, 2 * (s + j), c) : vset(0.0f);
				vtranspose(t);
				for (i64 j = 0; j < VL; j++) vstore((float *)(space + (c + j) * apart + s), t[j]);
			}
			for (i64 k = 2 * s; k < 2 * (s + VL); k++) ahead(a, k + 2 * VL - 8);
		}
		return (Rows){space, apart, 1};
	}
	i64 apart = (a.cols + VL - 1) / VL * VL;
	for (i64 s = 0; s < steps; s++) {
		lines_ahead(layout, a, s);
		line((float *)(space + s * apart), layout, a, s, 0, a.cols);
	}
	return (Rows){space, 1, apart};
}

// pack_panels writes b (a slice of K x some columns) as panels, `apart` words from one to the next.
// Lines of all panels are written side by side, since that is how b is read fastest.
static void pack_panels(Mat b, Layout layout, uint32_t *dst, i64 apart) {
	i64 steps = whole_steps(layout, b.rows);
	for (i64 s = 0; s < steps; s++) {
		lines_ahead(layout, b, s);
		for (i64 c = 0; c < b.cols; c += PANEL) {
			i64 n = least(PANEL, b.cols - c), width = (n + VL - 1) / VL * VL;
			line((float *)(dst + c / PANEL * apart + s * width), layout, b, s, c, n);
		}
	}
}

// transpose_panel packs b, some columns x a slice of K (a panel's column is a row of b), as lines of
// `width` words. It reads VL rows side by side and asks for the next ones meanwhile, unless rows lie so far apart
// that these would share places in the cache with those.
static void transpose_panel(Mat b, uint32_t *dst, i64 width, Layout layout) {
	i64 steps = whole_steps(layout, b.cols), each = layout == PAIRS ? 2 : 1;
	for (i64 c = 0; c < width; c += VL) {
		for (i64 s = 0; s < steps; s += VL) {
			vf t[VL];
			Mat next = part(b, c + VL, each * s, VL, each * VL);
			for (i64 j = 0; j < VL; j++) {
				if (b.stride < 1024) prefetch(next, j);
				if (c + j >= b.rows) t[j] = vset(0.0f);
				else if (layout == PAIRS) t[j] = pairs_along(b, c + j, 2 * s);
				else t[j] = layout == APART ? vswap(mround(b, c + j, s)) : mload(b, c + j, s);
			}
			vtranspose(t);
			for (i64 j = 0; j < least(VL, steps - s); j++) vstore((float *)(dst + (s + j) * width + c), t[j]);
		}
	}
}

// --- The epilogue ----------------------------------------------------------

// A Block is sums of rows x cols elements of the result from (r, c) on, BLOCK_COLS apart, of which
// `done` rows are finished. It waits while the next block begins to be multiplied, and with it the
// memory that it goes to; beside tiles, which work on their own, a few rows are finished at a time.
typedef struct { const GemmArgs *g; const float *sums; i64 r, c, rows, cols, done; } Block;

enum { MOST_ASKS = 5 * BLOCK_ROWS };

// asks_of lists what a block that waits will read and write, and returns the count.
static i64 asks_of(const Block *b, Ask *asks) {
	const GemmArgs *g = b->g;
	const Mat mats[] = {g->grad, g->gate, g->pre, g->ungated, g->dst}; // the first two are read
	i64 n = 0;
	for (int i = 0; i < 5; i++) {
		if (!mats[i].p) continue;
		Mat m = part(mats[i], b->r, b->c, b->rows, b->cols);
		for (i64 r = 0; r < m.rows; r++) asks[n++] = (Ask){(const char *)mat_at(m, r, 0), row_bytes(m), i >= 2};
	}
	return n;
}

// finish_some finishes `vecs` vectors of row r of the result from column c on, a step of all of them after
// the other: each step is asked for once, and no vector waits for the one before.
INLINED void finish_some(
	const int act, const int back, const int vecs, const GemmArgs *g, const float *sums, const float *keep, i64 r, i64 c) {
	vf v[BLOCK_COLS / VL], x[BLOCK_COLS / VL];
#define EACH for (int j = 0; j < vecs; j++)
	EACH v[j] = vload(sums + j * VL);
	if (g->scale.p) {
		mloads(x, vecs, g->scale, 0, c);
		EACH v[j] *= x[j];
	}
	if (g->bias.p) {
		mloads(x, vecs, g->bias, 0, c);
		EACH v[j] += x[j];
	}
	if (g->pre.p) mstores(g->pre, r, c, vecs, v);
	if (back) {
		mloads(x, vecs, g->grad, r, c);
		EACH v[j] *= vact_grad(act, x[j]);
	} else {
		EACH v[j] = vact(act, v[j]);
	}
	if (g->drop_p > 0) EACH v[j] *= vload(keep + j * VL);
	if (g->ungated.p) mstores(g->ungated, r, c, vecs, v);
	if (g->gate.p) {
		mloads(x, vecs, g->gate, r, c);
		EACH v[j] *= x[j];
	}
	if (g->add) {
		mloads(x, vecs, g->dst, r, c);
		EACH v[j] += x[j];
	}
	mstores(g->dst, r, c, vecs, v);
#undef EACH
}

INLINED void finish_row(const int act, const int back, const Block *b, i64 i) {
	const GemmArgs *g = b->g;
	const float *sums = b->sums + i * BLOCK_COLS;
	i64 r = b->r + i;
	float keep[BLOCK_COLS];
	if (g->drop_p > 0) keep_factors(keep, b->cols, g->drop_p, g->drop_key, (uint64_t)(r * g->dst.cols + b->c));
	if (b->cols == BLOCK_COLS) {
		finish_some(act, back, BLOCK_COLS / VL, g, sums, keep, r, b->c);
		return;
	}
	for (i64 j = 0; j < b->cols; j += VL) finish_some(act, back, 1, g, sums + j, keep + j, r, b->c + j);
}

#define FINISH(act, back) \
	static void finish_##act##_##back(const Block *b, i64 from, i64 to) { \
		for (i64 i = from; i < to; i++) finish_row(act, back, b, i); \
	}
FINISH(IDENTITY, 0) FINISH(GELU, 0) FINISH(SILU, 0) FINISH(RELU, 0) FINISH(GELU_SHORT, 0)
FINISH(IDENTITY, 1) FINISH(GELU, 1) FINISH(SILU, 1) FINISH(RELU, 1) FINISH(GELU_SHORT, 1)
#undef FINISH

// finish does up to n more rows of a block.
static void finish(Block *b, i64 n) {
	typedef void (*Finish)(const Block *, i64, i64);
	static const Finish kinds[2][ACTS] = {
		{finish_IDENTITY_0, finish_GELU_0, finish_SILU_0, finish_RELU_0, finish_GELU_SHORT_0},
		{finish_IDENTITY_1, finish_GELU_1, finish_SILU_1, finish_RELU_1, finish_GELU_SHORT_1},
	};
	i64 to = least(b->rows, b->done + n);
	if (b->done == to) return;
	int act = b->g->act == GELU && b->g->dst.bf16 ? GELU_SHORT : b->g->act;
	kinds[b->g->grad.p != NULL][act](b, b->done, to);
	b->done = to;
}

#if TILES
// --- Tiles -----------------------------------------------------------------
//
// Products by the tile registers of AMX, and a stand-in for them that does in
// vectors what Intel's manual says of each instruction, so that all of this runs
// and is tested where there are none. A block of 32 x 32 sums lives in tiles 0 to
// 3; 4 and 5 take rows of A, 6 and 7 columns of B.

enum { TILE = 16 }; // rows of a tile, and words of a row

#if TILES_HARDWARE

// tiles_begin gives all tiles their full size; they belong to the thread until tiles_end.
static inline void tiles_begin(void) {
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.bytes[i] = 4 * TILE;
		config.rows[i] = TILE;
	}
	// gcc 12's own function tells the compiler of the first 8 bytes only: the other stores may come too late.
	__asm__ volatile("ldtilecfg %0" ::"m"(config));
}
static inline void tiles_end(void) { _tile_release(); }
// gcc 12 does not know that loading a tile reads memory: what was written for it must be written by now.
static inline void tiles_ready(void) { __asm__ volatile("" ::: "memory"); }
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, words) _tile_loadd(t, p, 4 * (words))
#define tile_store(t, p, words) _tile_stored(t, p, 4 * (words))
#define tile_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#else

// Between begin and end only, since a library that Python opens has little memory of a thread's own.
static _Thread_local vf (*tiles)[TILE];

static inline void tiles_begin(void) { tiles = aligned_alloc(sizeof(vf), 8 * sizeof *tiles); }
static inline void tiles_end(void) { free(tiles); }
static inline void tiles_ready(void) {}
static inline void tile_zero(int t) { memset(tiles[t], 0, sizeof *tiles); }
static inline void tile_load(int t, const void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) tiles[t][r] = vload((const float *)p + r * words);
}
static inline void tile_store(int t, void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) vstore((float *)p + r * words, tiles[t][r]);
}

// tile_dot is TDPBF16PS: the first and the second numbers of the pairs are summed apart, each by one
// chain of multiply-adds from zero, then together, then added. Denormals are flushed, which the pool
// sees to.
static inline void tile_dot(int c, int a, int b) {
	vi upper = viset((int32_t)0xffff0000);
	for (i64 r = 0; r < TILE; r++) {
		vf first = vset(0.0f), second = vset(0.0f);
		for (i64 k = 0; k < TILE; k++) {
			vi x = (vi)vset(tiles[a][r][k]), y = (vi)tiles[b][k];
			first = vfma((vf)(x << 16), (vf)(y << 16), first);
			second = vfma((vf)(x & upper), (vf)(y & upper), second);
		}
		tiles[c][r] += first + second;
	}
}

#endif

// A TileJob is one block: rows of A, words of K, a packed panel of B from the block's column on.
typedef struct {
	Rows a;
	const uint32_t *b;
	i64 steps, width; // width: words from one line of b to the next
	Sums to;
} TileJob;

INLINED void tile_block(const int down, const int right, TileJob j, Block *before, i64 share) {
	float *lower = j.to.p + TILE * j.to.stride;
	const uint32_t *a = j.a.p, *b = j.b;
	if (j.to.carry) {
		tile_load(0, j.to.p, j.to.stride);
		if (right) tile_load(1, j.to.p + TILE, j.to.stride);
		if (down) tile_load(2, lower, j.to.stride);
		if (down && right) tile_load(3, lower + TILE, j.to.stride);
	} else {
		tile_zero(0);
		if (right) tile_zero(1);
		if (down) tile_zero(2);
		if (down && right) tile_zero(3);
	}
	for (i64 s = 0; s < j.steps; s += TILE, a += TILE, b += TILE * j.width) {
		tile_load(4, a, j.a.row_step);
		tile_load(6, b, j.width);
		tile_dot(0, 4, 6);
		if (right) tile_load(7, b + TILE, j.width);
		if (right) tile_dot(1, 4, 7);
		if (down) tile_load(5, a + TILE * j.a.row_step, j.a.row_step);
		if (down) tile_dot(2, 5, 6);
		if (down && right) tile_dot(3, 5, 7);
		finish(before, share);
	}
	tile_store(0, j.to.p, j.to.stride);
	if (right) tile_store(1, j.to.p + TILE, j.to.stride);
	if (down) tile_store(2, lower, j.to.stride);
	if (down && right) tile_store(3, lower + TILE, j.to.stride);
}

// multiply_tiles is multiply by tiles for at most BLOCK_ROWS rows, and finishes rows of the block before as it goes.
static void multiply_tiles(int vecs, i64 rows, i64 steps, Rows a, const uint32_t *panel, Sums to, Block *before) {
	i64 turns = steps / TILE * ((vecs + 1) / 2), share = turns ? (BLOCK_ROWS + turns - 1) / turns : 0;
	tiles_ready();
	for (int v = 0; v < vecs; v += 2) {
		TileJob j = {a, panel + v * VL, steps, vecs * VL, {to.p + v * VL, to.stride, to.carry}};
		int down = rows > TILE, right = vecs - v > 1;
		if (down && right) tile_block(1, 1, j, before, share);
		else if (down) tile_block(1, 0, j, before, share);
		else if (right) tile_block(0, 1, j, before, share);
		else tile_block(0, 0, j, before, share);
	}
}
#endif

// --- The product -----------------------------------------------------------

// panel_words is how far panels of k numbers of each column lie apart: a line more than they take, since lines that are
// written side by side to places a whole page apart would drive each other out of the cache.
static inline i64 panel_words(const Product *p, i64 k) { return PANEL * (whole_steps(p->layout, k) + 1); }

// A Share is what a task works on.
typedef struct { i64 r, c, rows, cols; } Share;

// add_columns adds the sums of n vectors of columns from c on, side by side, since each is one chain of additions.
INLINED void add_columns(const int n, Mat a, i64 c, float *total) {
	vf sum[4] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)}, x[4];
	for (i64 k = 0; k < a.rows; k++) {
		mloads(x, n, a, k, c);
		for (int j = 0; j < n; j++) sum[j] += x[j];
	}
	for (int j = 0; j < n; j++) vput(total, c + j * VL, a.cols, vpart(total, c + j * VL, a.cols) + sum[j]);
}

// add_rows adds the sum over rows of a, a slice of K x M, to total: as many at a time whatever the slice, for equal bits.
static void add_rows(Mat a, float *total) {
	for (i64 k = 0; k < a.rows; k += SLICE) {
		Mat some = part(a, k, 0, least(SLICE, a.rows - k), a.cols);
		i64 c = 0;
		for (; c + 4 * VL <= a.cols; c += 4 * VL) add_columns(4, some, c, total);
		for (; c < a.cols; c += VL) add_columns(1, some, c, total);
	}
}

// Factors are those of a share for one slice of K, as they are read.
typedef struct { Rows a; const char *panels; i64 steps, panel_bytes; } Factors;

// multiply_panel multiplies rows from r on, at most BLOCK_ROWS, by the panel that begins at column c of the share. Meanwhile
// it asks for the memory of the block before, which it finishes when that has had time to come.
static void multiply_panel(const Product *p, Share s, Factors f, i64 r, i64 c, Sums to, Block *before) {
	i64 rows = least(BLOCK_ROWS, s.rows - r), row_step = f.a.row_step;
	int vecs = (int)((least(PANEL, s.cols - c) + VL - 1) / VL);
	Rows a = {f.a.p + r * row_step, row_step, f.a.step};
	const void *panel = f.panels + c / PANEL * f.panel_bytes;
	Ask list[MOST_ASKS];
	Asks asks = {list, before->done < before->rows ? asks_of(before, list) : 0};
#if TILES
	if (p->layout == PAIRS) {
		while (asks.n > 0) ask_row(&asks);
		multiply_tiles(vecs, rows, f.steps, a, panel, to, before);
		return;
	}
#endif
	multiply(p->layout, vecs, rows, f.steps, a, panel, to, &asks);
	while (asks.n > 0) ask_row(&asks);
	finish(before, BLOCK_ROWS);
}

// whole_product computes a share whose factors are laid out for all of K. Blocks take turns in two places:
// one is finished while the next is multiplied.
static void whole_product(const Product *p, Share s, Factors f, float *sums) {
	Block before = {.g = p->g};
	int turn = 0;
	for (i64 c = 0; c < s.cols; c += BLOCK_COLS) {
		i64 cols = least(BLOCK_COLS, s.cols - c);
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS, turn ^= 1) {
			float *here = sums + turn * BLOCK_ROWS * BLOCK_COLS;
			for (i64 j = 0; j < cols; j += PANEL) multiply_panel(p, s, f, r, c + j, (Sums){here + j, BLOCK_COLS, 0}, &before);
			finish(&before, BLOCK_ROWS);
			before = (Block){p->g, here, s.r + r, s.c + c, least(BLOCK_ROWS, s.rows - r), cols, 0};
		}
	}
	finish(&before, BLOCK_ROWS);
}

// sums_of is where the sums of the block with row r and column c of a share wait for the next slice of K.
static inline float *sums_of(const Product *p, float *sums, i64 r, i64 c) {
	return sums + c / BLOCK_COLS * BLOCK_COLS * p->rows + r * BLOCK_COLS + c % BLOCK_COLS;
}

// add_slice adds the products of one slice of K to the sums of part of a share, a panel for all rows after the other.
static void add_slice(const Product *p, Share s, i64 r0, i64 c0, Factors f, float *sums, int carry) {
	Block none = {.g = p->g};
	for (i64 c = 0; c < s.cols; c += PANEL) {
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS) {
			multiply_panel(p, s, f, r, c, (Sums){sums_of(p, sums, r0 + r, c0 + c), BLOCK_COLS, carry}, &none);
		}
	}
}

// finish_sums finishes a share after the last slice.
static void finish_sums(const Product *p, Share s, float *sums) {
	for (i64 c = 0; c < s.cols; c += BLOCK_COLS) {
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS) {
			Block b = {p->g, sums_of(p, sums, r, c), s.r + r, s.c + c, least(BLOCK_ROWS, s.rows - r), least(BLOCK_COLS, s.cols - c), 0};
			finish(&b, BLOCK_ROWS);
		}
	}
}

// columns_product computes a share of TN, slice by slice of K. What is laid out at a time, MC rows and NC columns, stays
// in the second-level cache; of a share that has more of either, the other is laid out once for all of it. It adds
// A's rows to total, unless that is NULL.
static void columns_product(const Product *p, Share s, float *sums, uint32_t *a_space, uint32_t *b_space, float *total) {
	const GemmArgs *g = p->g;
	int once = p->slice >= p->k;
	Factors f = {.panels = (const char *)b_space, .panel_bytes = panel_words(p, least(p->slice, p->k)) * 4};
	for (i64 k = 0; k < p->k; k += p->slice) {
		i64 kn = least(p->slice, p->k - k);
		f.steps = whole_steps(p->layout, kn);
		for (i64 c = 0; c < s.cols; c += NC) {
			Mat b = part(g->b, k, s.c + c, kn, least(NC, s.cols - c));
			pack_panels(b, p->layout, b_space, f.panel_bytes / 4);
			for (i64 r = 0; r < s.rows; r += MC) {
				Mat a = part(g->a, k, s.r + r, kn, least(MC, s.rows - r));
				Share here = {s.r + r, s.c + c, a.cols, b.cols};
				if (c == 0 || s.rows > MC) f.a = rows_across(a, p->layout, f.steps, a_space);
				if (c == 0 && total) add_rows(a, total + r);
				if (once) whole_product(p, here, f, sums);
				else add_slice(p, here, r, c, f, sums, k > 0);
			}
		}
	}
	if (!once) finish_sums(p, s, sums);
}

static void gemm_task(const void *args, i64 i, Worker *w) {
	const Product *p = args;
	const GemmArgs *g = p->g;
	// Neighbouring tasks share their rows of A, or columns of B where those are more, which then stay in the core's cache.
	Share s = {i / p->right * p->rows, i % p->right * p->cols, 0, 0};
	if (p->n > p->m) s = (Share){i % p->down * p->rows, i / p->down * p->cols, 0, 0};
	s.rows = least(p->rows, p->m - s.r);
	s.cols = least(p->cols, p->n - s.c);
	float *sums = (float *)w->scratch, sum_a[2 * MC] = {0}, *total = g->sum_a.p && s.c == 0 ? sum_a : NULL;
	uint32_t *a_space = (uint32_t *)(w->scratch + p->sums), *b_space = (uint32_t *)(w->scratch + p->sums + p->a);
#if TILES
	if (p->layout == PAIRS) tiles_begin();
#endif
	if (g->op == TN) columns_product(p, s, sums, a_space, b_space, total);
	else {
		i64 steps = whole_steps(p->layout, p->k), bytes = panel_words(p, p->k) * 4;
		Rows a = rows_along(part(g->a, s.r, 0, s.rows, p->k), p->layout, steps, a_space);
		whole_product(p, s, (Factors){a, p->panels + s.c / PANEL * bytes, steps, bytes}, sums);
	}
#if TILES
	if (p->layout == PAIRS) tiles_end();
#endif
	if (total) {
		Mat sum = part(g->sum_a, 0, s.r, 1, s.rows);
		for (i64 c = 0; c < s.rows; c += VL) mstore(sum, 0, c, mload(sum, 0, c) + vload(total + c));
	}
}

// divide cuts the result into tasks of so many rows and columns, and returns their count.
static i64 divide(Product *p, i64 rows, i64 cols) {
	p->rows = rows;
	p->cols = cols;
	p->down = (p->m + rows - 1) / rows;
	p->right = (p->n + cols - 1) / cols;
	return p->down * p->right;
}

// whole_part is one of n parts of a length, as a multiple of unit.
static inline i64 whole_part(i64 length, i64 n, i64 unit) { return (length + n * unit - 1) / (n * unit) * unit; }

// share_columns divides a product that lays out both factors: into the tasks that take the threads least time, counted
// in products of two numbers. To lay out a number takes as long as LAY_OUT of them.
static i64 share_columns(Product *p, int threads) {
	enum { LAY_OUT = 8 };
	i64 rows[] = {2 * MC, MC, MC / 2, MC / 4, whole_part(p->m, threads, BLOCK_ROWS)};
	i64 cols[] = {2 * NC, NC, NC * 2 / 3, NC / 3, whole_part(p->n, threads, BLOCK_COLS)};
	i64 least_time = INT64_MAX, best = 0;
	for (i64 i = 0; i < 25; i++) {
		i64 r = rows[i / 5], c = cols[i % 5];
		if (r > 2 * MC || c > 2 * NC || (r > MC && c > NC)) continue;
		i64 turns = (divide(p, r, c) + threads - 1) / threads;
		i64 time = turns * (r * c + LAY_OUT * (r + c));
		if (time >= least_time) continue;
		least_time = time;
		best = i;
	}
	return divide(p, rows[best / 5], cols[best % 5]);
}

// share_rows divides a product whose tasks lay out little: into so many that none of the threads waits long for the last.
static i64 share_rows(Product *p, int threads) {
	i64 rows = MC / 2, cols = whole_part(p->n, 1, BLOCK_COLS);
	for (;;) {
		i64 tasks = divide(p, rows, cols);
		if (threads == 1 || tasks >= 16 * threads) return tasks;
		if (cols > BLOCK_COLS) cols = whole_part(cols, 2, BLOCK_COLS);
		else if (rows > MC / 4) rows = MC / 4;
		else return tasks;
	}
}

static Product product_of(const GemmArgs *g) {
	Product p = {.g = g, .m = g->dst.rows, .n = g->dst.cols, .k = g->op == TN ? g->a.rows : g->a.cols, .panels = g->packed};
	p.layout = layout_of(g->bf16);
	p.slice = g->op != TN ? p.k : p.layout == PAIRS ? 2 * SLICE : SLICE;
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
	uint32_t *dst = panel + (p->layout == PAIRS ? k / 2 : k) * width;
	if (g->op == NN) pack_panels(part(g->b, k, c, kn, cols), p->layout, dst, 0);
	else transpose_panel(part(g->b, c, k, cols, kn), dst, width, p->layout);
}

static int gemm(Pool *pool, const void *args) {
	const GemmArgs *g = args;
	Product p = product_of(g);
	if (p.m == 0 || p.n == 0) return OK;
	i64 tasks = g->op == TN ? share_columns(&p, pool_threads(pool)) : share_rows(&p, pool_threads(pool));
	i64 kn = least(p.slice, p.k), steps = whole_steps(p.layout, kn);
	int once = p.slice >= p.k;
	p.sums = (size_t)(once ? 2 * BLOCK_ROWS * BLOCK_COLS : p.rows * p.cols) * 4;
	p.a = (size_t)(g->op == TN ? MC * (steps + 2 * VL) : p.layout != FLOATS ? p.rows * copy_step(steps) : 0) * 4;
	size_t b = g->op == TN ? (size_t)(NC / PANEL * panel_words(&p, kn)) * 4 : 0;
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
