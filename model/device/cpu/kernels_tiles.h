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
#include "k_gemm.h"
#include "k_attention.h"
#include "k_peak.h"

const Kernel TABLE[K_COUNT] = {[K_GEMM] = gemm, [K_PACK] = pack, [K_PEAK] = peak,
	[K_ATTENTION] = attention, [K_ATTENTION_GRAD] = attention_grad};
