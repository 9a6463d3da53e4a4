package cuda

import "scalewm/model/device"

const (
	rowChunks     = resident // the most chunks of rows of a sum over rows
	narrowCols    = 192      // columns of the widest row that fits in a warp's registers (kernels/rows.cuh)
	manyRows      = 8 * 1024 // from here on a warp normalizes several rows
	columnThreads = 1024     // threads of a block that has 32 columns and all their rows
)

func (e *engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	each := warps
	if x.Rows > manyRows { // the warp then reads gamma and beta once for all its rows
		each *= 4
	}
	launch(e, kLayerNorm, ceil(x.Rows, each), threads, 0,
		&normArgs{view(y), view(xhat), view(rstd), view(x), view(gamma), view(beta), eps})
}

// AdaLN assigns a warp to each row.
func (e *engine) AdaLN(y, x device.Mat, n device.AdaLN) {
	launch(e, kAdaLN, ceil(x.Rows, warps), threads, 0,
		&adaLNArgs{view(y), view(x), view(n.Scale), view(n.Shift), view(n.Gamma), view(n.Beta),
			view(n.Outer), view(n.OuterInv), view(n.Inner), view(n.InnerInv), n.OuterEps, n.InnerEps})
}

// LayerNormGrad computes the sums over rows (dgamma, dbeta) together with dx if rows
// are narrow, else by a separate pass. That pass must come first, since dx may be dy.
func (e *engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	chunks := min(rowChunks, ceil(dy.Rows, warps))
	args := normGradArgs{dx: view(dx), dgamma: view(dgamma), dbeta: view(dbeta), dy: view(dy), xhat: view(xhat),
		rstd: view(rstd), gamma: view(gamma), chunks: int64(chunks), add: flag(add)}
	// With add and gamma this is the gradient of a residual stream, which a GEMM reads
	// next.
	residual := add && gamma.IsSet()
	if residual {
		args.rounded = e.roundedOutput(dx)
	}
	sums := dgamma.IsSet() || dbeta.IsSet()
	if sums {
		args.part = e.scratch(2 * chunks * dy.Cols * 4)
	}
	if sums && dy.Cols > narrowCols { // before dx, which may be dy
		launch(e, kNormGradSums, ceil(dy.Cols, 32)*chunks, threads, 0, &args)
	}
	launch(e, kLayerNormGrad, chunks, threads, 0, &args)
	if sums {
		launch(e, kNormGradAdd, 2*ceil(dy.Cols, 32), columnThreads, 0, &args)
	}
	if residual {
		e.markRounded(dx)
	}
}

// SumTable splits long sums into chunks of rows, which a second kernel adds up. The
// number of chunks depends on the shapes only.
func (e *engine) SumTable(table, src device.Mat) {
	args := columnArgs{table: view(table), src: view(src), chunks: 1}
	if table.Rows <= 16 { // few sums, of many rows each
		args.chunks = int64(min(rowChunks, ceil(src.Rows, table.Rows*warps)))
	}
	if args.chunks > 1 {
		args.part = e.scratch(int(args.chunks) * table.Len() * 4)
	}
	launch(e, kSumTable, ceil(src.Cols, 128)*table.Rows*int(args.chunks), threads, 0, &args)
	if args.chunks > 1 {
		launch(e, kSumTableAdd, ceil(table.Len(), 32), columnThreads, 0, &args)
	}
}

// batch returns the arguments of BatchNorm.
func batch(y, xhat, rstd, x device.Mat, bn device.BatchNorm) *batchArgs {
	return &batchArgs{view(y), view(xhat), view(rstd), view(x), view(bn.Gamma), view(bn.Beta), view(bn.Mean), view(bn.Var),
		bn.Momentum, bn.Eps}
}

// BatchNorm and its gradient assign a block to 32 columns with all their rows, so that
// statistics need no partial sums.
func (e *engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNorm, ceil(x.Cols, 32), columnThreads, 0, batch(y, xhat, rstd, x, bn))
}

func (e *engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNormEval, tiles(x.Rows, x.Cols), threads, 0, batch(y, device.Mat{}, device.Mat{}, x, bn))
}

func (e *engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	launch(e, kBatchNormGrad, ceil(dy.Cols, 32), columnThreads, 0, &normGradArgs{dx: view(dx), dgamma: view(dgamma),
		dbeta: view(dbeta), dy: view(dy), xhat: view(xhat), rstd: view(rstd), gamma: view(gamma)})
}

func (e *engine) NormalizeColumns(dst, src device.Mat) {
	launch(e, kNormalizeColumns, ceil(src.Cols, 32), columnThreads, 0, &eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(src)}})
}
