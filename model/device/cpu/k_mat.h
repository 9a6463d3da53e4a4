// k_mat.h: loads, stores and prefetches of matrix elements by vectors, for both
// storage formats (fp32, and bf16 where VEC_BF16 is set). Kernels compute in fp32
// either way.
//
// Naming: mload and mstore handle the end of a row; the _full forms require VL
// numbers within the row; mloads and mstores take several vectors side by side.

#if VEC_BF16
// A bf16 number is the upper half of a float: loading shifts it into place, storing rounds
// to nearest even.
static inline vf vload_bf16(const uint16_t *p) {
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}
static inline vf vloadn_bf16(const uint16_t *p, i64 n) {
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vtail(n), p)), 16);
}
static inline void vstoren_bf16(uint16_t *p, vf v, i64 n) { _mm256_mask_storeu_epi16(p, vtail(n), bf16(v)); }
#endif

// mat_at returns the address of element (r, c) of m. If m is stored as bf16 it points
// to uint16_t despite its type.
static inline float *mat_at(Mat m, i64 r, i64 c) {
	i64 at = r * m.stride + c;
	return m.bf16 ? (float *)((uint16_t *)m.p + at) : m.p + at;
}

// part returns the view of rows x cols elements from (r, c) on. A matrix that is not
// given stays so.
static inline Mat part(Mat m, i64 r, i64 c, i64 rows, i64 cols) {
	return (Mat){m.p ? mat_at(m, r, c) : NULL, rows, cols, m.stride, m.bf16};
}

// PREFETCH_FN marks functions that do nothing but prefetch. They must be inlined: gcc
// considers an outlined one free of side effects and drops the calls.
#define PREFETCH_FN INLINED void

// prefetch_lines prefetches the cache lines, of 64 bytes, that hold [p, p + bytes).
// Prefetching for writing requests the line exclusively, so that the store does not
// have to wait for it.
PREFETCH_FN prefetch_lines(const char *p, i64 bytes, int write) {
	for (i64 b = 0; b < bytes; b += 64) {
		if (write) __builtin_prefetch(p + b, 1);
		else __builtin_prefetch(p + b);
	}
}

static inline i64 row_bytes(Mat m) { return m.cols * (m.bf16 ? 2 : 4); }

// prefetch_row prefetches row r of m for reading. r may be past the end: prefetches
// do not fault.
PREFETCH_FN prefetch_row(Mat m, i64 r) { prefetch_lines((const char *)mat_at(m, r, 0), row_bytes(m), 0); }

// prefetch_row_write prefetches row r of m for writing. The hardware prefetcher does
// not follow the rows of a wide matrix, which are too far apart, and a store to a
// line that is not in the cache has to wait for it.
PREFETCH_FN prefetch_row_write(Mat m, i64 r) { prefetch_lines((const char *)mat_at(m, r, 0), row_bytes(m), 1); }

// prefetch_rows and prefetch_rows_write prefetch all rows of m.
PREFETCH_FN prefetch_rows(Mat m) {
	for (i64 r = 0; r < m.rows; r++) prefetch_row(m, r);
}
PREFETCH_FN prefetch_rows_write(Mat m) {
	for (i64 r = 0; r < m.rows; r++) prefetch_row_write(m, r);
}

// mload_full loads the VL numbers at (r, c), all of which are within the row.
INLINED vf mload_full(Mat m, i64 r, i64 c) {
#if VEC_BF16
	if (m.bf16) return vload_bf16((const uint16_t *)mat_at(m, r, c));
#endif
	return vload(m.p + r * m.stride + c);
}

// mstore_full stores VL numbers at (r, c).
INLINED void mstore_full(Mat m, i64 r, i64 c, vf v) {
#if VEC_BF16
	if (m.bf16) {
		vstore_bf16(mat_at(m, r, c), v);
		return;
	}
#endif
	vstore(m.p + r * m.stride + c, v);
}

// mload loads the numbers at (r, c) to the end of the row, at most VL, and fills with
// zeros.
static inline vf mload(Mat m, i64 r, i64 c) {
	i64 n = m.cols - c;
	if (n >= VL) return mload_full(m, r, c);
#if VEC_BF16
	if (m.bf16) return vloadn_bf16((const uint16_t *)mat_at(m, r, c), n);
#endif
	return vloadn(m.p + r * m.stride + c, n);
}

// mstore stores as many of VL numbers at (r, c) as the row holds.
static inline void mstore(Mat m, i64 r, i64 c, vf v) {
	i64 n = m.cols - c;
	if (n >= VL) {
		mstore_full(m, r, c, v);
		return;
	}
#if VEC_BF16
	if (m.bf16) {
		vstoren_bf16((uint16_t *)mat_at(m, r, c), v, n);
		return;
	}
#endif
	vstoren(m.p + r * m.stride + c, v, n);
}

// mget, mset and vget are loads and stores specialised by `full`, a compile-time
// constant that says that rows consist of full vectors. Kernels are instantiated for
// both values, so that the common case has no check for the end of a row.
INLINED vf mget(const int full, Mat m, i64 r, i64 c) { return full ? mload_full(m, r, c) : mload(m, r, c); }
INLINED void mset(const int full, Mat m, i64 r, i64 c, vf v) { full ? mstore_full(m, r, c, v) : mstore(m, r, c, v); }

INLINED vf vget(const int full, const float *p, i64 c, i64 cols) { return full ? vload(p + c) : vpart(p, c, cols); }

// mloads and mstores access n vectors side by side; n is a compile-time constant. If
// n > 1 all of them are within the row.
INLINED void mloads(vf *v, const int n, Mat m, i64 r, i64 c) {
	for (int j = 0; j < n; j++) v[j] = mget(n > 1, m, r, c + j * VL);
}

INLINED void mstores(Mat m, i64 r, i64 c, const int n, const vf *v) {
#if VEC_BF16
	// Two vectors of fp32 become one of bf16: one conversion and one store for both.
	if (m.bf16 && n > 1) {
		for (int j = 0; j < n; j += 2) vstore((float *)((uint16_t *)m.p + r * m.stride + c + j * VL), vpairs(v[j], v[j + 1]));
		return;
	}
#endif
	for (int j = 0; j < n; j++) mset(n > 1, m, r, c + j * VL, v[j]);
}
