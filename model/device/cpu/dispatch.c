// dispatch.c: which instruction sets this machine can run, and the call of a kernel.
#define _GNU_SOURCE
#include "engine.h"

#ifndef IMITATED
#define IMITATED 0 // 1: AVX-512 is emulated by AVX2 (imitated.h)
#endif

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

// tiles_granted requests the use of tile registers from Linux (ARCH_REQ_XCOMP_PERM
// for XTILEDATA), which grants it to the process, for all of its threads. Without the
// request tile instructions fault.
static int tiles_granted(void) {
	enum { REQUEST = 0x1023, TILE_DATA = 18 };
	return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
		syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

// Set by comparePairs (peak.go), before any GEMM on the path avx512bf16.
int pairs_are_fast = 1;

int engine_has(int isa) {
#if defined(__x86_64__)
	// libgcc's feature test includes whether the operating system saves the wide
	// registers.
	__builtin_cpu_init();
	int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	int bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
#if IMITATED
	avx512 = bf16 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	switch (isa) {
	case ISA_AMX: return !IMITATED && bf16 && tiles_granted();
	case ISA_AVX512BF16:
	case ISA_AMX_EMULATED: return bf16;
	case ISA_AVX512: return avx512;
	case ISA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	}
#endif
	return isa == ISA_PLAIN;
}

int engine_call(Pool *p, int isa, int kernel, const void *args) {
	static const Kernel *const tables[ISA_COUNT] = {
#if defined(__x86_64__)
#if !IMITATED
		[ISA_AMX] = kernels_amx,
#endif
		[ISA_AMX_EMULATED] = kernels_amx_emulated,
		[ISA_AVX512BF16] = kernels_avx512bf16, [ISA_AVX512] = kernels_avx512, [ISA_AVX2] = kernels_avx2,
#endif
		[ISA_PLAIN] = kernels_plain,
	};
	Kernel k = tables[isa][kernel];
	if (!k) k = tables[ISA_AVX512BF16][kernel]; // has no version with tiles
	return k(p, args);
}
