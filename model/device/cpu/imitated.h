// imitated.h: the AVX-512 and AVX512-BF16 instructions that the kernels use, emulated
// by AVX2 or number by number. With the build tag `imitated`, the paths avx512,
// avx512bf16 and amx-emulated run on any machine with AVX2. They are slow, but their
// code can be tested on machines without such a processor.
//
// The macros at the end replace the intrinsics by the functions here, which have the
// same names after the prefix. gcc's own intrinsics cannot be used, since the target
// does not enable them.
#pragma GCC target("avx2,fma,prfchw")
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define IMITATES static inline __attribute__((always_inline))

// Wide gives access to a 512-bit vector by halves and by elements.
typedef union { __m512 f; __m512i i; __m256 f8[2]; __m256i i8[2]; uint32_t words[16]; uint16_t halves[32]; } Wide;

// Instructions that AVX2 has too, for each half of the vector.
#define TWO_OF_F(name, half) \
	IMITATES __m512 imitated_##name(__m512 a, __m512 b) { \
		Wide x = {.f = a}, y = {.f = b}; \
		for (int h = 0; h < 2; h++) x.f8[h] = half(x.f8[h], y.f8[h]); \
		return x.f; \
	}
#define TWO_OF_I(name, half) \
	IMITATES __m512i imitated_##name(__m512i a, __m512i b) { \
		Wide x = {.i = a}, y = {.i = b}; \
		for (int h = 0; h < 2; h++) x.i8[h] = half(x.i8[h], y.i8[h]); \
		return x.i; \
	}
#define SHIFT(name, half) \
	IMITATES __m512i imitated_##name(__m512i a, int n) { \
		Wide x = {.i = a}; \
		for (int h = 0; h < 2; h++) x.i8[h] = half(x.i8[h], n); \
		return x.i; \
	}
TWO_OF_F(max_ps, _mm256_max_ps)
TWO_OF_F(min_ps, _mm256_min_ps)
TWO_OF_I(mul_epu32, _mm256_mul_epu32)
TWO_OF_I(or_si512, _mm256_or_si256)
SHIFT(srli_epi64, _mm256_srli_epi64)
SHIFT(slli_epi64, _mm256_slli_epi64)
SHIFT(slli_epi32, _mm256_slli_epi32)

IMITATES __m512 imitated_set1_ps(float v) { return (Wide){.f8 = {_mm256_set1_ps(v), _mm256_set1_ps(v)}}.f; }
IMITATES __m512i imitated_set1_epi32(int v) { return (Wide){.i8 = {_mm256_set1_epi32(v), _mm256_set1_epi32(v)}}.i; }
IMITATES __m512 imitated_sqrt_ps(__m512 a) {
	Wide x = {.f = a};
	return (Wide){.f8 = {_mm256_sqrt_ps(x.f8[0]), _mm256_sqrt_ps(x.f8[1])}}.f;
}
IMITATES __m512 imitated_fmadd_ps(__m512 a, __m512 b, __m512 c) {
	Wide x = {.f = a}, y = {.f = b}, z = {.f = c};
	for (int h = 0; h < 2; h++) z.f8[h] = _mm256_fmadd_ps(x.f8[h], y.f8[h], z.f8[h]);
	return z.f;
}

// Masked loads and stores touch only the elements that the mask selects, as the
// instructions do.
IMITATES void imitated_load(void *to, const void *p, uint32_t mask, int size) {
	for (int j = 0; j < 64 / size; j++) {
		if (mask >> j & 1) memcpy((char *)to + j * size, (const char *)p + j * size, size);
	}
}
IMITATES __m512 imitated_loadu_ps(const void *p) {
	Wide x;
	memcpy(&x, p, 64);
	return x.f;
}
IMITATES __m512i imitated_loadu_si512(const void *p) {
	Wide x;
	memcpy(&x, p, 64);
	return x.i;
}
IMITATES void imitated_storeu_ps(void *p, __m512 a) { memcpy(p, &a, 64); }
IMITATES __m512 imitated_maskz_loadu_ps(__mmask16 m, const void *p) {
	Wide x = {0};
	imitated_load(&x, p, m, 4);
	return x.f;
}
IMITATES __m512i imitated_maskz_loadu_epi16(__mmask32 m, const void *p) {
	Wide x = {0};
	imitated_load(&x, p, m, 2);
	return x.i;
}
IMITATES __m256i imitated_maskz_loadu_epi16_256(__mmask16 m, const void *p) {
	Wide x = {0};
	imitated_load(&x, p, m, 2);
	return x.i8[0];
}
IMITATES void imitated_mask_storeu_ps(void *p, __mmask16 m, __m512 a) {
	for (int j = 0; j < 16; j++) {
		if (m >> j & 1) memcpy((char *)p + 4 * j, (char *)&a + 4 * j, 4);
	}
}
IMITATES void imitated_mask_storeu_epi16_256(void *p, __mmask16 m, __m256i a) {
	for (int j = 0; j < 16; j++) {
		if (m >> j & 1) memcpy((char *)p + 2 * j, (char *)&a + 2 * j, 2);
	}
}

