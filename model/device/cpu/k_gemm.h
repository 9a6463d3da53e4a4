// k_gemm.h: matrix multiplication (GEMM), dst = epilogue(op(A) op(B)). After op, A is
// M x K, B is K x N and dst is M x N. It takes 2 M N K operations.
//
// The structure is the usual one of packed panels and register blocking:
//
// - A micro-kernel multiplies a few rows of A by one panel of B and keeps the sums in
//   registers (or in AMX tiles) over all of K, or over a slice of K.
// - Both factors are laid out in the order in which the micro-kernel reads them. B is
//   packed into panels of PANEL columns, padded with zeros. A is read in place where its
//   rows have the right format, else copied.
// - The sums of a block of BLOCK_ROWS x BLOCK_COLS elements go to scratch, and the
//   epilogue (scale, bias, activation or its gradient, dropout, gate, addition) reads
//   them from the L1 cache and writes dst. The block waits ("pending") while the next one
//   is multiplied, and its rows of dst are prefetched meanwhile.
//
// NN and NT (forward passes and gradients of inputs): B, the weights, is packed once
// for all tasks, or ahead of time if it is frozen. A task computes some rows by some
// columns of dst, over all of K.
//
// TN (gradients of weights): K is the number of rows of a batch, and both factors are
// long. A task goes through K in slices. For each slice it packs the part of both
// factors that it is about to use into scratch that fits the L2 cache, and it keeps
// its sums in scratch between slices.
//
// Memory traffic: each task reads its rows of A once, B is read once and written once
// as panels (frozen weights: only the first time), and dst and the matrices of the
// epilogue are touched once.
//
// Determinism: the order of additions within an element of dst depends only on K and on
// the layout. It is one chain over ascending k, to which pairs add two products and
// tiles 32 products at a time. It does not depend on the division into tasks, blocks
// and slices, nor on the other rows and columns, so that results depend neither on the
// batch size nor on the number of threads.

// --- Sizes -----------------------------------------------------------------

enum {
	// A block is what the epilogue processes at a time. Four vectors of columns let it
	// process a row in one sweep. The rows are a multiple of the micro-kernels' rows
	// (or two tiles), and few enough that two blocks of sums, at most 16 KiB, leave
	// most of the L1 cache to the factors.
	BLOCK_ROWS = TILES ? 32 : VL < 16 ? 12 : 24,
	BLOCK_COLS = 4 * VL,
	// Rows of A, and in TN columns of B, that a task lays out at a time. With SLICE
	// steps of K either takes 192 KiB, so that both fit the L2 cache. Their fractions
	// that divide_sliced tries are multiples of BLOCK_ROWS (without tiles) and
	// BLOCK_COLS.
	MC = 192,
	NC = 192,
	// Length in K that one task packs.
	PACK_K = 256,
	// Steps (floats or pairs) of a slice of K in TN.
	SLICE = 256
};

// A Product is a GEMM and its division into tasks.
typedef struct {
	const GemmArgs *g;
	i64 m, n, k;
	Layout layout;
	i64 slice;            // numbers of K that a task lays out at a time; k for NN and NT
	i64 rows, cols;       // size of a task's region of dst
	i64 tasks_m, tasks_n; // number of regions in each direction
	const char *panels;   // all of B packed (NN, NT), or NULL
	// A worker's scratch holds sums, then rows of A, then (TN) panels of B: the sizes in
	// bytes of the first two.
	size_t sums, a;
} Product;

// --- Packing ---------------------------------------------------------------
//
// If a GEMM rounds its factors to bf16, it does so here.

#if !VEC_BF16
// vround rounds to the nearest bf16, ties to even, and returns it as floats. Adding 0x7fff
// plus the lowest bit that remains carries into the upper half exactly when it must.
static inline vf vround(vf x) {
	vi bits = (vi)x, number = x == x; // NaN keeps its bits: a carry could make it infinite
	vi up = (bits + 0x7fff + (bits >> 16 & 1)) & (int32_t)0xffff0000;
	return (vf)((up & number) | (bits & ~number));
}
#endif

// mround is mload rounded to bf16. Numbers stored as bf16 need no rounding.
static inline vf mround(Mat m, i64 r, i64 c) { return VEC_BF16 && m.bf16 ? mload(m, r, c) : vround(mload(m, r, c)); }

// prefetch_ahead prefetches row r + 8, to be read a few iterations later. Rows of a
// long factor are too far apart for the hardware prefetcher.
PREFETCH_FN prefetch_ahead(Mat m, i64 r) { prefetch_row(m, r + 8); }

