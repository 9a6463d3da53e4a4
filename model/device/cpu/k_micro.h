// k_micro.h: the micro-kernels of GEMM (k_gemm.h): a few rows of A times one panel of B,
// with the sums in registers.

// A Layout is the format of packed factors. A step is a 4-byte word of a row or
// column.
//
// - FLOATS: a step is one number, in fp32.
// - PAIRS: a step is a pair of numbers (k, k+1) rounded to bf16, for dot product
//   instructions. k is in the lower half.
// - SWAPPED: numbers rounded to bf16 but stored as fp32, with the two numbers of each pair
//   swapped. AVX512-BF16 adds the product of a pair's upper numbers first, then that of
//   the lower ones. Multiply-adds in this order give the same bits.
typedef enum { FLOATS, PAIRS, SWAPPED } Layout;

// layout_of chooses the layout of both factors of a GEMM. Hardware that has dot
// products of pairs may still be faster with multiply-adds (see comparePairs in
// peak.go).
static inline Layout layout_of(int bf16) { return !TILES && !bf16 ? FLOATS : VEC_BF16 && (TILES || pairs_are_fast) ? PAIRS : SWAPPED; }

// Columns of a panel: two tiles, or TILE_VECTORS vectors (vec_*.h).
#if TILES
#define PANEL (2 * VL)
#else
#define PANEL (VL * TILE_VECTORS)
#endif

// A LeftFactor is (a slice of) A as micro-kernels read it: the word of row r and step
// s is p[r*row_step + s*step]. Rows in place and copies of rows have step 1. For TN,
// A's rows are columns in memory, and copies have row_step 1. For tiles this holds for
// the first words of tiles, of which rows are `pitch` words apart: copies are laid out
// tile by tile.
typedef struct { const uint32_t *p; i64 row_step, step, pitch; } LeftFactor;

// from_row returns the rows of a from row r on.
static inline LeftFactor from_row(LeftFactor a, i64 r) {
	a.p += r * a.row_step;
	return a;
}

// Sums is where a micro-kernel stores its sums, row by row. accumulate: it starts
// from the sums that are there, instead of from zero.
typedef struct { float *p; i64 stride; int accumulate; } Sums;

// A PrefetchList holds segments of rows that will be read or written soon, each some
// cache lines long. A micro-kernel prefetches one segment every PREFETCH_STEPS steps.
// Issuing more at once would fill the core's line-fill buffers, of which there are
// few, and loads of A and B would wait for them.
typedef struct { const char *p; i64 bytes; int write; } Segment;
typedef struct { const Segment *rows; i64 n; } PrefetchList;
enum { PREFETCH_STEPS = 8 };

// prefetch_next prefetches one segment of the list, if any is left, and removes it.
PREFETCH_FN prefetch_next(PrefetchList *a) {
	if (a->n == 0) return;
	Segment row = a->rows[--a->n];
	prefetch_lines(row.p, row.bytes, row.write);
}

// The macros below generate the micro-kernels. A micro-kernel adds `steps` products
// to rows x vecs vectors of sums, which must stay in registers. gcc keeps variables
// in registers but not arrays, so each sum is a variable c<row>_<vector>; ROWSn(F, V)
// expands F for n rows, and VECSn(X, r) expands X for n vectors of row r.
//
// The shapes use most registers for sums: with 32 registers, 6 x 4 or 8 x 3 or 12 x 2
// sums plus a row of B and a broadcast number of A. That gives enough independent
// chains to hide the latency of multiply-adds, and each loaded number is used many
// times.
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

#if !TILES
#define ZERO_ONE(r, v) vf c##r##_##v = vset(0.0f);
#define ZERO(r, V) V(ZERO_ONE, r)
#define RELOAD_ONE(r, v) c##r##_##v = vload(sums + v * VL);
#define RELOAD(r, V) V(RELOAD_ONE, r) sums += to->stride;
#define LOAD_B(r, v) vf b##v = vload(b + v * VL);
#define MADD_ONE_0(r, v) c##r##_##v = vfma(x, b##v, c##r##_##v);
#define MADD_ONE_1(r, v) c##r##_##v = vdot(x, b##v, c##r##_##v);
#define MADD_0(r, V) { vf x = vset(p[r * row_step]); V(MADD_ONE_0, r) }
#define MADD_1(r, V) { vf x = vset(p[r * row_step]); V(MADD_ONE_1, r) }
#define STORE_ONE(r, v) vstore(sums + v * VL, c##r##_##v);
#define STORE(r, V) V(STORE_ONE, r) sums += stride;

// Micro takes a and to by pointer, although both are small. multiply changes them
// between calls, by 8-byte stores; passing them by value would copy them by 16-byte
// loads that span two such stores. Store forwarding cannot serve those, and each call
// would wait 70 to 140 cycles until the stores have reached the cache.
typedef void (*Micro)(i64 steps, const LeftFactor *a, const float *b, const Sums *to, PrefetchList *prefetches);

#define MICRO(rows, vecs, native) \
	static void micro_##rows##_##vecs##_##native(i64 steps, const LeftFactor *a, const float *b, const Sums *to, PrefetchList *prefetches) { \
		const float *p = (const float *)a->p; \
		float *sums = to->p; \
		i64 row_step = a->row_step, step = a->step; \
		ROWS##rows(ZERO, VECS##vecs) \
		if (to->accumulate) { ROWS##rows(RELOAD, VECS##vecs) } \
		for (i64 s = 0; s < steps;) { \
			prefetch_next(prefetches); \
			for (i64 end = imin(steps, s + PREFETCH_STEPS); s < end; s++, p += step, b += vecs * VL) { \
				VECS##vecs(LOAD_B, 0) \
				ROWS##rows(MADD_##native, VECS##vecs) \
			} \
		} \
		i64 stride = to->stride; \
		sums = to->p; \
		__asm__("" : "+r"(sums), "+r"(stride)); /* keeps gcc from computing 24 store addresses before the loop */ \
		ROWS##rows(STORE, VECS##vecs) \
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
// micros[pairs][vecs] are the micro-kernels for 1 to TILE_VECTORS vectors of columns,
// by descending number of rows: tile_rows[vecs], 4, 2, 1.
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

// multiply adds the product of `rows` rows of a and a packed slice of `vecs` vectors
// of columns to the sums. It uses the largest micro-kernel that fits, and smaller
// ones for the remaining rows. Segments of the prefetch list are prefetched on the
// way.
static void multiply(Layout layout, int vecs, i64 rows, i64 steps, LeftFactor a, const void *panel, Sums to, PrefetchList *prefetches) {
	const Micro *kind = micros[layout == PAIRS][vecs];
	const int sizes[4] = {tile_rows[vecs], 4, 2, 1};
	for (i64 r = 0, s = 0; r < rows; r += sizes[s]) {
		while (sizes[s] > rows - r) s++;
		kind[s](steps, &a, panel, &to, prefetches);
		a.p += sizes[s] * a.row_step;
		to.p += sizes[s] * to.stride;
	}
}
#endif
