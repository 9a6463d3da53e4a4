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
//   epilogue (k_epilogue.h: scale, bias, activation or its gradient, dropout, gate,
//   addition) reads them from the L1 cache and writes dst. The block waits ("pending")
//   while the next one is multiplied. With vectors (k_micro.h) its rows of dst are
//   prefetched meanwhile; with tiles (k_tiles.h) its epilogue runs meanwhile.
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

// tile_copy returns the copy of A for tiles, which are laid out one after the other.
static inline LeftFactor tile_copy(const uint32_t *copy, i64 steps) { return (LeftFactor){copy, steps, VL, VL}; }

// layout_rows lays out a, whose rows have consecutive steps in memory. It returns a
// in place if micro-kernels can read that: fp32, or bf16 without padding, where the
// stride is a multiple of a word and tiles never read past the last row. Otherwise it
// returns a copy.
static LeftFactor layout_rows(Mat a, Layout layout, i64 steps, uint32_t *copy) {
	if (layout == FLOATS) return (LeftFactor){(const uint32_t *)a.p, a.stride, 1, 0};
	int fits = TILES ? a.cols % (2 * VL) == 0 && a.rows % VL == 0 : a.cols % 2 == 0;
	if (layout == PAIRS && a.bf16 && fits && a.stride % 2 == 0) return (LeftFactor){(const uint32_t *)a.p, a.stride / 2, 1, a.stride / 2};
	i64 pitch = copy_pitch(steps);
	LeftFactor to = TILES ? tile_copy(copy, steps) : (LeftFactor){copy, pitch, 1, pitch};
	for (i64 r = 0; r < a.rows; r++) {
		float *row = (float *)(copy + r / VL * VL * to.row_step + r % VL * to.pitch);
		for (i64 s = 0; s < steps; s += VL) vstore(row + s * to.step, layout == PAIRS ? pairs_in_row(a, r, 2 * s) : vswap(mround(a, r, s)));
	}
	return to;
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
	if (TILES) {
		for (i64 s = 0; s < steps; s += VL) {
			for (i64 c = 0; c < a.cols; c += VL) {
				vf t[VL];
				for (i64 j = 0; j < VL; j++) t[j] = 2 * (s + j) < a.rows ? mpair(a, 2 * (s + j), c) : vset(0.0f);
				vtranspose(t);
				for (i64 j = 0; j < VL; j++) vstore((float *)(copy + c * steps + (s + j) * VL), t[j]);
			}
			// The next block's 2*VL rows; prefetch_ahead adds 8. Attention's weights, in fp32,
			// are in the cache.
			for (i64 k = 2 * s; a.bf16 && k < 2 * (s + VL); k++) prefetch_ahead(a, k + 2 * VL - 8);
		}
		return tile_copy(copy, steps);
	}
	i64 pitch = (a.cols + VL - 1) / VL * VL;
	for (i64 s = 0; s < steps; s++) {
		prefetch_step(layout, a, s);
		pack_step((float *)(copy + s * pitch), layout, a, s, 0, a.cols);
	}
	return (LeftFactor){copy, 1, pitch, 0};
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

#if !TILES
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
#endif

// multiply_panel multiplies up to BLOCK_ROWS rows of a region, from row r on, by the
// panel that begins at column c. With tiles, the epilogue of the pending block runs
// meanwhile. Vectors prefetch its memory meanwhile, and run it afterwards, when that
// memory has had time to arrive.
static void multiply_panel(const Product *p, Region s, Factors f, i64 r, i64 c, Sums to, Backlog *l) {
	i64 rows = imin(BLOCK_ROWS, s.rows - r);
	int vecs = (int)((imin(PANEL, s.cols - c) + VL - 1) / VL);
	const void *panel = f.panels + c / PANEL * f.panel_bytes;
#if TILES
	multiply_tiles(vecs, rows, f.steps, from_row(f.a, r), panel, to, l);
	(void)p;
#else
	Segment list[MAX_SEGMENTS];
	PrefetchList prefetches = {list, l->pending.done < l->pending.rows ? segments_of(&l->pending, list) : 0};
	multiply(p->layout, vecs, rows, f.steps, from_row(f.a, r), panel, to, &prefetches);
	while (prefetches.n > 0) prefetch_next(&prefetches);
	run_epilogue(&l->pending);
#endif
}

// sums_at returns where the sum at (r, c) of a region is kept between slices of K: in
// strips of BLOCK_COLS columns, so that the sums of a block are consecutive.
static inline float *sums_at(const Product *p, float *sums, i64 r, i64 c) {
	return sums + c / BLOCK_COLS * BLOCK_COLS * p->rows + r * BLOCK_COLS + c % BLOCK_COLS;
}

// A Part says which part of a task's region is multiplied: it begins at row r and column c
// of the region, in the slice of K that begins at k.
typedef struct { i64 r, c, k; } Part;

// multiply_part adds the products of one slice of K to the sums of a part s of a task's
// region, and runs the epilogue if the slice is the last one. A block is pending while
// the next one is multiplied. If there is only one slice, blocks alternate between two
// buffers of sums.
//
// Vectors multiply all rows by one block's columns before the next, so that its panels stay
// in the cache. Tiles multiply a block's rows by all columns before the next, so that the
// rows stay there and panels are read in the order in which they are stored.
static void multiply_part(const Product *p, Region s, Part at, Factors f, float *sums, Backlog *l) {
	int last = at.k + p->slice >= p->k;
	i64 height = TILES ? BLOCK_ROWS : s.rows;
	for (i64 top = 0; top < s.rows; top += height) {
		for (i64 c = 0; c < s.cols; c += BLOCK_COLS) {
			i64 cols = imin(BLOCK_COLS, s.cols - c);
			for (i64 r = top; r < imin(top + height, s.rows); r += BLOCK_ROWS) {
				i64 rows = imin(BLOCK_ROWS, s.rows - r);
				float *to = p->slice < p->k ? sums_at(p, sums, at.r + r, at.c + c) : sums + (l->pending.sums == sums) * BLOCK_ROWS * BLOCK_COLS;
				Block block = {p->g, to, s.r + r, s.c + c, rows, cols, last ? 0 : rows};
				for (i64 j = 0; j < cols; j += PANEL) multiply_panel(p, s, f, r, c + j, (Sums){to + j, BLOCK_COLS, at.k > 0}, l);
				run_epilogue(&l->pending);
				l->pending = block;
			}
		}
	}
}

// sliced_product computes a region of TN, slice by slice of K. MC rows of A and NC
// columns of B are laid out at a time, which together fit the L2 cache. A region
// exceeds that for at most one factor (see divide_sliced), so that everything is laid
// out once per slice. If total is not NULL, the sums of A's columns are added to it.
static void sliced_product(const Product *p, Region s, float *sums, uint32_t *a_space, uint32_t *b_space, float *total, Backlog *l) {
	const GemmArgs *g = p->g;
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
				multiply_part(p, block, (Part){r, c, k}, f, sums, l);
			}
		}
	}
}