#if VEC_BF16
// mpair returns the pairs (m[r][c], m[r+1][c]) of VL columns from c on, with zeros
// past the last row and column.
static inline vf mpair(Mat m, i64 r, i64 c) {
	if (!m.bf16) return vpair(mload(m, r, c), r + 1 < m.rows ? mload(m, r + 1, c) : vset(0.0f));
	vi lower = (vi)((vu)mload(m, r, c) >> 16);
	return (vf)(r + 1 < m.rows ? lower | (vi)mload(m, r + 1, c) : lower);
}

// mpairs stores those pairs for n columns from c on, rounded up to full vectors. Two
// rows of bf16 are interleaved by permutations, 32 columns at a time.
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

// pairs_in_row returns VL pairs (m[r][c], m[r][c+1]), (m[r][c+2], m[r][c+3]), ...
// with zeros past the last column.
static inline vf pairs_in_row(Mat m, i64 r, i64 c) {
	if (m.bf16) {
		i64 n = imin(2 * VL, m.cols - c);
		const uint16_t *p = (const uint16_t *)mat_at(m, r, c);
		return (vf)(n == 2 * VL ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p));
	}
	return vpairs(mload(m, r, c), c + VL < m.cols ? mload(m, r, c + VL) : vset(0.0f));
}
#else
// Without bf16 instructions the layout is never PAIRS, and these are never called.
// They only let the code below compile.
static inline vf mpair(Mat m, i64 r, i64 c) { return mload(m, r, c); }
static inline vf pairs_in_row(Mat m, i64 r, i64 c) { return mload(m, r, c); }
static inline void mpairs(float *dst, Mat m, i64 r, i64 c, i64 n) { (void)n, vstore(dst, mload(m, r, c)); }
#endif

// padded_steps returns the number of steps that k numbers take: a pair is completed
// with a zero, and tiles read VL steps at a time, of which the last may be filled
// with zeros. Both factors are padded, so that the additional products are 0 * 0 even
// if a factor holds NaN or an infinity.
static inline i64 padded_steps(Layout layout, i64 k) {
	if (layout == FLOATS) return k;
	i64 pairs = (k + 1) / 2;
	if (layout == SWAPPED) return 2 * pairs;
	return TILES ? (pairs + VL - 1) / VL * VL : pairs;
}

// copy_pitch returns the distance in words between copied rows of A. With the extra
// vector, rows of a power of two steps are not a multiple of the page size apart, at
// which they would share cache sets.
static inline i64 copy_pitch(i64 steps) { return (steps + VL - 1) / VL * VL + VL; }

// layout_rows lays out a, whose rows have consecutive steps in memory. It returns a
// in place if micro-kernels can read that: fp32, or bf16 without padding, where the
// stride is a multiple of a word and tiles never read past the last row. Otherwise it
// returns a copy.
static LeftFactor layout_rows(Mat a, Layout layout, i64 steps, uint32_t *copy) {
	i64 pitch = copy_pitch(steps);
	if (layout == FLOATS) return (LeftFactor){(const uint32_t *)a.p, a.stride, 1};
	int fits = TILES ? a.cols % (2 * VL) == 0 && a.rows % VL == 0 : a.cols % 2 == 0;
	if (layout == PAIRS && a.bf16 && fits && a.stride % 2 == 0) return (LeftFactor){(const uint32_t *)a.p, a.stride / 2, 1};
	for (i64 r = 0; r < a.rows; r++) {
		float *row = (float *)(copy + r * pitch);
		for (i64 s = 0; s < steps; s += VL) vstore(row + s, layout == PAIRS ? pairs_in_row(a, r, 2 * s) : vswap(mround(a, r, s)));
	}
	return (LeftFactor){copy, pitch, 1};
}

// pack_step writes step s of n columns of m from c on to dst, in full vectors. m is K
// x columns. Steps past the last row are zeros.
INLINED void pack_step(float *dst, Layout layout, Mat m, i64 s, i64 c, i64 n) {
	i64 r = layout == PAIRS ? 2 * s : layout == SWAPPED ? s ^ 1 : s;
	if (r >= m.rows) memset(dst, 0, (n + VL - 1) / VL * VL * 4);
	else if (layout == PAIRS) mpairs(dst, m, r, c, n);
	else for (i64 j = 0; j < n; j += VL) vstore(dst + j, layout == SWAPPED ? mround(m, r, c + j) : mload(m, r, c + j));
}

// prefetch_step prefetches what pack_step will read a few steps later.
PREFETCH_FN prefetch_step(Layout layout, Mat m, i64 s) {
	if (layout != PAIRS) prefetch_ahead(m, s);
	else prefetch_ahead(m, 2 * s), prefetch_ahead(m, 2 * s + 1);
}

