// isa_avx512bf16.c: the kernels for AVX-512 with dot products of bf16 pairs, and bf16
// storage.
#if defined(__x86_64__)
#if IMITATED
#include "imitated.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,prfchw,prefer-vector-width=512")
#endif
#define _GNU_SOURCE
#include "engine.h"
#include "vec_avx512.h"
#include "vec_bf16.h"
#define VEC_BF16 1
#define TILES 0
#define TABLE kernels_avx512bf16
#include "kernels.h"
#endif
