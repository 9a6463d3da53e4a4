// dispatch.c: which instruction sets this machine runs, and the way to their kernels.
#include "engine.h"

int engine_has(int isa) {
#if defined(__x86_64__)
	// libgcc's cpuid also asks the operating system whether it saves the registers.
	__builtin_cpu_init();
	int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	switch (isa) {
	case ISA_AVX512BF16: return avx512 && __builtin_cpu_supports("avx512bf16");
	case ISA_AVX512: return avx512;
	case ISA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	}
#endif
	return isa == ISA_PLAIN;
}

int engine_call(Pool *p, int isa, int kernel, const void *args) {
	static const Kernel *const tables[ISA_COUNT] = {
#if defined(__x86_64__)
		[ISA_AVX512BF16] = kernels_avx512bf16, [ISA_AVX512] = kernels_avx512, [ISA_AVX2] = kernels_avx2,
#endif
		[ISA_PLAIN] = kernels_plain,
	};
	return tables[isa][kernel](p, args);
}
