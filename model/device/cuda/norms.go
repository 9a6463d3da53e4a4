package cuda

import "scalewm/model/device"

func (e *engine) LayerNorm(y, xhat, rstd, x, gamma, beta device.Mat, eps float64) {
	launch(e, kLayerNorm, ceil(x.Rows, warps), threads, 0,
		&normArgs{view(y), view(xhat), view(rstd), view(x), view(gamma), view(beta), eps})
}

func (e *engine) AdaNorm(y, x device.Mat, n device.AdaNorm) {
	launch(e, kAdaNorm, ceil(x.Rows, warps), threads, 0,
		&adaNormArgs{view(y), view(x), view(n.Scale), view(n.Shift), view(n.Gamma), view(n.Beta),
			view(n.Outer), view(n.OuterInv), view(n.Inner), view(n.InnerInv), n.OuterEps, n.InnerEps})
}

// rowChunks is the count of chunks that sums over rows are cut into.
const rowChunks = 128

func (e *engine) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat, add bool) {
	args := normGradArgs{dx: view(dx), dgamma: view(dgamma), dbeta: view(dbeta), dy: view(dy), xhat: view(xhat),
		rstd: view(rstd), gamma: view(gamma), chunks: rowChunks, add: flag(add)}
	if dgamma.Given() || dbeta.Given() { // before dx, which may be dy
		args.part = e.scratch(2 * rowChunks * dy.Cols * 4)
		launch(e, kNormGradSums, ceil(dy.Cols, 32)*rowChunks, threads, 0, &args)
		launch(e, kNormGradAdd, ceil(dy.Cols, threads), threads, 0, &args)
	}
	launch(e, kLayerNormGrad, ceil(dy.Rows, warps), threads, 0, &args)
}

func (e *engine) SumTable(table, src device.Mat) {
	args := columnArgs{table: view(table), src: view(src), chunks: 1}
	if table.Rows <= 16 { // few rows of many: each sum is long
		args.chunks = rowChunks
		args.part = e.scratch(rowChunks * table.Len() * 4)
	}
	launch(e, kSumTable, ceil(src.Cols, 32)*table.Rows*int(args.chunks), threads, 0, &args)
	if args.chunks > 1 {
		launch(e, kSumTableAdd, tiles(table.Rows, table.Cols), threads, 0, &args)
	}
}

func batch(y, xhat, rstd, x device.Mat, bn device.BatchNorm) *batchArgs {
	return &batchArgs{view(y), view(xhat), view(rstd), view(x), view(bn.Gamma), view(bn.Beta), view(bn.Mean), view(bn.Var),
		bn.Momentum, bn.Eps}
}

func (e *engine) BatchNorm(y, xhat, rstd, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNorm, ceil(x.Cols, 32), threads, 0, batch(y, xhat, rstd, x, bn))
}

func (e *engine) BatchNormEval(y, x device.Mat, bn device.BatchNorm) {
	launch(e, kBatchNormEval, tiles(x.Rows, x.Cols), threads, 0, batch(y, device.Mat{}, device.Mat{}, x, bn))
}

func (e *engine) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma device.Mat) {
	launch(e, kBatchNormGrad, ceil(dy.Cols, 32), threads, 0, &normGradArgs{dx: view(dx), dgamma: view(dgamma),
		dbeta: view(dbeta), dy: view(dy), xhat: view(xhat), rstd: view(rstd), gamma: view(gamma)})
}

func (e *engine) NormalizeColumns(dst, src device.Mat) {
	launch(e, kNormalizeColumns, ceil(src.Cols, 32), threads, 0, &eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(src)}})
}
