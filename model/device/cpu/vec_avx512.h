// vec_avx512.h: the vector operations of AVX-512. See vec_avx2.h for what each header
// defines.
#include <immintrin.h>

#define VL 16
#define IOTA 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
// 32 registers hold 24 sums, a row of B of up to 4 vectors, and a number of A.
#define TILE_VECTORS 4
static const int tile_rows[5] = {0, 12, 12, 8, 6};

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

// vtail returns the mask of the first n lanes.
static inline __mmask16 vtail(i64 n) { return (__mmask16)((1u << n) - 1); }
static inline vf vset(float x) { return (vf)_mm512_set1_ps(x); }
static inline vf vload(const float *p) { return (vf)_mm512_loadu_ps(p); }
static inline void vstore(float *p, vf v) { _mm512_storeu_ps(p, (__m512)v); }
static inline vf vloadn(const float *p, i64 n) { return (vf)_mm512_maskz_loadu_ps(vtail(n), p); }
static inline void vstoren(float *p, vf v, i64 n) { _mm512_mask_storeu_ps(p, vtail(n), (__m512)v); }
static inline vf vfma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
static inline vf vsqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
// vless returns t where a < b, else f; f if a or b is NaN.
static inline vf vless(vf a, vf b, vf t, vf f) {
	__mmask16 m = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
	return (vf)_mm512_mask_blend_ps(m, (__m512)f, (__m512)t);
}
// AVX-512 multiplies the even 32-bit lanes to 64 bits, so odd lanes take a second
// multiplication.
static inline vu vmul_wide(vu a, uint32_t m, vu *lo) {
	__m512i x = (__m512i)a, y = _mm512_set1_epi32((int)m);
	__m512i even = _mm512_mul_epu32(x, y), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), y);
	*lo = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
	return (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}
