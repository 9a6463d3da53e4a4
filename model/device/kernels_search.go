package device

// Search holds the planners' kernels on E episodes side by side, C candidates
// each, of W = H*A numbers. Nothing in it waits for the host.
type Search interface {
	// Normal fills dst, of len(keys) equal groups of rows: element i (row-major) of
	// group e is standard normal number offset+i of stream keys[e] (rng.Normal).
	Normal(dst Mat, keys []uint64, offset uint64)
	// Color filters noise, rows of H blocks of A numbers, along the blocks: of each
	// row and column a of a block, the series x of H numbers becomes y_i = sum over
	// j of taps[(i-j) mod H] x_j, divided by its own deviation (divisor H-1; at
	// least 1e-8). taps is 1 x H, H at least 2. dst may not be noise.
	Color(dst, noise, taps Mat)
	// Candidates: dst (E*C x W) = mean[e] + std[e]*noise; candidate 0 of each
	// episode is the mean itself. dst may be noise.
	Candidates(dst, mean, std, noise Mat)
	// Clip brings every row of dst into [low, high], both 1 x W; NaN stays NaN.
	Clip(dst, low, high Mat)
	// NaNToInf replaces NaN by +Inf and adds the number of them in each row of x
	// (E x C) to count (E x 1).
	NaNToInf(x, count Mat)
	// SmallestK: for each row of costs (E x C), the k lowest, best first, ties by
	// the lower index, into idx (E*k).
	SmallestK(idx Ints, costs Mat, k int)
	// Moments of the k chosen candidates of each episode: mean (E x W) and, where
	// given, std with divisor k-1, both about the mean just computed.
	Moments(mean, std, cand Mat, idx Ints, k int)
	// Softmin: weights (E x k) of the k chosen of each episode, proportional to
	// exp(-(cost - lowest)/temperature), sum 1. A cost equal to the lowest counts
	// exp(0), also where it is infinite.
	Softmin(weights, costs Mat, idx Ints, temperature float64)
	// WeightedMean: mean (E x W) = sum of weights (E x k) times chosen candidates.
	WeightedMean(mean, cand, weights Mat, idx Ints)
	// Gather copies the first n <= k chosen candidates of each episode: row e*n+i
	// of dst (E*n x W) is candidate idx[e*k+i] of cand (E*C x W).
	Gather(dst, cand Mat, idx Ints, k int)
	// Lerp: dst = keep*dst + (1-keep)*x.
	Lerp(dst, x Mat, keep float64)
}
