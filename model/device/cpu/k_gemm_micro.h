// k_gemm_micro.h: the innermost loops of products: a few rows of A times a panel
// of B, with the sums in registers.

#define PANEL (VL * TILE_VECTORS)

// A factor's slice as micro-kernels read it, in units of 4 bytes (a float or a
// pair of bf16): element (row, step) is p[row*row_step + step*step].
typedef struct { const uint32_t *p; i64 row_step, step; } Rows;

// Where sums go, and whether they go on from what is there.
typedef struct { float *p; i64 stride; int carry; } Sums;

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
