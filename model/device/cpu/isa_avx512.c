// isa_avx512.c: the kernels for AVX-512.
#if defined(__x86_64__)
#if IMITATED
#include "imitated.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prfchw,prefer-vector-width=512")
#endif
#define _GNU_SOURCE
#include "engine.h"
#include "vec_avx512.h"
#define VEC_BF16 0
#define TILES 0
#define TABLE kernels_avx512
#include "kernels.h"
#endif
