// isa_amx.c: GEMM and attention in bf16 on AMX tiles. All other kernels are those of
// isa_avx512bf16.c (dispatch.c).
#if defined(__x86_64__) && !IMITATED
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,prfchw,amx-tile,amx-bf16,prefer-vector-width=512")
#define TILES_HARDWARE 1
#define TABLE kernels_amx
#include "kernels_tiles.h"
#endif
