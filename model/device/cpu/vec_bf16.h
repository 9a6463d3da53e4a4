// vec_bf16.h: products of bf16 pairs, for machines with AVX512-BF16.

// vdot adds x0*y0 + x1*y1 of each pair to c.
static inline vf vdot(vf x, vf y, vf c) {
	return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)x, (__m512bh)y);
}

static inline __m256i bf16(vf x) { return (__m256i)_mm512_cvtneps_pbh((__m512)x); }

// vround is numbers that bf16 could hold.
static inline vf vround(vf x) { return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16(x)), 16); }

// vpair is the pairs (x[i], y[i]), rounded.
static inline vf vpair(vf x, vf y) {
	__m512i hi = _mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16(y)), 16);
	return (vf)_mm512_or_si512(_mm512_cvtepu16_epi32(bf16(x)), hi);
}

// vstore_bf16 stores 16 numbers as 16 bf16 in a row.
static inline void vstore_bf16(void *dst, vf x) { _mm256_storeu_si256((__m256i *)dst, bf16(x)); }

// vpairs is the pairs (x[0], x[1]), ..., (y[0], y[1]), ..., rounded.
static inline vf vpairs(vf x, vf y) { return (vf)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x); }

// The places of two rows' bf16, one after the other, in pairs (x[i], y[i]): of the first and of the second 16.
typedef uint16_t vh __attribute__((vector_size(64)));
#define ZIP(i) i, 32 + i
#define ZIP8(i) ZIP(i), ZIP(i + 1), ZIP(i + 2), ZIP(i + 3), ZIP(i + 4), ZIP(i + 5), ZIP(i + 6), ZIP(i + 7)
static const vh zip_lower = {ZIP8(0), ZIP8(8)}, zip_upper = {ZIP8(16), ZIP8(24)};

// vpick is number i of 32, i being the lower five bits of each place.
static inline vf vpick(vi i, const float *table) {
	return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)i, _mm512_loadu_ps(table + 16));
}
