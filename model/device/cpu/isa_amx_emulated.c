// isa_amx_emulated.c: isa_amx.c with its tile instructions done in vectors, bit for bit: for tests,
// and to repeat what a machine with AMX computed.
#if defined(__x86_64__)
#if IMITATED
#include "imitated.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,prfchw,prefer-vector-width=512")
#endif
#define TILES_HARDWARE 0
#define TABLE kernels_amx_emulated
#include "kernels_tiles.h"
#endif
