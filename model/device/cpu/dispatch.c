// dispatch.c: which instruction sets this machine runs, and the way to their kernels.
#define _GNU_SOURCE
#include "engine.h"

#ifndef IMITATED
#define IMITATED 0 // AVX-512 is made of AVX2 (imitated.h)
#endif

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

// tiles_granted asks Linux for the tiles' registers (ARCH_REQ_XCOMP_PERM of XTILEDATA), which it grants
// to the process, once and for all its threads.
static int tiles_granted(void) {
	enum { REQUEST = 0x1023, TILE_DATA = 18 };
	return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
		syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

int pairs_are_fast = 1;

int engine_has(int isa) {
#if defined(__x86_64__)
	// libgcc's cpuid also asks the operating system whether it saves the registers.
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
	if (!k) k = tables[ISA_AVX512BF16][kernel]; // tiles only multiply
	return k(p, args);
}