// layout_columns copies a, whose rows are columns in memory (a is K x M). For vectors
// the copy has the same order, step by step: a micro-kernel broadcasts one number of
// each row per step. Tiles need the steps of a row next to each other, so blocks of
// VL x VL words are transposed.
static LeftFactor layout_columns(Mat a, Layout layout, i64 steps, uint32_t *copy) {
	if (layout == PAIRS && TILES) {
		i64 pitch = copy_pitch(steps);
		for (i64 s = 0; s < steps; s += VL) {
			for (i64 c = 0; c < a.cols; c += VL) {
				vf t[VL];
				for (i64 j = 0; j < VL; j++) t[j] = 2 * (s + j) < a.rows ? mpair(a, 2 * (s + j), c) : vset(0.0f);
				vtranspose(t);
				for (i64 j = 0; j < VL; j++) vstore((float *)(copy + (c + j) * pitch + s), t[j]);
			}
			// The next block's 2*VL rows; prefetch_ahead adds 8.
			for (i64 k = 2 * s; k < 2 * (s + VL); k++) prefetch_ahead(a, k + 2 * VL - 8);
		}
		return (LeftFactor){copy, pitch, 1};
	}
	i64 pitch = (a.cols + VL - 1) / VL * VL;
	for (i64 s = 0; s < steps; s++) {
		prefetch_step(layout, a, s);
		pack_step((float *)(copy + s * pitch), layout, a, s, 0, a.cols);
	}
	return (LeftFactor){copy, 1, pitch};
}

// pack_panels packs b, a slice of K x some columns, into panels that begin `pitch`
// words apart. It reads b row by row, which is the fastest order, and so writes one
// step of all panels at a time.
static void pack_panels(Mat b, Layout layout, uint32_t *dst, i64 pitch) {
	i64 steps = padded_steps(layout, b.rows);
	for (i64 s = 0; s < steps; s++) {
		prefetch_step(layout, b, s);
		for (i64 c = 0; c < b.cols; c += PANEL) {
			i64 n = imin(PANEL, b.cols - c), width = (n + VL - 1) / VL * VL;
			pack_step((float *)(dst + c / PANEL * pitch + s * width), layout, b, s, c, n);
		}
	}
}

// pack_transposed packs b into one panel of `width` words per step, where b is some
// columns x a slice of K: a column of the panel is a row of b. It transposes VL x VL
// words in registers. The next VL rows of b are prefetched meanwhile, unless their
// stride is so large that the two groups of rows would compete for the same cache
// sets.
static void pack_transposed(Mat b, uint32_t *dst, i64 width, Layout layout) {
	i64 steps = padded_steps(layout, b.cols), each = layout == PAIRS ? 2 : 1;
	for (i64 c = 0; c < width; c += VL) {
		for (i64 s = 0; s < steps; s += VL) {
			vf t[VL];
			Mat next = part(b, c + VL, each * s, VL, each * VL);
			for (i64 j = 0; j < VL; j++) {
				if (b.stride < 1024) prefetch_row(next, j);
				if (c + j >= b.rows) t[j] = vset(0.0f);
				else if (layout == PAIRS) t[j] = pairs_in_row(b, c + j, 2 * s);
				else t[j] = layout == SWAPPED ? vswap(mround(b, c + j, s)) : mload(b, c + j, s);
			}
			vtranspose(t);
			for (i64 j = 0; j < imin(VL, steps - s); j++) vstore((float *)(dst + (s + j) * width + c), t[j]);
		}
	}
}

// --- The epilogue ----------------------------------------------------------

// A Block is the sums of rows x cols elements of dst from (r, c) on, in rows of
// BLOCK_COLS, for whose first `done` rows the epilogue has run. It is pending while
// the next block is multiplied, so that its memory has time to arrive. The tile unit
// runs asynchronously, so that with tiles a few rows of the epilogue run after each
// step of K. Their memory is then prefetched one block earlier, while the block itself
// is multiplied.
typedef struct { const GemmArgs *g; const float *sums; i64 r, c, rows, cols, done; } Block;

// The rows of all five matrices that segments_of lists.
enum { MAX_SEGMENTS = 5 * BLOCK_ROWS };

// segments_of lists what the epilogue of a block will read and write, and returns the
// number of segments.
static i64 segments_of(const Block *b, Segment *prefetches) {
	const GemmArgs *g = b->g;
	const Mat mats[] = {g->grad, g->gate, g->pre, g->ungated, g->dst}; // the first two are only read
	i64 n = 0;
	for (int i = 0; i < 5; i++) {
		if (!mats[i].p) continue;
		Mat m = part(mats[i], b->r, b->c, b->rows, b->cols);
		for (i64 r = 0; r < m.rows; r++) prefetches[n++] = (Segment){(const char *)mat_at(m, r, 0), row_bytes(m), i >= 2};
	}
	return n;
}

