// kernels.h: all kernels for one instruction set, and their table. The including file
// has included the vec_*.h of its instruction set and defines:
//
// - VEC_BF16: 1 if it has AVX512-BF16, so that matrices may be stored as bf16;
// - TILES: 0 (see kernels_tiles.h);
// - TABLE: the name of the table.
//
// All functions are static, so that each instruction set has its own copy of them.
// The headers depend on one another in the order in which they are included.

#include <math.h>
#include <string.h>

#include "vecmath.h"
#include "k_mat.h"
#include "k_stream.h"
#include "k_micro.h"
#include "k_epilogue.h"
#include "k_gemm.h"
#include "k_pointwise.h"
#include "k_columns.h"
#include "k_norms.h"
#include "k_attention.h"
#include "k_losses.h"
#include "k_sigreg.h"
#include "k_search.h"
#include "k_peak.h"

const Kernel TABLE[K_COUNT] = {
	[K_FILL] = fill, [K_COPY] = copy, [K_BLOCKS] = copy_blocks, [K_GEMM] = gemm, [K_PACK] = pack,
	[K_ACTIVATE] = activate, [K_ACTIVATE_GRAD] = activate_grad, [K_AXPY] = axpy,
	[K_GATE_GRAD] = gate_grad, [K_MODULATE_GRAD] = modulate_grad, [K_DROPOUT] = dropout,
	[K_ADD_REPEATED] = add_repeated, [K_SUM_TABLE] = sum_table, [K_NORMALIZE_COLUMNS] = normalize_columns,
	[K_LAYERNORM] = layernorm, [K_ADALN] = adaln, [K_LAYERNORM_GRAD] = layernorm_grad,
	[K_BATCHNORM] = batchnorm, [K_BATCHNORM_EVAL] = batchnorm_eval, [K_BATCHNORM_GRAD] = batchnorm_grad,
	[K_ATTENTION] = attention, [K_ATTENTION_GRAD] = attention_grad, [K_PATCHES] = patches,
	[K_MSE] = mse, [K_SIGREG] = sigreg, [K_DISTANCE] = distance, [K_DISTANCE_GRAD] = distance_grad,
	[K_CORRELATION] = correlation, [K_COST] = cost, [K_SUM_SQUARES] = sum_squares, [K_ADAMW] = adamw,
	[K_NORMAL] = normal, [K_CANDIDATES] = candidates, [K_NAN_TO_INF] = nan_to_inf,
	[K_SMALLEST_K] = smallest, [K_MOMENTS] = moments,
	[K_COLOR] = color, [K_CLIP] = clip, [K_LERP] = lerp, [K_SOFTMIN] = softmin,
	[K_WEIGHTED_MEAN] = weighted_mean, [K_GATHER] = gather, [K_PEAK] = peak,
};
