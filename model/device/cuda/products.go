package cuda

import (
	"strings"

	"scalewm/model/device"
)

// shape is that of a kernel's tiles of a product's result, with what a block of it takes.
type shape struct{ rows, cols, team, shared int }

// Tiles of kernels/gemm.cu and kernels/gemm_mma.cu. Shared memory holds the steps that are
// on their way, or the sums, whichever is more.
var (
	plainTile  = shape{128, 64, threads, 128 * (64 + 4) * 4}
	wideTile   = shape{128, 192, 256, 128 * 192 * 4}
	narrowTile = shape{64, 64, 128, 3 * (64 + 64) * (2*64 + 16)}
	slimTile   = shape{32, 32, 128, 4 * 4 * (32 + 32) * (2*32 + 16)} // four steps of four warps
	turnedTile = shape{96, 192, 256, 4 * 32 * (2*96 + 16 + 2*192 + 16)}
)

// blocks is the count of tiles of an m x n result.
func (t shape) blocks(m, n int) int { return ceil(m, t.rows) * ceil(n, t.cols) }

// An element's sum is made of pieces of the inner dimension, each summed from zero,
// that are added in order. How long they are depends on nothing but the shapes of
// weights (of TN: and on how many rows are summed), not on rows that could be fewer or more.
const (
	plainSpan  = 2048 // of fp32
	wholeInner = 768  // inner dimensions up to this are one piece
	innerSpan  = 512  // pieces of longer ones, which one block adds up
	hopper     = 132  // multiprocessors of a large GPU: so many blocks keep it busy
)

// spanTN is the length of a piece where the inner dimension is k rows: as many pieces
// as make about two blocks for each of a GPU's multiprocessors, but none shorter than 512 rows.
func spanTN(m, n, k int) int {
	pieces := max(1, min(2*hopper/turnedTile.blocks(m, n), ceil(k, innerSpan)))
	return max(1, ceil(ceil(k, pieces), 64)) * 64
}

// fours says whether a matrix can be accessed four numbers at a time.
func fours(list ...mat) int64 {
	for _, m := range list {
		if width := 16 >> m.bf16; m.p%Pointer(width) != 0 || m.stride%4 != 0 && m.rows > 1 {
			return 0
		}
	}
	return 1
}

// Gemm chooses a kernel. Which one does not show in the bits of a result's element.
func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	m, n, k := op.Dims(a, b)
	if m*n == 0 {
		return
	}
	args := gemmArgs{dst: view(dst), scale: view(ep.Scale), bias: view(ep.Bias), pre: view(ep.Pre), grad: view(ep.Grad),
		gate: view(ep.Gate), ungated: view(ep.Ungated),
		m: int64(m), n: int64(n), k: int64(k), act: int64(ep.Act), add: flag(ep.Add), splits: 1, drop: float64(ep.Drop.P), dropKey: ep.Drop.Key}
	args.vec = fours(args.dst, args.scale, args.bias, args.pre, args.grad, args.gate, args.ungated)
	if e.prec == device.BF16 {
		args.a, args.b = e.factors(a, b)
		args.sumA = view(ep.SumA)
		e.tensorProduct(op, &args)
	} else {
		args.a, args.b = view(a), view(b)
		args.vecA, args.vecB = fours(args.a), fours(args.b)
		e.product(kGemmFP32+Kernel(op), plainTile, plainSpan, &args)
		if ep.SumA.Given() {
			e.SumTable(ep.SumA, a)
		}
	}
	e.left.keep(args.a, len(e.launches))
}

// tensorProduct multiplies what tensor cores can read.
func (e *engine) tensorProduct(op device.Op, args *gemmArgs) {
	if warpgroups(e.machine.ISA()) {
		e.warpgroupProduct(op, args)
		return
	}
	m, n, k := int(args.m), int(args.n), int(args.k)
	if op == device.TN {
		e.product(kGemmTN, turnedTile, spanTN(m, n, k), args)
		return
	}
	kernel, t := kGemmNarrow, narrowTile
	if args.span = int64(k); k > wholeInner {
		args.span = innerSpan
	}
	switch {
	case wideTile.blocks(m, n) >= e.blocks && k > wholeInner:
		kernel, t = kGemmPieces, wideTile
	case wideTile.blocks(m, n) >= e.blocks:
		kernel, t = kGemmWide, wideTile
	case narrowTile.blocks(m, n) < e.blocks && k > wholeInner:
		kernel, t = kGemmSlim, slimTile
	}
	launch(e, kernel+Kernel(op), t.blocks(m, n), t.team, t.shared, args)
}

