// k_mat.h: vectors of a matrix, whichever way its numbers are stored.

#if VEC_BF16
// Numbers of bf16 are the upper halves of floats; storing rounds to the nearest.
static inline vf vload_bf16(const uint16_t *p) {
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}
static inline vf vloadn_bf16(const uint16_t *p, i64 n) {
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vtail(n), p)), 16);
}
static inline void vstoren_bf16(uint16_t *p, vf v, i64 n) { _mm256_mask_storeu_epi16(p, vtail(n), bf16(v)); }
#endif

// mat_at is element (r, c) of m; a pointer to uint16_t in disguise where m is stored as bf16.
static inline float *mat_at(Mat m, i64 r, i64 c) {
	i64 at = r * m.stride + c;
	return m.bf16 ? (float *)((uint16_t *)m.p + at) : m.p + at;
}

static inline Mat part(Mat m, i64 r, i64 c, i64 rows, i64 cols) {
	return (Mat){m.p ? mat_at(m, r, c) : NULL, rows, cols, m.stride, m.bf16};
}

// ASKS is for functions that do nothing but ask for memory: of one that is not inlined gcc thinks
// that it has no effect, and drops its calls.
#define ASKS INLINED void

// ask_lines asks for so many bytes from p on, to be read or to be written.
ASKS ask_lines(const char *p, i64 bytes, int write) {
	for (i64 b = 0; b < bytes; b += 64) {
		if (write) __builtin_prefetch(p + b, 1);
		else __builtin_prefetch(p + b);
	}
}

static inline i64 row_bytes(Mat m) { return m.cols * (m.bf16 ? 2 : 4); }

// prefetch asks for row r of m, which need not be there.
ASKS prefetch(Mat m, i64 r) { ask_lines((const char *)mat_at(m, r, 0), row_bytes(m), 0); }

// prefetch_to does so for a row that is about to be written: rows of a wide matrix lie so far apart
// that the processor does not foresee the next, and a store has to have its line first.
ASKS prefetch_to(Mat m, i64 r) { ask_lines((const char *)mat_at(m, r, 0), row_bytes(m), 1); }

// ask_rows asks for all of m, to be read or written soon.
ASKS ask_rows(Mat m) {
	for (i64 r = 0; r < m.rows; r++) prefetch(m, r);
}
ASKS ask_rows_to(Mat m) {
	for (i64 r = 0; r < m.rows; r++) prefetch_to(m, r);
}

// mwhole is the VL numbers at (r, c..) of m, which lie within the row; mput stores them.
INLINED vf mwhole(Mat m, i64 r, i64 c) {
#if VEC_BF16
	if (m.bf16) return vload_bf16((const uint16_t *)mat_at(m, r, c));
#endif
	return vload(m.p + r * m.stride + c);
}

INLINED void mput(Mat m, i64 r, i64 c, vf v) {
#if VEC_BF16
	if (m.bf16) {
		vstore_bf16(mat_at(m, r, c), v);
		return;
	}
#endif
	vstore(m.p + r * m.stride + c, v);
}

// mload is the numbers at (r, c..) of m as far as the row goes, at most VL, then zeros; mstore stores them.
static inline vf mload(Mat m, i64 r, i64 c) {
	i64 n = m.cols - c;
	if (n >= VL) return mwhole(m, r, c);
#if VEC_BF16
	if (m.bf16) return vloadn_bf16((const uint16_t *)mat_at(m, r, c), n);
#endif
	return vloadn(m.p + r * m.stride + c, n);
}

static inline void mstore(Mat m, i64 r, i64 c, vf v) {
	i64 n = m.cols - c;
	if (n >= VL) {
		mput(m, r, c, v);
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

// Where `whole` is a constant that says that all of a matrix's rows are whole vectors, no vector's end is looked for.
INLINED vf mget(const int whole, Mat m, i64 r, i64 c) { return whole ? mwhole(m, r, c) : mload(m, r, c); }
INLINED void mset(const int whole, Mat m, i64 r, i64 c, vf v) { whole ? mput(m, r, c, v) : mstore(m, r, c, v); }

INLINED vf vget(const int whole, const float *p, i64 c, i64 cols) { return whole ? vload(p + c) : vpart(p, c, cols); }

// mloads and mstores are those of n vectors side by side. More than one lie wholly within the row.
INLINED void mloads(vf *v, const int n, Mat m, i64 r, i64 c) {
	for (int j = 0; j < n; j++) v[j] = mget(n > 1, m, r, c + j * VL);
}

INLINED void mstores(Mat m, i64 r, i64 c, const int n, const vf *v) {
#if VEC_BF16
	if (m.bf16 && n > 1) {
		for (int j = 0; j < n; j += 2) vstore((float *)((uint16_t *)m.p + r * m.stride + c + j * VL), vpairs(v[j], v[j + 1]));
		return;
	}
#endif
	for (int j = 0; j < n; j++) mset(n > 1, m, r, c + j * VL, v[j]);
}
