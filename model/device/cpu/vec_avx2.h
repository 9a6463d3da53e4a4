// vec_avx2.h: the vector operations of AVX2 with fused multiply-add: 8 floats.
//
// Each of vec_plain.h, vec_avx2.h and vec_avx512.h defines, for the kernels:
//
// - VL, the number of lanes, and IOTA, the lane indices;
// - TILE_VECTORS and tile_rows: a micro-kernel of k_micro.h with v vectors of columns
//   has tile_rows[v] rows of sums, as many as fit the registers;
// - the types vf, vi and vu, vectors of float, int32_t and uint32_t;
// - vset (all lanes equal), vload and vstore (unaligned), vloadn and vstoren (the first
//   n lanes; loading fills with zeros and does not touch memory past them), vfma (a*b +
//   c), vmax and vmin (the second operand if either is NaN), vsqrt, vless (t where a <
//   b, else f);
// - vmul_wide: the upper halves of the 64-bit products a*m, and the lower halves in
//   *lo.
//
// Arithmetic operators and shuffles come from gcc's vector extensions.
#include <immintrin.h>

#define VL 8
#define IOTA 0, 1, 2, 3, 4, 5, 6, 7
// 16 registers hold 12 sums, a row of B of up to 2 vectors, and a number of A.
#define TILE_VECTORS 2
static const int tile_rows[3] = {0, 8, 6};

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));

// vtail returns the mask of the first n lanes.
static inline __m256i vtail(i64 n) {
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vset(float x) { return (vf)_mm256_set1_ps(x); }
static inline vf vload(const float *p) { return (vf)_mm256_loadu_ps(p); }
static inline void vstore(float *p, vf v) { _mm256_storeu_ps(p, (__m256)v); }
static inline vf vloadn(const float *p, i64 n) { return (vf)_mm256_maskload_ps(p, vtail(n)); }
static inline void vstoren(float *p, vf v, i64 n) { _mm256_maskstore_ps(p, vtail(n), (__m256)v); }
static inline vf vfma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vf vsqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
static inline vf vless(vf a, vf b, vf t, vf f) {
	return (vf)_mm256_blendv_ps((__m256)f, (__m256)t, _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ));
}
// AVX2 multiplies the even 32-bit lanes to 64 bits, so odd lanes take a second
// multiplication.
static inline vu vmul_wide(vu a, uint32_t m, vu *lo) {
	__m256i x = (__m256i)a, y = _mm256_set1_epi32((int)m);
	__m256i even = _mm256_mul_epu32(x, y), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), y);
	*lo = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
	return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