// full_product computes a region of NN or NT, whose panels hold all of K. With tiles it
// lays out one block's rows at a time, and prefetches the next ones.
static void full_product(const Product *p, Region s, float *sums, uint32_t *a_space, Backlog *l) {
	i64 bytes = panel_stride(p, p->k) * 4, steps = padded_steps(p->layout, p->k), height = TILES ? BLOCK_ROWS : s.rows;
	Factors f = {.panels = p->panels + s.c / PANEL * bytes, .steps = steps, .panel_bytes = bytes};
	for (i64 r = 0; r < s.rows; r += height) {
		Region rows = {s.r + r, s.c, imin(height, s.rows - r), s.cols};
		f.a = layout_rows(part(p->g->a, rows.r, 0, rows.rows, p->k), p->layout, steps, a_space);
		if (TILES) { // prefetch the next rows, evenly over all steps but the first of each block
			i64 next = imin(height, p->m - rows.r - rows.rows), rounds = (s.cols + PANEL - 1) / PANEL * (steps / VL - 1);
			l->ahead = (Ahead){part(p->g->a, rows.r + rows.rows, 0, next, p->k), 0, 0};
			l->lines = rounds > 0 ? (next * ((row_bytes(p->g->a) + 63) / 64) + rounds - 1) / rounds : 0;
		}
		multiply_part(p, rows, (Part){0, 0, 0}, f, sums, l);
	}
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
	tiles_begin();
#endif
	Backlog l = {.pending.g = g};
#if TILES
	l.fused = fused_kind(g);
#endif
	if (g->op == TN) sliced_product(p, s, sums, a_space, b_space, total, &l);
	else full_product(p, s, sums, a_space, &l);
#if TILES
	store_tiles(&l);
	tiles_end();
#endif
	run_epilogue(&l.pending);
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
// last task; 4 with tiles, which multiply so fast that the data which tasks share costs
// more. It splits the columns first, then the rows.
static i64 divide_full_k(Product *p, int threads) {
	enum { TASKS = TILES ? 4 : 16, LEAST = TILES ? BLOCK_ROWS : MC / 4 };
	i64 rows = TILES && p->n <= NC ? BLOCK_ROWS : MC / 2, cols = split_length(p->n, 1, BLOCK_COLS);
	for (;;) {
		i64 tasks = divide(p, rows, cols);
		if (threads == 1 || tasks >= TASKS * threads) return tasks;
		if (cols > BLOCK_COLS) cols = split_length(cols, 2, BLOCK_COLS);
		else if (rows > LEAST) rows = LEAST;
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
	p.sums = (size_t)(p.slice >= p.k ? 2 * BLOCK_ROWS * BLOCK_COLS : p.rows * p.cols) * 4;
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
