package cuda

import "scalewm/model/device"

const (
	rowChunks = resident // chunks that sums over many rows are cut into
	narrow    = 192      // columns of a row that fits a warp's registers (kernels/rows.cuh)
	manyRows  = 8 * 1024
	tall      = 1024 // threads of a block of 32 columns that has all their rows
)

func (e *engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	each := warps
	if x.Rows > manyRows { // a warp has several rows, so that it reads gamma and beta once
		each *= 4
	}
	launch(e, kLayerNorm, ceil(x.Rows, each), threads, 0,
		&normArgs{view(y), view(xhat), view(rstd), view(x), view(gamma), view(beta), eps})
}

func (e *engine) AdaLN(y, x device.Mat, n device.AdaLN) {
	launch(e, kAdaLN, ceil(x.Rows, warps), threads, 0,
		&adaLNArgs{view(y), view(x), view(n.Scale), view(n.Shift), view(n.Gamma), view(n.Beta),
			view(n.Outer), view(n.OuterInv), view(n.Inner), view(n.InnerInv), n.OuterEps, n.InnerEps})
}

// LayerNormGrad makes the sums over rows on the way where rows are narrow, in
// one more pass where they are not.
func (e *engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	chunks := min(rowChunks, ceil(dy.Rows, warps))
	args := normGradArgs{dx: view(dx), dgamma: view(dgamma), dbeta: view(dbeta), dy: view(dy), xhat: view(xhat),
		rstd: view(rstd), gamma: view(gamma), chunks: int64(chunks), add: flag(add)}
	residual := add && gamma.Given() // the gradient of a residual stream, which products read next
	if residual {
		args.rounded = e.next(dx)
	}
	sums := dgamma.Given() || dbeta.Given()
	if sums {
		args.part = e.scratch(2 * chunks * dy.Cols * 4)
	}
	if sums && dy.Cols > narrow { // before dx, which may be dy
		launch(e, kNormGradSums, ceil(dy.Cols, 32)*chunks, threads, 0, &args)
	}
	launch(e, kLayerNormGrad, chunks, threads, 0, &args)
	if sums {
		launch(e, kNormGradAdd, 2*ceil(dy.Cols, 32), tall, 0, &args)
	}
	if residual {
		e.leftRounded(dx)
	}
}

func (e *engine) SumTable(table, src device.Mat) {
	args := columnArgs{table: view(table), src: view(src), chunks: 1}
	if table.Rows <= 16 { // few rows of many: each sum is long
		args.chunks = int64(min(rowChunks, ceil(src.Rows, table.Rows*warps)))
	}
	if args.chunks > 1 {
		args.part = e.scratch(int(args.chunks) * table.Len() * 4)
	}
	launch(e, kSumTable, ceil(src.Cols, 128)*table.Rows*int(args.chunks), threads, 0, &args)
	if args.chunks > 1 {
		launch(e, kSumTableAdd, ceil(table.Len(), 32), tall, 0, &args)
	}
}

func batch(y, xhat, rstd, x device.Mat, bn device.BatchNorm) *batchArgs {
	return &batchArgs{view(y), view(xhat), view(rstd), view(x), view(bn.Gamma), view(bn.Beta), view(bn.Mean), view(bn.Var),
		bn.Momentum, bn.Eps}
}

func (e *engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNorm, ceil(x.Cols, 32), tall, 0, batch(y, xhat, rstd, x, bn))
}

func (e *engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNormEval, tiles(x.Rows, x.Cols), threads, 0, batch(y, device.Mat{}, device.Mat{}, x, bn))
}

func (e *engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	launch(e, kBatchNormGrad, ceil(dy.Cols, 32), tall, 0, &normGradArgs{dx: view(dx), dgamma: view(dgamma),
		dbeta: view(dbeta), dy: view(dy), xhat: view(xhat), rstd: view(rstd), gamma: view(gamma)})
}

func (e *engine) NormalizeColumns(dst, src device.Mat) {
	launch(e, kNormalizeColumns, ceil(src.Cols, 32), tall, 0, &eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(src)}})
}
