package cuda

import (
	"strings"

	"scalewm/model/device"
)

// shape is the tile of the result that a block of a GEMM kernel computes, the threads
// of the block, and its dynamic shared memory in bytes.
type shape struct{ rows, cols, threads, shared int }

// Tiles of kernels/gemm.cu and kernels/gemm_mma.cu. Shared memory holds the pipeline's
// stages, and afterwards the tile of sums; the size is the larger of the two.
var (
	plainTile  = shape{128, 64, threads, 128 * (64 + 4) * 4}
	wideTile   = shape{128, 192, 256, 128 * 192 * 4}
	narrowTile = shape{64, 64, 128, 3 * (64 + 64) * (2*64 + 16)}
	slimTile   = shape{32, 32, 128, 4 * 4 * (32 + 32) * (2*32 + 16)} // four stages of each of four warps
	tnTile     = shape{96, 192, 256, 4 * 32 * (2*96 + 16 + 2*192 + 16)}
)

// blocks returns the number of tiles of an m x n result.
func (t shape) blocks(m, n int) int { return ceil(m, t.rows) * ceil(n, t.cols) }

// An element is summed over the inner dimension (K) in chunks: each chunk is summed
// from zero, and chunks are added in order. The length of chunks determines the bits of
// the result. It therefore depends on nothing but the shapes of weights (in TN also on
// the number of rows summed over), and not on the number of rows of the result:
// planning one episode or a hundred gives the same costs.
const (
	plainSpan      = 2048 // of fp32
	maxSingleChunk = 768  // an inner dimension up to this is a single chunk
	chunkInner     = 512  // length of the chunks of longer ones
	hopperSMs      = 132  // SMs of an H100: that many blocks keep it busy
)

// spanTN returns the length of a chunk in TN, where the inner dimension is k rows: as
// many chunks as give about two blocks per SM, but none shorter than 512 rows. It uses
// the SMs of an H100 on every GPU, since the result depends on it.
func spanTN(m, n, k int) int {
	pieces := max(1, min(2*hopperSMs/tnTile.blocks(m, n), ceil(k, chunkInner)))
	return max(1, ceil(ceil(k, pieces), 64)) * 64
}

// vectorizable returns 1 if all matrices allow aligned access to four elements at a
// time, else 0. Matrices without an address do.
func vectorizable(list ...mat) int64 {
	for _, m := range list {
		if width := 16 >> m.bf16; m.p%Pointer(width) != 0 || m.stride%4 != 0 && m.rows > 1 {
			return 0
		}
	}
	return 1
}

// Gemm chooses a kernel by the shape. The choice does not affect the bits of an
// element.
func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	m, n, k := op.Dims(a, b)
	if m*n == 0 {
		return
	}
	args := gemmArgs{dst: view(dst), scale: view(ep.Scale), bias: view(ep.Bias), pre: view(ep.Pre), grad: view(ep.Grad),
		gate: view(ep.Gate), ungated: view(ep.Ungated),
		m: int64(m), n: int64(n), k: int64(k), act: int64(ep.Act), add: flag(ep.Add), splits: 1, drop: float64(ep.Drop.P), dropKey: ep.Drop.Key}
	args.vec = vectorizable(args.dst, args.scale, args.bias, args.pre, args.grad, args.gate, args.ungated)
	if e.prec == device.BF16 {
		args.a, args.b = e.operands(a, b)
		args.sumA = view(ep.SumA)
		e.gemmMMA(op, &args)
	} else {
		args.a, args.b = view(a), view(b)
		args.vecA, args.vecB = vectorizable(args.a), vectorizable(args.b)
		e.gemmSplit(kGemmFP32+Kernel(op), plainTile, plainSpan, &args)
		if ep.SumA.IsSet() {
			e.SumTable(ep.SumA, a)
		}
	}
	e.left.validate(args.a, len(e.launches))
}

// gemmMMA queues a GEMM on bf16 operands, by wgmma if the GPU has it, else by mma.sync.
// For NN and NT it chooses the largest tile of which there are enough to keep the GPU
// busy; with few tiles and a long K, the kernel that splits K among the warps of a
// block.
func (e *engine) gemmMMA(op device.Op, args *gemmArgs) {
	if hasWGMMA(e.machine.ISA()) {
		e.gemmWGMMA(op, args)
		return
	}
	m, n, k := int(args.m), int(args.n), int(args.k)
	if op == device.TN {
		e.gemmSplit(kGemmTN, tnTile, spanTN(m, n, k), args)
		return
	}
	kernel, t := kGemmNarrow, narrowTile
	if args.span = int64(k); k > maxSingleChunk {
		args.span = chunkInner
	}
	switch {
	case wideTile.blocks(m, n) >= e.blocks && k > maxSingleChunk:
		kernel, t = kGemmPieces, wideTile
	case wideTile.blocks(m, n) >= e.blocks:
		kernel, t = kGemmWide, wideTile
	case narrowTile.blocks(m, n) < e.blocks && k > maxSingleChunk:
		kernel, t = kGemmSlim, slimTile
	}
	launch(e, kernel+Kernel(op), t.blocks(m, n), t.threads, t.shared, args)
}