// Comparisons, blends and permutations.
IMITATES __mmask16 imitated_cmp_ps_mask(__m512 a, __m512 b, const int how) {
	Wide x = {.f = a}, y = {.f = b};
	return (__mmask16)(_mm256_movemask_ps(_mm256_cmp_ps(x.f8[0], y.f8[0], how)) | _mm256_movemask_ps(_mm256_cmp_ps(x.f8[1], y.f8[1], how)) << 8);
}
IMITATES __m512i imitated_mask_blend_epi32(__mmask16 m, __m512i a, __m512i b) {
	Wide x = {.i = a}, y = {.i = b};
	for (int j = 0; j < 16; j++) x.words[j] = m >> j & 1 ? y.words[j] : x.words[j];
	return x.i;
}
IMITATES __m512 imitated_mask_blend_ps(__mmask16 m, __m512 a, __m512 b) {
	return (__m512)imitated_mask_blend_epi32(m, (__m512i)a, (__m512i)b);
}
IMITATES __m512i imitated_permutex2var_epi16(__m512i a, __m512i place, __m512i b) {
	Wide x = {.i = a}, y = {.i = b}, p = {.i = place}, z;
	for (int j = 0; j < 32; j++) z.halves[j] = p.halves[j] & 32 ? y.halves[p.halves[j] & 31] : x.halves[p.halves[j] & 31];
	return z.i;
}
IMITATES __m512 imitated_permutex2var_ps(__m512 a, __m512i place, __m512 b) {
	Wide x = {.f = a}, y = {.f = b}, p = {.i = place}, z;
	for (int j = 0; j < 16; j++) z.words[j] = p.words[j] & 16 ? y.words[p.words[j] & 15] : x.words[p.words[j] & 15];
	return z.f;
}

// Conversions from and to bf16: denormals become zero, NaN becomes quiet, all else is
// rounded to the nearest, ties to even.
IMITATES __m512i imitated_cvtepu16_epi32(__m256i a) {
	Wide x = {.i8 = {a}}, y;
	for (int j = 0; j < 16; j++) y.words[j] = x.halves[j];
	return y.i;
}
IMITATES uint16_t imitated_bf16(uint32_t b) {
	if ((b & 0x7fffffff) > 0x7f800000) return (uint16_t)(b >> 16 | 0x40);
	if ((b & 0x7f800000) == 0) return (uint16_t)(b >> 16 & 0x8000);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
IMITATES __m256bh imitated_cvtneps_pbh(__m512 a) {
	Wide x = {.f = a}, y;
	for (int j = 0; j < 16; j++) y.halves[j] = imitated_bf16(x.words[j]);
	return (__m256bh)y.i8[0];
}
IMITATES __m512bh imitated_cvtne2ps_pbh(__m512 upper, __m512 lower) {
	Wide x = {.f = upper}, y = {.f = lower}, z;
	for (int j = 0; j < 16; j++) {
		z.halves[j] = imitated_bf16(y.words[j]);
		z.halves[16 + j] = imitated_bf16(x.words[j]);
	}
	return (__m512bh)z.i;
}
// The product of the upper numbers of each pair is added first, then that of the lower
// ones.
IMITATES __m512 imitated_dpbf16_ps(__m512 c, __m512bh a, __m512bh b) {
	Wide x = {.i = (__m512i)a}, y = {.i = (__m512i)b}, z = {.f = c};
	for (int h = 0; h < 2; h++) {
		__m256i upper = _mm256_set1_epi32((int)0xffff0000);
		z.f8[h] = _mm256_fmadd_ps((__m256)_mm256_and_si256(x.i8[h], upper), (__m256)_mm256_and_si256(y.i8[h], upper), z.f8[h]);
		z.f8[h] = _mm256_fmadd_ps((__m256)_mm256_slli_epi32(x.i8[h], 16), (__m256)_mm256_slli_epi32(y.i8[h], 16), z.f8[h]);
	}
	return z.f;
}

#define _mm512_max_ps imitated_max_ps
#define _mm512_min_ps imitated_min_ps
#define _mm512_mul_epu32 imitated_mul_epu32
#define _mm512_or_si512 imitated_or_si512
#define _mm512_srli_epi64 imitated_srli_epi64
#define _mm512_slli_epi64 imitated_slli_epi64
#define _mm512_slli_epi32 imitated_slli_epi32
#define _mm512_set1_ps imitated_set1_ps
#define _mm512_set1_epi32 imitated_set1_epi32
#define _mm512_sqrt_ps imitated_sqrt_ps
#define _mm512_fmadd_ps imitated_fmadd_ps
#define _mm512_loadu_ps imitated_loadu_ps
#define _mm512_loadu_si512 imitated_loadu_si512
#define _mm512_storeu_ps imitated_storeu_ps
#define _mm512_maskz_loadu_ps imitated_maskz_loadu_ps
#define _mm512_maskz_loadu_epi16 imitated_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 imitated_maskz_loadu_epi16_256
#define _mm512_mask_storeu_ps imitated_mask_storeu_ps
#define _mm256_mask_storeu_epi16 imitated_mask_storeu_epi16_256
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask imitated_cmp_ps_mask
#define _mm512_mask_blend_epi32 imitated_mask_blend_epi32
#define _mm512_mask_blend_ps imitated_mask_blend_ps
#define _mm512_permutex2var_epi16 imitated_permutex2var_epi16
#define _mm512_permutex2var_ps imitated_permutex2var_ps
#define _mm512_cvtepu16_epi32 imitated_cvtepu16_epi32
#define _mm512_cvtneps_pbh imitated_cvtneps_pbh
#define _mm512_cvtne2ps_pbh imitated_cvtne2ps_pbh
#define _mm512_dpbf16_ps imitated_dpbf16_ps