// epilogue_vectors runs the epilogue for `vecs` vectors of row r of dst from column c
// on. Each step is done for all vectors before the next step, so that each condition
// is tested once and no vector waits for the previous one. act, grad (whether the
// epilogue multiplies by the activation's derivative) and vecs are compile-time
// constants.
INLINED void epilogue_vectors(
	const int act, const int grad, const int vecs, const GemmArgs *g, const float *sums, const float *keep, i64 r, i64 c) {
	vf v[BLOCK_COLS / VL], x[BLOCK_COLS / VL];
#define FOR_VECS for (int j = 0; j < vecs; j++)
	FOR_VECS v[j] = vload(sums + j * VL);
	if (g->scale.p) {
		mloads(x, vecs, g->scale, 0, c);
		FOR_VECS v[j] *= x[j];
	}
	if (g->bias.p) {
		mloads(x, vecs, g->bias, 0, c);
		FOR_VECS v[j] += x[j];
	}
	if (g->pre.p) mstores(g->pre, r, c, vecs, v);
	if (grad) {
		mloads(x, vecs, g->grad, r, c);
		FOR_VECS v[j] *= vact_grad(act, x[j]);
	} else {
		FOR_VECS v[j] = vact(act, v[j]);
	}
	if (g->drop_p > 0) FOR_VECS v[j] *= vload(keep + j * VL);
	if (g->ungated.p) mstores(g->ungated, r, c, vecs, v);
	if (g->gate.p) {
		mloads(x, vecs, g->gate, r, c);
		FOR_VECS v[j] *= x[j];
	}
	if (g->add) {
		mloads(x, vecs, g->dst, r, c);
		FOR_VECS v[j] += x[j];
	}
	mstores(g->dst, r, c, vecs, v);
#undef FOR_VECS
}

// epilogue_row runs the epilogue for row i of a block: in one sweep if the block has
// its full width, else vector by vector with checks for the end of the row.
INLINED void epilogue_row(const int act, const int grad, const Block *b, i64 i) {
	const GemmArgs *g = b->g;
	const float *sums = b->sums + i * BLOCK_COLS;
	i64 r = b->r + i;
	float keep[BLOCK_COLS];
	if (g->drop_p > 0) keep_factors(keep, b->cols, g->drop_p, g->drop_key, (uint64_t)(r * g->dst.cols + b->c));
	if (b->cols == BLOCK_COLS) {
		epilogue_vectors(act, grad, BLOCK_COLS / VL, g, sums, keep, r, b->c);
		return;
	}
	for (i64 j = 0; j < b->cols; j += VL) epilogue_vectors(act, grad, 1, g, sums + j, keep + j, r, b->c + j);
}

// One function for each activation and direction, so that the loops contain no
// branches on them.
#define EPILOGUE(act, grad) \
	static void epilogue_##act##_##grad(const Block *b, i64 from, i64 to) { \
		for (i64 i = from; i < to; i++) epilogue_row(act, grad, b, i); \
	}
EPILOGUE(IDENTITY, 0) EPILOGUE(GELU, 0) EPILOGUE(SILU, 0) EPILOGUE(RELU, 0) EPILOGUE(GELU_BF16, 0)
EPILOGUE(IDENTITY, 1) EPILOGUE(GELU, 1) EPILOGUE(SILU, 1) EPILOGUE(RELU, 1) EPILOGUE(GELU_BF16, 1)
#undef EPILOGUE

// run_epilogue runs the epilogue for up to n more rows of a block.
static void run_epilogue(Block *b, i64 n) {
	typedef void (*Epilogue)(const Block *, i64, i64);
	static const Epilogue kinds[2][ACTS] = {
		{epilogue_IDENTITY_0, epilogue_GELU_0, epilogue_SILU_0, epilogue_RELU_0, epilogue_GELU_BF16_0},
		{epilogue_IDENTITY_1, epilogue_GELU_1, epilogue_SILU_1, epilogue_RELU_1, epilogue_GELU_BF16_1},
	};
	i64 to = imin(b->rows, b->done + n);
	if (b->done == to) return;
	// A result that is rounded to bf16 does not need the exact GELU.
	int act = b->g->act == GELU && b->g->dst.bf16 ? GELU_BF16 : b->g->act;
	kinds[b->g->grad.p != NULL][act](b, b->done, to);
	b->done = to;
}

#if TILES
// --- Tiles -----------------------------------------------------------------
//
// GEMMs of bf16 pairs by AMX. 32 x 32 sums are in tiles 0 to 3; tiles 4 and 5 hold rows
// of A, tiles 6 and 7 columns of B. Without TILES_HARDWARE the instructions are
// emulated in vectors, as Intel's manual defines them, so that this code runs and is
// tested on machines without AMX.

// Rows of a tile, and 4-byte words of a row.
enum { TILE = 16 };

#if TILES_HARDWARE

