// kernels_tiles.h: the kernels that use tiles, and their table. The including file
// defines TILES_HARDWARE, 1 for AMX instructions and 0 for their emulation, and
// TABLE. Missing entries of the table are NULL.
#define _GNU_SOURCE
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VEC_BF16 1
#define TILES 1
#include "vec_avx512.h"
#include "vec_bf16.h"
#include "vecmath.h"
#include "k_mat.h"
#include "k_stream.h"
#include "k_micro.h"
#include "k_epilogue.h"
#include "k_tiles.h"
#include "k_gemm.h"
#include "k_attention.h"
#include "k_peak.h"

// Tiles multiply bf16 only. Products and attention in fp32 are those of the path
// avx512bf16.
#define IN_BF16(kernel, number, is_bf16) \
	static int kernel##_bf16(Pool *pool, const void *args) { \
		return (is_bf16) ? kernel(pool, args) : kernels_avx512bf16[number](pool, args); \
	}
IN_BF16(gemm, K_GEMM, ((const GemmArgs *)args)->bf16)
IN_BF16(pack, K_PACK, ((const PackArgs *)args)->g.bf16)
IN_BF16(attention, K_ATTENTION, ((const AttentionArgs *)args)->q.bf16)
IN_BF16(attention_grad, K_ATTENTION_GRAD, ((const AttentionArgs *)args)->q.bf16)

const Kernel TABLE[K_COUNT] = {[K_GEMM] = gemm_bf16, [K_PACK] = pack_bf16, [K_PEAK] = peak,
	[K_ATTENTION] = attention_bf16, [K_ATTENTION_GRAD] = attention_grad_bf16};
