// isa_amx_emulated.c: isa_amx.c with its tile instructions emulated by vectors, bit
// for bit. It is for tests, and for repeating on another machine what one with AMX
// computed.
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
