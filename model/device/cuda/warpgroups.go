package cuda

import (
	"strings"

	"scalewm/model/device"
)

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
