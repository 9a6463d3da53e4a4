// vec_bf16.h: the vector operations on bf16 of AVX512-BF16. A vector of pairs has 16
// words of two bf16 numbers each; the functions pass it as vf.

// vdot adds x0*y0 + x1*y1 of each pair to c. The instruction adds the product of the
// upper numbers first.
static inline vf vdot(vf x, vf y, vf c) {
	return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)x, (__m512bh)y);
}

// bf16 rounds to nearest even and flushes denormals, as the instruction defines.
static inline __m256i bf16(vf x) { return (__m256i)_mm512_cvtneps_pbh((__m512)x); }

// vround rounds to bf16 and returns the result as floats.
static inline vf vround(vf x) { return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16(x)), 16); }

// vpair returns the pairs (x[i], y[i]), rounded.
static inline vf vpair(vf x, vf y) {
	__m512i hi = _mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16(y)), 16);
	return (vf)_mm512_or_si512(_mm512_cvtepu16_epi32(bf16(x)), hi);
}

// vstore_bf16 stores 16 numbers as 16 consecutive bf16.
static inline void vstore_bf16(void *dst, vf x) { _mm256_storeu_si256((__m256i *)dst, bf16(x)); }

// vpairs returns the pairs (x[0], x[1]), ..., (y[0], y[1]), ..., rounded.
static inline vf vpairs(vf x, vf y) { return (vf)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x); }

// Permutations that interleave two rows x and y of 32 bf16 to pairs (x[i], y[i]): the
// pairs of the first 16 numbers, and of the second 16. Index 32 + i is y[i].
typedef uint16_t vh __attribute__((vector_size(64)));
#define ZIP(i) i, 32 + i
#define ZIP8(i) ZIP(i), ZIP(i + 1), ZIP(i + 2), ZIP(i + 3), ZIP(i + 4), ZIP(i + 5), ZIP(i + 6), ZIP(i + 7)
static const vh zip_lower = {ZIP8(0), ZIP8(8)}, zip_upper = {ZIP8(16), ZIP8(24)};

// vlookup returns table[i mod 32] for each lane; table has 32 entries.
static inline vf vlookup(vi i, const float *table) {
	return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)i, _mm512_loadu_ps(table + 16));
}