// tiles_begin configures all tiles to their full size, 16 rows of 64 bytes. The tiles
// belong to the thread until tiles_end releases them.
static inline void tiles_begin(void) {
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.bytes[i] = 4 * TILE;
		config.rows[i] = TILE;
	}
	// gcc 12's intrinsic declares only the first 8 bytes as input, so that the compiler
	// may move the other stores behind it.
	__asm__ volatile("ldtilecfg %0" ::"m"(config));
}
static inline void tiles_end(void) { _tile_release(); }
// tiles_ready is a compiler barrier between writing memory and loading it into tiles:
// gcc 12 does not know that tile loads read memory.
static inline void tiles_ready(void) { __asm__ volatile("" ::: "memory"); }
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, words) _tile_loadd(t, p, 4 * (words))
#define tile_store(t, p, words) _tile_stored(t, p, 4 * (words))
#define tile_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#else

// The emulated tiles, allocated between tiles_begin and tiles_end: a library that is
// loaded at run time, as by Python, has little room for thread-local variables.
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

// tile_dot is TDPBF16PS: it sums the products of the lower and of the upper numbers
// of the pairs separately, each by a chain of multiply-adds from zero, adds the two
// sums, and then adds the result to the tile. The instruction flushes denormals; here
// the thread's mode does (pool.c).
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

// A TileJob is up to 32 x 32 sums: rows of A, and the columns of a packed panel of B that
// begin at b.
typedef struct {
	LeftFactor a;
	const uint32_t *b;
	i64 steps, width; // width: words of a step of the panel
	Sums to;
} TileJob;

// Meanwhile is what the core does after each step while the tile unit works: the epilogue
// of `rows` rows of the pending block, and prefetches of `segments` segments.
typedef struct { Block *pending; i64 rows; PrefetchList prefetches; i64 segments; } Meanwhile;

// tile_block computes a TileJob. down and right, compile-time constants, say whether
// it has more than 16 rows and more than 16 columns. Tiles always load 16 rows of A:
// past the last row they read scratch, whose sums nobody stores to dst. After each
// step of K, while the tile unit works, the epilogue runs for some rows of the pending
// block and some segments are prefetched.
INLINED void tile_block(const int down, const int right, TileJob j, Meanwhile *m) {
	float *lower = j.to.p + TILE * j.to.stride;
	const uint32_t *a = j.a.p, *b = j.b;
	if (j.to.accumulate) {
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
		for (i64 i = 0; i < m->segments; i++) prefetch_next(&m->prefetches);
		run_epilogue(m->pending, m->rows);
	}
	tile_store(0, j.to.p, j.to.stride);
	if (right) tile_store(1, j.to.p + TILE, j.to.stride);
	if (down) tile_store(2, lower, j.to.stride);
	if (down && right) tile_store(3, lower + TILE, j.to.stride);
}

// multiply_tiles is multiply by tiles, for at most BLOCK_ROWS rows. It spreads the
// epilogue of the pending block, and the segments of the prefetch list, evenly over its
// steps.
static void multiply_tiles(int vecs, i64 rows, i64 steps, LeftFactor a, const uint32_t *panel, Sums to, Block *pending, PrefetchList prefetches) {
	i64 rounds = steps / TILE * ((vecs + 1) / 2);
	if (rounds == 0) rounds = 1;
	Meanwhile m = {pending, (BLOCK_ROWS + rounds - 1) / rounds, prefetches, (prefetches.n + rounds - 1) / rounds};
	tiles_ready();
	for (int v = 0; v < vecs; v += 2) {
		TileJob j = {a, panel + v * VL, steps, vecs * VL, {to.p + v * VL, to.stride, to.accumulate}};
		int down = rows > TILE, right = vecs - v > 1;
		if (down && right) tile_block(1, 1, j, &m);
		else if (down) tile_block(1, 0, j, &m);
		else if (right) tile_block(0, 1, j, &m);
		else tile_block(0, 0, j, &m);
	}
}
#endif

// --- The product -----------------------------------------------------------

// panel_stride returns the distance in words between panels of k numbers per column.
// It has room for one more step than a panel takes: pack_panels writes one step of
// all panels at a time, and at a distance of a multiple of the page size these writes
// would evict each other from the cache.
static inline i64 panel_stride(const Product *p, i64 k) { return PANEL * (padded_steps(p->layout, k) + 1); }

// A Region is the part of dst that a task computes.
typedef struct { i64 r, c, rows, cols; } Region;

// sum_vectors adds the sums of the columns of n vectors from column c on to total.
// Each column is one chain of additions; n chains run side by side.
INLINED void sum_vectors(const int n, Mat a, i64 c, float *total) {
	vf sum[4] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)}, x[4];
	for (i64 k = 0; k < a.rows; k++) {
		mloads(x, n, a, k, c);
		for (int j = 0; j < n; j++) sum[j] += x[j];
	}
	for (int j = 0; j < n; j++) vput(total, c + j * VL, a.cols, vpart(total, c + j * VL, a.cols) + sum[j]);
}

