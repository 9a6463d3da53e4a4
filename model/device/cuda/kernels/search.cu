// search.cu: the planners' kernels, from random numbers to the mean of the next
// iteration. A kernel performs one step of the search for all episodes at once.
//
//    normal         z = sqrt(-2 log u1) (cos or sin)(2 pi u2): one float written, nothing
//                   read
//    nan_to_inf     costs are read once; only NaN and +Inf are written
//    smallest_k     a candidate's rank is the number of smaller costs; each 256
//                   candidates read all costs of their episode once, through shared memory
//    moments        mean and standard deviation (ddof 1) of the k chosen candidates, read
//                   twice
//    weighted_mean  reads the chosen candidates once
//    softmin        w = exp(-(cost - lowest)/temperature) / sum: costs read twice, weights
//                   written twice
//    gather         copies the first of the chosen candidates
//    color          a circular filter over the horizon, then division by the standard
//                   deviation; H^2 reads of a series of H numbers, all but the first H
//                   from L1
#include "args.cuh"

// normal evaluates Box-Muller in double precision like dataset/rng, so the results are
// the host's numbers, rounded to float32. Elements 4b to 4b+3 of a stream come from
// Philox block b, in two pairs (u1, u2); the cosine gives the even element of a pair,
// the sine the odd one. A thread computes one element; a block has 256 columns of one
// row.
KERNEL(normal, NormalArgs, THREADS) {
	u32 pieces = (u32)((a.dst.cols + THREADS - 1) / THREADS), r = blockIdx.x / pieces, group = (u32)a.group;
	i64 c = blockIdx.x % pieces * THREADS + threadIdx.x;
	if (c >= a.dst.cols) return;
	u64 i = a.offset + (u64)(r % group * a.dst.cols + c);
	Words x = philox(a.keys[r / group], i / 4);
	int p = (int)(i % 4 / 2) * 2;
	double u1 = ((double)((p ? x.w[2] : x.w[0]) >> 8) + 0.5) * 0x1p-24;
	double u2 = ((double)((p ? x.w[3] : x.w[1]) >> 8) + 0.5) * 0x1p-24, s, co;
	sincospi(2 * u2, &s, &co);
	at(a.dst, r, c) = (float)(sqrt(-2 * log(u1)) * (i % 2 ? s : co));
}

// nan_to_inf: one block per row of costs in[0]; the counts of NaN and +Inf are added to
// out[0].
KERNEL(nan_to_inf, EachArgs, THREADS) {
	Mat x = a.in[0];
	i64 r = blockIdx.x;
	double found = 0;
	for (i64 c = threadIdx.x; c < x.cols; c += THREADS) {
		if (at(x, r, c) < INFINITE) continue; // false for NaN
		at(x, r, c) = INFINITE;
		found++;
	}
	found = block_sum(found);
	if (threadIdx.x == 0) at(a.out[0], r, 0) += (float)found;
}

// cost_rank maps costs to unsigned integers of the same order. Both zeros are equal,
// and NaN comes last. Flipping the sign bit of positive numbers and all bits of
// negative ones makes the bits of IEEE floats monotonic.
DEVICE u32 cost_rank(float x) {
	u32 bits = (u32)__float_as_int(x + 0.0f); // -0 + 0 is 0
	return isnan(x) ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}

// smallest_k: a block has 256 candidates of an episode, one per thread, and counts for
// each the candidates that precede it, ties by index. A count below k is the
// candidate's position in the result. This quadratic method needs no sorting, no
// atomics and no workspace, and candidates are few (300).
KERNEL(smallest_k, EliteArgs, THREADS) {
	__shared__ uint4 ranks[THREADS / 4];
	int n = (int)a.costs.cols, pieces = (n + THREADS - 1) / THREADS, e = blockIdx.x / pieces;
	int i = blockIdx.x % pieces * THREADS + threadIdx.x, place = 0;
	const float *all = row(a.costs, e);
	u32 mine = i < n ? cost_rank(all[i]) : 0;
	for (int j0 = 0; j0 < n; j0 += THREADS) {
		int j = j0 + threadIdx.x;
		__syncthreads();
		((u32 *)ranks)[threadIdx.x] = j < n ? cost_rank(all[j]) : 0xffffffffu;
		__syncthreads();
		// Candidates before i precede it if they are not larger, those after it only if
		// they are smaller. The last piece is filled up to 256 with the largest rank.
		// Filler comes after every candidate, so it never precedes one.
		int before = i - j0;
		for (int k = 0; k < THREADS; k += 4) {
			uint4 r = ranks[k / 4];
			place += r.x < mine || (r.x == mine && k < before);
			place += r.y < mine || (r.y == mine && k + 1 < before);
			place += r.z < mine || (r.z == mine && k + 2 < before);
			place += r.w < mine || (r.w == mine && k + 3 < before);
		}
	}
	if (i < n && place < a.k) a.idx[e * a.k + place] = i;
}

// choice returns the i-th chosen candidate of episode e. An index outside [0, count)
// sets *fault and yields candidate 0, so that no kernel reads outside the matrix; the
// host checks the flag at the next transfer.
DEVICE i64 choice(const EliteArgs &a, i64 e, i64 i, i64 count) {
	i64 c = a.idx[e * a.k + i];
	if (c >= 0 && c < count) return c;
	*a.fault = 1;
	return 0;
}

