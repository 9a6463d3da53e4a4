package cuda

import "scalewm/model/device"

// Shapes of kernels/gemm.cu.
const (
	gemmRows, gemmCols = 128, 64                       // of a tile
	gemmShared         = gemmRows * (gemmCols + 4) * 4 // bytes: the tile of sums; what it is made of is less
	gemmSpan           = 2048                          // inner indices of a piece
)

// fours says whether a matrix can be read four numbers at a time.
func fours(m mat) int64 {
	width := uint64(16)
	if m.half != 0 {
		width = 8
	}
	return flag(uint64(m.p)%width == 0 && m.stride%4 == 0)
}

// Gemm cuts long inner dimensions into pieces of one length, whose sums are
// added in order.
func (e *engine) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	m, n, k := op.Dims(a, b)
	if m*n == 0 {
		return
	}
	args := gemmArgs{dst: view(dst), a: view(a), b: view(b), scale: view(ep.Scale), bias: view(ep.Bias), pre: view(ep.Pre), grad: view(ep.Grad),
		gate: view(ep.Gate), ungated: view(ep.Ungated),
		m: int64(m), n: int64(n), k: int64(k), act: int64(ep.Act), add: flag(ep.Add), span: gemmSpan, drop: float64(ep.Drop.P), dropKey: ep.Drop.Key}
	splits := max(1, ceil(k, gemmSpan))
	args.splits, args.vecA, args.vecB = int64(splits), fours(args.a), fours(args.b)
	if splits > 1 {
		args.part = e.scratch(splits * m * n * 4)
	}
	kernel, team := kGemmFP32, threads
	if e.prec == device.BF16 {
		kernel, team = kGemmBF16, 128
	}
	launch(e, kernel+Kernel(op), ceil(m, gemmRows)*ceil(n, gemmCols)*splits, team, gemmShared, &args)
	if splits > 1 {
		launch(e, kGemmAdd, tiles(m, n), threads, 0, &args)
	}
	if ep.SumA.Given() {
		e.SumTable(ep.SumA, a)
	}
}