// sum_columns adds the sums of a's columns to total, where a is a slice of K x M. It
// sums SLICE rows at a time even if the slice is longer, so that the bits do not
// depend on the layout's slice.
static void sum_columns(Mat a, float *total) {
	for (i64 k = 0; k < a.rows; k += SLICE) {
		Mat some = part(a, k, 0, imin(SLICE, a.rows - k), a.cols);
		i64 c = 0;
		for (; c + 4 * VL <= a.cols; c += 4 * VL) sum_vectors(4, some, c, total);
		for (; c < a.cols; c += VL) sum_vectors(1, some, c, total);
	}
}

// Factors are both factors of a region for one slice of K, laid out.
typedef struct { LeftFactor a; const char *panels; i64 steps, panel_bytes; } Factors;

// multiply_panel multiplies up to BLOCK_ROWS rows of a region, from row r on, by the
// panel that begins at column c, which is part of a block. Meanwhile it prefetches the
// memory of the pending block, whose epilogue it runs afterwards, when that memory has had
// time to arrive. With tiles the epilogue runs meanwhile too, and the memory that is
// prefetched is that of the block.
static void multiply_panel(const Product *p, Region s, Factors f, i64 r, i64 c, Sums to, const Block *block, Block *pending) {
	i64 rows = imin(BLOCK_ROWS, s.rows - r), row_step = f.a.row_step;
	int vecs = (int)((imin(PANEL, s.cols - c) + VL - 1) / VL);
	LeftFactor a = {f.a.p + r * row_step, row_step, f.a.step};
	const void *panel = f.panels + c / PANEL * f.panel_bytes;
	Segment list[MAX_SEGMENTS];
#if TILES
	if (p->layout == PAIRS) {
		multiply_tiles(vecs, rows, f.steps, a, panel, to, pending, (PrefetchList){list, segments_of(block, list)});
		return;
	}
#endif
	PrefetchList prefetches = {list, pending->done < pending->rows ? segments_of(pending, list) : 0};
	multiply(p->layout, vecs, rows, f.steps, a, panel, to, &prefetches);
	while (prefetches.n > 0) prefetch_next(&prefetches);
	run_epilogue(pending, BLOCK_ROWS);
}

// full_k_product computes a region whose factors are laid out for all of K. Blocks
// alternate between two buffers of sums: one is pending while the other is
// multiplied.
static void full_k_product(const Product *p, Region s, Factors f, float *sums) {
	Block pending = {.g = p->g};
	int half = 0;
	for (i64 c = 0; c < s.cols; c += BLOCK_COLS) {
		i64 cols = imin(BLOCK_COLS, s.cols - c);
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS, half ^= 1) {
			float *block_sums = sums + half * BLOCK_ROWS * BLOCK_COLS;
			Block block = {p->g, block_sums, s.r + r, s.c + c, imin(BLOCK_ROWS, s.rows - r), cols, 0};
			for (i64 j = 0; j < cols; j += PANEL) multiply_panel(p, s, f, r, c + j, (Sums){block_sums + j, BLOCK_COLS, 0}, &block, &pending);
			run_epilogue(&pending, BLOCK_ROWS);
			pending = block;
		}
	}
	run_epilogue(&pending, BLOCK_ROWS);
}

// sums_at returns where the sum at (r, c) of a region is kept between slices of K.
// The sums are stored in strips of BLOCK_COLS columns, so that a block looks as in
// full_k_product.
static inline float *sums_at(const Product *p, float *sums, i64 r, i64 c) {
	return sums + c / BLOCK_COLS * BLOCK_COLS * p->rows + r * BLOCK_COLS + c % BLOCK_COLS;
}

// add_slice adds the products of one slice of K to the sums of part of a region. It
// multiplies all rows by one panel before the next, so that the panel stays in the
// cache.
static void add_slice(const Product *p, Region s, i64 r0, i64 c0, Factors f, float *sums, int accumulate) {
	Block empty = {.g = p->g};
	for (i64 c = 0; c < s.cols; c += PANEL) {
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS) {
			multiply_panel(p, s, f, r, c, (Sums){sums_at(p, sums, r0 + r, c0 + c), BLOCK_COLS, accumulate}, &empty, &empty);
		}
	}
}

// epilogue_region runs the epilogue for all blocks of a region after the last slice.
static void epilogue_region(const Product *p, Region s, float *sums) {
	for (i64 c = 0; c < s.cols; c += BLOCK_COLS) {
		for (i64 r = 0; r < s.rows; r += BLOCK_ROWS) {
			Block b = {p->g, sums_at(p, sums, r, c), s.r + r, s.c + c, imin(BLOCK_ROWS, s.rows - r), imin(BLOCK_COLS, s.cols - c), 0};
			run_epilogue(&b, BLOCK_ROWS);
		}
	}
}

