package cuda

// The kernels of every GPU, in the order of names. Those of GEMM that exist for several
// transpositions are adjacent, so that adding a device.Op to the first yields the right
// one. Those of Hopper follow kernelCount (gemm.go).
const (
	kFill Kernel = iota
	kCopy
	kActivate
	kActivateGrad
	kAxpy
	kGateGrad
	kModulateGrad
	kAddRepeated
	kTokens
	kDropout
	kCandidates
	kClip
	kLerp
	kPatches
	kPatchesBF16
	kAdamW
	kLayerNorm
	kAdaLN
	kLayerNormGrad
	kNormGradSums
	kNormGradAdd
	kSumTable
	kSumTableAdd
	kBatchNorm
	kBatchNormEval
	kBatchNormGrad
	kNormalizeColumns
	kAddUp
	kMSE
	kSumSquares
	kSIGReg
	kPairDistance
	kPairDistanceGrad
	kCorrelation
	kLatentCost
	kNormal
	kNaNToInf
	kSmallestK
	kMoments
	kWeightedMean
	kSoftmin
	kGather
	kColor
	kGemmFP32 // NN; NT and TN follow
	kGemmFP32NT
	kGemmFP32TN
	kGemmWide // NN; NT follows, as for the next ones
	kGemmWideNT
	kGemmPieces
	kGemmPiecesNT
	kGemmNarrow
	kGemmNarrowNT
	kGemmSlim
	kGemmSlimNT
	kGemmTN
	kGemmAdd
	kAttention
	kAttentionGradQ
	kAttentionGradKV
	kAttentionMMA
	kAttentionMMAGrad
	kAttentionMMAAny
	kAttentionMMAAnyGrad
	kAttentionFew
	kAttentionFewGrad
	kAttentionFewAny
	kAttentionFewAnyGrad
	kernelCount
)

// names holds the kernels' names in the CUDA sources.
var names = [kernelCount]string{
	kFill: "fill", kCopy: "copy", kActivate: "activate_each", kActivateGrad: "activate_grad",
	kAxpy: "axpy", kGateGrad: "gate_grad",
	kModulateGrad: "modulate_grad", kAddRepeated: "add_repeated", kTokens: "tokens", kDropout: "dropout", kCandidates: "candidates", kClip: "clip",
	kLerp: "lerp", kPatches: "patches", kPatchesBF16: "patches_bf16", kAdamW: "adamw", kLayerNorm: "layer_norm", kAdaLN: "ada_ln", kLayerNormGrad: "layer_norm_grad",
	kNormGradSums: "norm_grad_sums", kNormGradAdd: "norm_grad_add", kSumTable: "sum_table", kSumTableAdd: "sum_table_add",
	kBatchNorm: "batch_norm", kBatchNormEval: "batch_norm_eval", kBatchNormGrad: "batch_norm_grad",
	kNormalizeColumns: "normalize_columns", kAddUp: "add_up", kMSE: "mse", kSumSquares: "sum_squares", kSIGReg: "sigreg",
	kPairDistance: "pair_distance", kPairDistanceGrad: "pair_distance_grad", kCorrelation: "correlation",
	kLatentCost: "latent_cost", kNormal: "normal", kNaNToInf: "nan_to_inf", kSmallestK: "smallest_k", kMoments: "moments",
	kWeightedMean: "weighted_mean", kSoftmin: "softmin", kGather: "gather", kColor: "color",
	kGemmFP32: "gemm_fp32_nn", kGemmFP32NT: "gemm_fp32_nt", kGemmFP32TN: "gemm_fp32_tn",
	kGemmWide: "gemm_wide_nn", kGemmWideNT: "gemm_wide_nt", kGemmPieces: "gemm_pieces_nn", kGemmPiecesNT: "gemm_pieces_nt",
	kGemmNarrow: "gemm_narrow_nn", kGemmNarrowNT: "gemm_narrow_nt", kGemmSlim: "gemm_slim_nn", kGemmSlimNT: "gemm_slim_nt",
	kGemmTN: "gemm_tn", kGemmAdd: "gemm_add",
	kAttention: "attention", kAttentionGradQ: "attention_grad_q", kAttentionGradKV: "attention_grad_kv",
	kAttentionMMA: "attention_mma", kAttentionMMAGrad: "attention_mma_grad",
	kAttentionMMAAny: "attention_mma_any", kAttentionMMAAnyGrad: "attention_mma_any_grad",
	kAttentionFew: "attention_few", kAttentionFewGrad: "attention_few_grad",
	kAttentionFewAny: "attention_few_any", kAttentionFewAnyGrad: "attention_few_any_grad",
}

// Kernels returns the names of the kernels for an ISA, by their index. The slice must
// not be modified.
func Kernels(isa string) []string {
	if hasWGMMA(isa) {
		return append(names[:kernelCount:kernelCount], wgmmaNames...)
	}
	return names[:]
}

// String returns the kernel's name.
func (k Kernel) String() string {
	if k.usesWGMMA() {
		return wgmmaNames[k-kernelCount]
	}
	return names[k]
}
