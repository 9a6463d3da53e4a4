package cuda

import "scalewm/model/device"

// keysPerLaunch is the number of random streams of one launch of normal.
const keysPerLaunch = len(normalArgs{}.keys)

// Normal passes the keys as arguments of the launch, so planning needs no transfers.
// More episodes than keysPerLaunch take several launches.
func (e *engine) Normal(dst device.Mat, keys []uint64, offset uint64) {
	group := dst.Rows / len(keys)
	for i := 0; i < len(keys); i += keysPerLaunch {
		n := min(keysPerLaunch, len(keys)-i)
		part := dst.RowRange(i*group, n*group)
		args := normalArgs{offset: offset, group: int64(group)}
		if part.Dense() { // the numbers of an episode become one row
			part, args.group = part.Reshape(n, group*dst.Cols), 1
		}
		args.dst = view(part)
		copy(args.keys[:], keys[i:i+n])
		launch(e, kNormal, part.Rows*ceil(part.Cols, threads), threads, 0, &args)
	}
}

// Color assigns a thread to each series, that is to each row and column of a block.
func (e *engine) Color(dst, noise, taps device.Mat) {
	launch(e, kColor, ceil(dst.Rows*(dst.Cols/taps.Cols), threads), threads, 0,
		&eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(noise), view(taps)}})
}

func (e *engine) Candidates(dst, mean, std, noise device.Mat) {
	launch(e, kCandidates, ceil(dst.Len(), threads), threads, 0,
		&eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(mean), view(std), view(noise)}})
}

// Clip presents both bounds as matrices of repeated rows, so that an element-wise
// kernel serves.
func (e *engine) Clip(dst, low, high device.Mat) {
	e.each(kClip, []mat{view(dst)}, []mat{repeated(low, int64(dst.Rows)), repeated(high, int64(dst.Rows))})
}

func (e *engine) Lerp(dst, x device.Mat, keep float64) {
	e.eachWith(kLerp, []mat{view(dst)}, []mat{view(x)}, eachArgs{alpha: keep})
}

func (e *engine) NaNToInf(x, count device.Mat) {
	launch(e, kNaNToInf, x.Rows, threads, 0, &eachArgs{out: [3]mat{view(count)}, in: [5]mat{view(x)}})
}

// SmallestK writes indices that are always in range, but shares its arguments with the
// kernels that read them and set fault.
func (e *engine) SmallestK(idx device.Ints, costs device.Mat, k int) {
	launch(e, kSmallestK, costs.Rows*ceil(costs.Cols, threads), threads, 0,
		&eliteArgs{costs: view(costs), idx: e.indices(idx), fault: e.fault.p, k: int64(k)})
}

func (e *engine) Moments(mean, std, cand device.Mat, idx device.Ints, k int) {
	launch(e, kMoments, tiles(mean.Rows, mean.Cols), threads, 0, &eliteArgs{
		mean: view(mean), std: view(std), cand: view(cand), idx: e.indices(idx), fault: e.fault.p, k: int64(k)})
}

func (e *engine) Softmin(weights, costs device.Mat, idx device.Ints, temperature float64) {
	launch(e, kSoftmin, weights.Rows, threads, 0, &eliteArgs{mean: view(weights), costs: view(costs), idx: e.indices(idx), fault: e.fault.p,
		k: int64(weights.Cols), temperature: temperature})
}

func (e *engine) WeightedMean(mean, cand, weights device.Mat, idx device.Ints) {
	launch(e, kWeightedMean, tiles(mean.Rows, mean.Cols), threads, 0, &eliteArgs{
		mean: view(mean), std: view(weights), cand: view(cand), idx: e.indices(idx), fault: e.fault.p, k: int64(weights.Cols)})
}

func (e *engine) Gather(dst, cand device.Mat, idx device.Ints, k int) {
	episodes := idx.Len() / k
	args := eliteArgs{std: view(dst), cand: view(cand), idx: e.indices(idx), fault: e.fault.p, k: int64(k), first: int64(dst.Rows / episodes)}
	args.mean.rows = int64(episodes) // the kernel derives the candidates per episode from it
	launch(e, kGather, tiles(dst.Rows, dst.Cols), threads, 0, &args)
}