// sliced_product computes a region of TN, slice by slice of K. MC rows of A and NC
// columns of B are laid out at a time, which together fit the L2 cache. A region
// exceeds that for at most one factor (see divide_sliced), so that everything is laid
// out once per slice. If total is not NULL, the sums of A's columns are added to it.
static void sliced_product(const Product *p, Region s, float *sums, uint32_t *a_space, uint32_t *b_space, float *total) {
	const GemmArgs *g = p->g;
	int single_slice = p->slice >= p->k;
	Factors f = {.panels = (const char *)b_space, .panel_bytes = panel_stride(p, imin(p->slice, p->k)) * 4};
	for (i64 k = 0; k < p->k; k += p->slice) {
		i64 kn = imin(p->slice, p->k - k);
		f.steps = padded_steps(p->layout, kn);
		for (i64 c = 0; c < s.cols; c += NC) {
			Mat b = part(g->b, k, s.c + c, kn, imin(NC, s.cols - c));
			pack_panels(b, p->layout, b_space, f.panel_bytes / 4);
			for (i64 r = 0; r < s.rows; r += MC) {
				Mat a = part(g->a, k, s.r + r, kn, imin(MC, s.rows - r));
				Region block = {s.r + r, s.c + c, a.cols, b.cols};
				// A's rows stay laid out for all columns, unless the region has more
				// than MC of them.
				if (c == 0 || s.rows > MC) f.a = layout_columns(a, p->layout, f.steps, a_space);
				if (c == 0 && total) sum_columns(a, total + r);
				if (single_slice) full_k_product(p, block, f, sums);
				else add_slice(p, block, r, c, f, sums, k > 0);
			}
		}
	}
	if (!single_slice) epilogue_region(p, s, sums);
}

// gemm_task computes region i. Consecutive tasks share their rows of A, or their
// columns of B if there are more columns than rows. pool.c gives consecutive tasks to
// one thread, so the shared part stays in that core's cache.
static void gemm_task(const void *args, i64 i, Worker *w) {
	const Product *p = args;
	const GemmArgs *g = p->g;
	Region s = {i / p->tasks_n * p->rows, i % p->tasks_n * p->cols, 0, 0};
	if (p->n > p->m) s = (Region){i % p->tasks_m * p->rows, i / p->tasks_m * p->cols, 0, 0};
	s.rows = imin(p->rows, p->m - s.r);
	s.cols = imin(p->cols, p->n - s.c);
	// The sums of A's columns are the work of the tasks with the first columns of dst.
	float *sums = (float *)w->scratch, sum_a[2 * MC] = {0}, *total = g->sum_a.p && s.c == 0 ? sum_a : NULL;
	uint32_t *a_space = (uint32_t *)(w->scratch + p->sums), *b_space = (uint32_t *)(w->scratch + p->sums + p->a);
#if TILES
	if (p->layout == PAIRS) tiles_begin();
#endif
	if (g->op == TN) sliced_product(p, s, sums, a_space, b_space, total);
	else {
		i64 steps = padded_steps(p->layout, p->k), bytes = panel_stride(p, p->k) * 4;
		LeftFactor a = layout_rows(part(g->a, s.r, 0, s.rows, p->k), p->layout, steps, a_space);
		full_k_product(p, s, (Factors){a, p->panels + s.c / PANEL * bytes, steps, bytes}, sums);
	}
#if TILES
	if (p->layout == PAIRS) tiles_end();
#endif
	if (total) {
		Mat sum = part(g->sum_a, 0, s.r, 1, s.rows);
		for (i64 c = 0; c < s.rows; c += VL) mstore(sum, 0, c, mload(sum, 0, c) + vload(total + c));
	}
}

// divide sets the size of a task's region and returns the number of tasks.
static i64 divide(Product *p, i64 rows, i64 cols) {
	p->rows = rows;
	p->cols = cols;
	p->tasks_m = (p->m + rows - 1) / rows;
	p->tasks_n = (p->n + cols - 1) / cols;
	return p->tasks_m * p->tasks_n;
}

// split_length returns the length of one of n parts, rounded up to a multiple of
// unit.
static inline i64 split_length(i64 length, i64 n, i64 unit) { return (length + n * unit - 1) / (n * unit) * unit; }

// divide_sliced divides a TN product into tasks. It tries a few sizes and takes the
// one with the shortest estimated time, in multiply-adds per unit of K: the number of
// rounds of tasks times the cost of a task. Laying out a number costs as much as
// PACK_COST multiply-adds. A region may exceed MC rows or NC columns, but not both.
static i64 divide_sliced(Product *p, int threads) {
	enum { PACK_COST = 8 };
	i64 rows[] = {2 * MC, MC, MC / 2, MC / 4, split_length(p->m, threads, BLOCK_ROWS)};
	i64 cols[] = {2 * NC, NC, NC * 2 / 3, NC / 3, split_length(p->n, threads, BLOCK_COLS)};
	i64 best_time = INT64_MAX, best = 0;
	for (i64 i = 0; i < 25; i++) {
		i64 r = rows[i / 5], c = cols[i % 5];
		if (r > 2 * MC || c > 2 * NC || (r > MC && c > NC)) continue;
		i64 rounds = (divide(p, r, c) + threads - 1) / threads;
		i64 time = rounds * (r * c + PACK_COST * (r + c));
		if (time >= best_time) continue;
		best_time = time;
		best = i;
	}
	return divide(p, rows[best / 5], cols[best % 5]);
}