// gemmSplit queues a GEMM with one block per tile and chunk of K (split-K), and the
// kernel that adds up the chunks if there are several. Scratch memory holds the partial
// sums and behind them the column sums of A.
func (e *engine) gemmSplit(kernel Kernel, t shape, span int, args *gemmArgs) {
	m, n := int(args.m), int(args.n)
	splits := max(1, ceil(int(args.k), max(1, span)))
	args.span, args.splits = int64(span), int64(splits)
	if splits > 1 {
		args.part = e.scratch(splits * (m*n + m) * 4)
	}
	launch(e, kernel, t.blocks(m, n)*splits, t.threads, t.shared, args)
	if splits > 1 {
		launch(e, kGemmAdd, ceil(m*ceil(n, 4)+m, threads), threads, 0, args)
	}
}

// Kernels of kernels/gemm_wgmma.cu follow all others, since other GPUs lack them.
const (
	kWgmmaPanel Kernel = kernelCount + iota // NN; NT follows
	kWgmmaPanelNT
	kWgmmaWide // NN; NT and TN follow, as for the next one
	kWgmmaWideNT
	kWgmmaWideTN
	kWgmmaSmall
	kWgmmaSmallNT
	kWgmmaSmallTN
	kWgmmaSlimNT
)

// wgmmaNames holds their names in the CUDA sources.
var wgmmaNames = []string{
	"wgmma_panel_nn", "wgmma_panel_nt", "wgmma_wide_nn", "wgmma_wide_nt", "wgmma_wide_tn",
	"wgmma_small_nn", "wgmma_small_nt", "wgmma_small_tn", "wgmma_slim_nt",
}

// hasWGMMA reports whether an ISA has wgmma. It looks at the suffix, which the
// emulator's ISA shares.
func hasWGMMA(isa string) bool { return strings.HasSuffix(isa, "sm_90a") }

// usesWGMMA reports whether k is one of the wgmma kernels.
func (k Kernel) usesWGMMA() bool { return k >= kernelCount }

// Tiles of kernels/gemm_wgmma.cu: the number of stages times the lines of both
// operands, 128 bytes each, which hold 64 inner indices. To these come 1024 bytes for
// the alignment of slabs and 1024 for TN's matrix of ones.
var (
	wgmmaWideTile  = shape{192, 192, 384, 4*(192+192)*128 + 2048}
	wgmmaSmallTile = shape{64, 64, 128, 6*(64+64)*128 + 2048}
	wgmmaSlimTile  = shape{64, 16, 128, 8*(64+16)*128 + 2048}
	wgmmaPanelTile = shape{64, 192, 384, 3*192*128 + 3*2*3*64*128 + 1024} // B, and two buffers of 64 rows for each of three warpgroups
)

const (
	panelInner  = 192 // the largest inner dimension of the panel kernels
	panelGroups = 3   // warpgroups of their blocks, which process different rows
)

// gemmWGMMA is gemmMMA for wgmma: the panel kernel if K is short enough and each
// warpgroup of the GPU gets a tile, else the largest tile of which there are enough.
// Only NT has a kernel with the narrowest tile. There is always a single chunk of K.
func (e *engine) gemmWGMMA(op device.Op, args *gemmArgs) {
	m, n, k := int(args.m), int(args.n), int(args.k)
	switch {
	case op == device.TN:
		e.gemmWGMMATN(args)
	case k <= panelInner && wgmmaPanelTile.blocks(m, n) >= panelGroups*e.blocks:
		across := ceil(n, wgmmaPanelTile.cols)
		launch(e, kWgmmaPanel+Kernel(op), across*max(1, e.blocks/across), wgmmaPanelTile.threads, wgmmaPanelTile.shared, args)
	case wgmmaWideTile.blocks(m, n) >= e.blocks:
		e.gemmSplit(kWgmmaWide+Kernel(op), wgmmaWideTile, k, args)
	case op == device.NN || wgmmaSmallTile.blocks(m, n) >= e.blocks:
		e.gemmSplit(kWgmmaSmall+Kernel(op), wgmmaSmallTile, k, args)
	default:
		e.gemmSplit(kWgmmaSlimNT, wgmmaSlimTile, k, args)
	}
}

// gemmWGMMATN queues the gradient of weights, with split-K: as many chunks, of at least
// 512 rows, as give every SM a large tile. The chunks do not depend on which tile is
// used.
func (e *engine) gemmWGMMATN(args *gemmArgs) {
	m, n, k := int(args.m), int(args.n), int(args.k)
	pieces := max(1, min(hopperSMs/wgmmaWideTile.blocks(m, n), ceil(k, chunkInner)))
	span := max(1, ceil(ceil(k, pieces), 64)) * 64
	if wgmmaWideTile.blocks(m, n)*pieces >= e.blocks {
		e.gemmSplit(kWgmmaWideTN, wgmmaWideTile, span, args)
	} else {
		e.gemmSplit(kWgmmaSmallTN, wgmmaSmallTile, span, args)
	}
}
