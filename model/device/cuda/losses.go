package cuda

import "scalewm/model/device"

// sumChunks is the number of partial sums of a sum over all elements, and of the blocks
// that compute them. It is the same on every GPU, since the order of additions depends
// on it.
const sumChunks = 512

// addUp queues the sum of the partial sums that the previous kernel left in scratch
// memory.
func (e *engine) addUp(dst device.Mat, part Pointer, chunks int, scale float64) {
	launch(e, kAddUp, 1, threads, 0, &sumArgs{dst: view(dst), part: part, chunks: int64(chunks), scale: scale})
}

// MSE, SumSquares and SIGReg compute one partial sum per block, which addUp adds.
func (e *engine) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	part := e.scratch(sumChunks * 8)
	args := mseArgs{view(loss), view(dpred), view(dtarget), view(pred), view(target), part, weight, sumChunks}
	flat(&args.dpred, &args.dtarget, &args.pred, &args.target)
	launch(e, kMSE, sumChunks, threads, 0, &args)
	e.addUp(loss, part, sumChunks, 1/float64(pred.Len()))
}

func (e *engine) SumSquares(dst, x device.Mat) {
	part := e.scratch(sumChunks * 8)
	args := sumArgs{x: view(x), part: part}
	flat(&args.x)
	launch(e, kSumSquares, sumChunks, threads, 0, &args)
	e.addUp(dst, part, sumChunks, 1)
}

func (e *engine) SIGReg(loss, du, u device.Mat, t int, weight float64) {
	blocks := t * ceil(u.Cols, 32)
	part := e.scratch(blocks * 8)
	launch(e, kSIGReg, blocks, threads, 0, &sigRegArgs{view(loss), view(du), view(u), part, int64(t), weight})
	e.addUp(loss, part, blocks, float64(u.Rows/t)/float64(t*u.Cols))
}

// PairDistance assigns a warp to each pair. PairDistanceGrad assigns blocks to the rows
// of dz instead, so that no two blocks add to the same element.
func (e *engine) PairDistance(dst, z device.Mat, pairs device.Ints) {
	launch(e, kPairDistance, ceil(dst.Cols, warps), threads, 0,
		&distanceArgs{dst: view(dst), z: view(z), pairs: e.indices(pairs), fault: e.fault.p, count: int64(dst.Cols)})
}

func (e *engine) PairDistanceGrad(dz, ddist, z device.Mat, pairs device.Ints) {
	launch(e, kPairDistanceGrad, z.Rows*ceil(z.Cols, threads), threads, 0,
		&distanceArgs{view(dz), view(ddist), view(z), e.indices(pairs), e.fault.p, int64(ddist.Cols)})
}

// Correlation runs as a single block, since its rows are short.
func (e *engine) Correlation(result, dx, x, y device.Mat, form device.CorrelationForm, weight float64) {
	launch(e, kCorrelation, 1, 1024, 0,
		&correlationArgs{view(result), view(dx), view(x), view(y), weight, flag(form == device.Paper)})
}

func (e *engine) LatentCost(dst, pred, goal device.Mat, mean bool) {
	launch(e, kLatentCost, ceil(dst.Len(), warps), threads, 0, &costArgs{view(dst), view(pred), view(goal), flag(mean)})
}