// divide_full_k divides an NN or NT product, whose tasks lay out little, into at
// least 16 tasks per thread if its size allows, so that no thread waits long for the
// last task. It splits the columns first, then the rows.
static i64 divide_full_k(Product *p, int threads) {
	i64 rows = MC / 2, cols = split_length(p->n, 1, BLOCK_COLS);
	for (;;) {
		i64 tasks = divide(p, rows, cols);
		if (threads == 1 || tasks >= 16 * threads) return tasks;
		if (cols > BLOCK_COLS) cols = split_length(cols, 2, BLOCK_COLS);
		else if (rows > MC / 4) rows = MC / 4;
		else return tasks;
	}
}

// product_of returns the sizes and the layout of a GEMM. A slice of TN has the same
// number of words in every layout.
static Product product_of(const GemmArgs *g) {
	Product p = {.g = g, .m = g->dst.rows, .n = g->dst.cols, .k = g->op == TN ? g->a.rows : g->a.cols, .panels = g->packed};
	p.layout = layout_of(g->bf16);
	p.slice = g->op != TN ? p.k : p.layout == PAIRS ? 2 * SLICE : SLICE;
	return p;
}

static i64 panels_of(const Product *p) { return (p->n + PANEL - 1) / PANEL; }
static i64 packs_of(const Product *p) { return (p->k + PACK_K - 1) / PACK_K; }
static size_t packed_bytes(const Product *p) { return (size_t)(panels_of(p) * panel_stride(p, p->k)) * 4; }

// pack_task packs one panel for PACK_K numbers of K. PACK_K is even, so that a pair
// never spans two tasks.
static void pack_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const Product *p = args;
	const GemmArgs *g = p->g;
	i64 c = i / packs_of(p) * PANEL, k = i % packs_of(p) * PACK_K;
	i64 kn = imin(PACK_K, p->k - k), cols = imin(PANEL, p->n - c), width = (cols + VL - 1) / VL * VL;
	uint32_t *panel = (uint32_t *)(uintptr_t)p->panels + c / PANEL * panel_stride(p, p->k);
	uint32_t *dst = panel + (p->layout == PAIRS ? k / 2 : k) * width;
	if (g->op == NN) pack_panels(part(g->b, k, c, kn, cols), p->layout, dst, 0);
	else pack_transposed(part(g->b, c, k, cols, kn), dst, width, p->layout);
}

// gemm packs B if that has not been done (NN, NT), then runs the tasks. pool_reserve
// may move the shared memory, so the panels' address is read afterwards.
static int gemm(Pool *pool, const void *args) {
	const GemmArgs *g = args;
	Product p = product_of(g);
	if (p.m == 0 || p.n == 0) return OK;
	i64 tasks = g->op == TN ? divide_sliced(&p, pool_threads(pool)) : divide_full_k(&p, pool_threads(pool));
	i64 kn = imin(p.slice, p.k), steps = padded_steps(p.layout, kn);
	int single_slice = p.slice >= p.k;
	p.sums = (size_t)(single_slice ? 2 * BLOCK_ROWS * BLOCK_COLS : p.rows * p.cols) * 4;
	p.a = (size_t)(g->op == TN ? MC * (steps + 2 * VL) : p.layout != FLOATS ? p.rows * copy_pitch(steps) : 0) * 4;
	size_t b = g->op == TN ? (size_t)(NC / PANEL * panel_stride(&p, kn)) * 4 : 0;
	size_t packed = g->op == TN || g->packed ? 0 : packed_bytes(&p);
	if (pool_reserve(pool, p.sums + p.a + b, packed)) return NO_MEMORY;
	if (packed) {
		p.panels = pool_shared(pool);
		pool_run(pool, pack_task, &p, panels_of(&p) * packs_of(&p));
	}
	pool_run(pool, gemm_task, &p, tasks);
	return OK;
}

// pack implements K_PACK: it packs B of an NN or NT product for later calls of gemm.
// Without dst it only returns the size.
static int pack(Pool *pool, const void *args) {
	PackArgs *a = (PackArgs *)args; // its size is a result
	Product p = product_of(&a->g);
	a->size = packed_bytes(&p);
	p.panels = a->dst;
	if (a->dst) pool_run(pool, pack_task, &p, panels_of(&p) * packs_of(&p));
	return OK;
}