// chosen returns column c of the i-th chosen candidate of episode e, and chosen_cost
// its cost.
DEVICE float chosen(const EliteArgs &a, i64 e, i64 i, i64 c) {
	i64 count = a.cand.rows / a.mean.rows;
	return at(a.cand, e * count + choice(a, e, i, count), c);
}

DEVICE float chosen_cost(const EliteArgs &a, i64 e, i64 i) { return at(a.costs, e, choice(a, e, i, a.costs.cols)); }

// each_chosen calls f(i, value) for column c of each chosen candidate of episode e, in
// order, with the loads of eight candidates in flight.
template <class F> DEVICE void each_chosen(const EliteArgs &a, i64 e, i64 c, F f) {
	enum { IN_FLIGHT = 8 };
	int k = (int)a.k, count = (int)a.cand.rows / (int)a.mean.rows;
	const int *idx = a.idx + e * a.k;
	const float *first = row(a.cand, e * count) + c;
	bool out_of_range = false;
	for (int i = 0; i < k; i += IN_FLIGHT) {
		int which[IN_FLIGHT];
		float v[IN_FLIGHT];
		UNROLL
		for (int j = 0; j < IN_FLIGHT; j++) which[j] = i + j < k ? idx[i + j] : 0;
		UNROLL
		for (int j = 0; j < IN_FLIGHT; j++) {
			bool in_range = (u32)which[j] < (u32)count;
			out_of_range |= !in_range;
			v[j] = first[(in_range ? which[j] : 0) * a.cand.stride];
		}
		UNROLL
		for (int j = 0; j < IN_FLIGHT; j++) {
			if (i + j < k) f(i + j, v[j]);
		}
	}
	if (out_of_range) *a.fault = 1;
}

// moments: one thread per column of an episode. The deviation is taken in a second pass
// about the mean.
KERNEL(moments, EliteArgs, THREADS) {
	for_tile(a.mean.cols, [&](i64 e, i64 c) {
		float mean = 0, squares = 0;
		each_chosen(a, e, c, [&](int, float v) { mean += v; });
		mean /= (float)a.k;
		at(a.mean, e, c) = mean;
		if (!a.std.p) return;
		each_chosen(a, e, c, [&](int, float v) { squares = fmaf(v - mean, v - mean, squares); });
		at(a.std, e, c) = sqrtf(squares / (float)(a.k - 1));
	});
}

// weighted_mean: mean = the chosen candidates weighted by std (episodes x k).
KERNEL(weighted_mean, EliteArgs, THREADS) {
	for_tile(a.mean.cols, [&](i64 e, i64 c) {
		const float *weights = row(a.std, e);
		float mean = 0;
		each_chosen(a, e, c, [&](int i, float v) { mean = fmaf(weights[i], v, mean); });
		at(a.mean, e, c) = mean;
	});
}

// softmin: one block per episode; mean holds the weights (episodes x k) of the chosen
// candidates. A cost equal to the lowest gets weight 1 without subtracting, which keeps
// infinite costs from giving NaN.
KERNEL(softmin, EliteArgs, THREADS) {
	i64 e = blockIdx.x;
	__shared__ float least_of[WARPS];
	float lowest = INFINITE;
	for (i64 i = threadIdx.x; i < a.k; i += THREADS) lowest = fminf(lowest, chosen_cost(a, e, i));
	lowest = -warp_max(-lowest);
	if (lane() == 0) least_of[warp()] = lowest;
	__syncthreads();
	for (int i = 0; i < WARPS; i++) lowest = fminf(lowest, least_of[i]);
	double sum = 0;
	for (i64 i = threadIdx.x; i < a.k; i += THREADS) {
		float cost = chosen_cost(a, e, i), w = 1;
		if (cost != lowest) w = (float)exp(-((double)cost - lowest) / a.temperature);
		at(a.mean, e, i) = w;
		sum += w;
	}
	sum = block_sum(sum);
	for (i64 i = threadIdx.x; i < a.k; i += THREADS) at(a.mean, e, i) = (float)(at(a.mean, e, i) / sum);
}

// gather: std (episodes*first x W) receives the first of each episode's k chosen
// candidates. Of mean only the number of rows is used, the number of episodes.
KERNEL(gather, EliteArgs, THREADS) {
	for_tile(a.std.cols, [&](i64 r, i64 c) { at(a.std, r, c) = chosen(a, r / a.first, r % a.first, c); });
}

// color: out[0] is the noise in[0] filtered by the taps in[1] (1 x H). A thread has one
// column of a block in one row: it filters its series of H numbers and divides it by
// its standard deviation.
KERNEL(color, EachArgs, THREADS) {
	Mat y = a.out[0], x = a.in[0];
	int h = (int)a.in[1].cols, width = (int)(y.cols / h);
	i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, r = i / width, c = i % width;
	if (r >= y.rows) return;
	double sum = 0, squares = 0;
	for (int t = 0; t < h; t++) {
		float v = 0;
		for (int j = 0; j < h; j++) v = fmaf(a.in[1].p[(t - j + h) % h], at(x, r, j * width + c), v);
		at(y, r, t * width + c) = v;
		sum += v;
	}
	for (int t = 0; t < h; t++) {
		double d = at(y, r, t * width + c) - sum / h;
		squares += d * d;
	}
	float std = fmaxf((float)sqrt(squares / (h - 1)), 1e-8f);
	for (int t = 0; t < h; t++) at(y, r, t * width + c) /= std;
}