// product launches blocks that compute a tile of a piece each, and adds up the pieces.
func (e *engine) product(kernel Kernel, t shape, span int, args *gemmArgs) {
	m, n := int(args.m), int(args.n)
	splits := max(1, ceil(int(args.k), max(1, span)))
	args.span, args.splits = int64(span), int64(splits)
	if splits > 1 {
		args.part = e.scratch(splits * (m*n + m) * 4)
	}
	launch(e, kernel, t.blocks(m, n)*splits, t.team, t.shared, args)
	if splits > 1 {
		launch(e, kGemmAdd, ceil(m*ceil(n, 4)+m, threads), threads, 0, args)
	}
}

// Kernels of kernels/gemm_wgmma.cu follow all others: GPUs without Hopper's own
// instructions lack them.
const (
	kPanel Kernel = kernelCount + iota // nn; nt follows
	kPanelNT
	kStream // nn; nt and tn follow, as below
	kStreamNT
	kStreamTN
	kStreamSmall
	kStreamSmallNT
	kStreamSmallTN
	kStreamSlimNT
)

var warpgroupNames = []string{
	"wgmma_panel_nn", "wgmma_panel_nt", "wgmma_wide_nn", "wgmma_wide_nt", "wgmma_wide_tn",
	"wgmma_small_nn", "wgmma_small_nt", "wgmma_small_tn", "wgmma_slim_nt",
}

// warpgroups says whether an ISA has wgmma.
func warpgroups(isa string) bool { return strings.HasSuffix(isa, "sm_90a") }

// warpgroups says whether k is one of them.
func (k Kernel) warpgroups() bool { return k >= kernelCount }

// Tiles of kernels/gemm_wgmma.cu. A line of 64 inner indices has 128 bytes; what is
// there is aligned to 1024 and, of TN, ends with as many of ones.
var (
	streamTile = shape{192, 192, 384, 4*(192+192)*128 + 2048}
	smallTile  = shape{64, 64, 128, 6*(64+64)*128 + 2048}
	thinTile   = shape{64, 16, 128, 8*(64+16)*128 + 2048}
	panelTile  = shape{64, 192, 384, 3*192*128 + 3*2*3*64*128 + 1024} // each of three warpgroups' rows
)

const (
	panelInner  = 192 // inner indices that fit a panel
	panelGroups = 3   // warpgroups of its block, each with rows of its own
)

// warpgroupProduct is tensorProduct for Hopper's own instructions.
func (e *engine) warpgroupProduct(op device.Op, args *gemmArgs) {
	m, n, k := int(args.m), int(args.n), int(args.k)
	switch {
	case op == device.TN:
		e.warpgroupSums(args)
	case k <= panelInner && panelTile.blocks(m, n) >= panelGroups*e.blocks:
		across := ceil(n, panelTile.cols)
		launch(e, kPanel+Kernel(op), across*max(1, e.blocks/across), panelTile.team, panelTile.shared, args)
	case streamTile.blocks(m, n) >= e.blocks:
		e.product(kStream+Kernel(op), streamTile, k, args)
	case op == device.NN || smallTile.blocks(m, n) >= e.blocks:
		e.product(kStreamSmall+Kernel(op), smallTile, k, args)
	default:
		e.product(kStreamSlimNT, thinTile, k, args)
	}
}

// warpgroupSums is a gradient of weights: pieces of the inner dimension, of at
// least 512, for as many large tiles as a GPU has multiprocessors.
func (e *engine) warpgroupSums(args *gemmArgs) {
	m, n, k := int(args.m), int(args.n), int(args.k)
	pieces := max(1, min(hopper/streamTile.blocks(m, n), ceil(k, innerSpan)))
	span := max(1, ceil(ceil(k, pieces), 64)) * 64
	if streamTile.blocks(m, n)*pieces >= e.blocks {
		e.product(kStreamTN, streamTile, span, args)
	} else {
		e.product(kStreamSmallTN, smallTile, span, args)
	}
}
