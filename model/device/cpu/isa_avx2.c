// isa_avx2.c: the kernels for AVX2 with FMA. The pragma enables the instructions for
// this file only, so that the binary starts on machines without them.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,prfchw")
#define _GNU_SOURCE
#include "engine.h"
#include "vec_avx2.h"
#define VEC_BF16 0
#define TILES 0
#define TABLE kernels_avx2
#include "kernels.h"
#endif
