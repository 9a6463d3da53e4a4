// search.cu: the planners' kernels, from random numbers to the next mean. A kernel does one
// whole step of a search for all episodes.
//
// normal: z = sqrt(-2 log u1) (cos or sin)(2 pi u2); one float written, nothing read but an episode's key.
// nan_to_inf: costs are read once, only NaN and +Inf are written. smallest_k: a candidate's place is the count of smaller
//   costs; each 256 candidates read all costs of their episode once, by way of shared memory.
// moments: mean and standard deviation (ddof 1) of the k chosen, read twice; weighted_mean reads them once.
// softmin: w = exp(-(cost - lowest)/temperature) / sum; costs are read twice, weights written twice.
// gather copies the first of the chosen. color: a circular filter over the horizon, then division by the
//   standard deviation; H^2 reads a series of H numbers, from the nearest cache after the first.
#include "args.cuh"

// Box-Muller as in dataset/rng, in double precision: the numbers are the host's,
// rounded. A thread makes one number; a block has 256 columns of a row.
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

// A block is a row of costs. in: x; out: the rows' counts of NaN and +Inf.
KERNEL(nan_to_inf, EachArgs, THREADS) {
	Mat x = a.in[0];
	i64 r = blockIdx.x;
	double found = 0;
	for (i64 c = threadIdx.x; c < x.cols; c += THREADS) {
		if (at(x, r, c) < INFINITE) continue;
		at(x, r, c) = INFINITE;
		found++;
	}
	found = block_sum(found);
	if (threadIdx.x == 0) at(a.out[0], r, 0) += (float)found;
}

// cost_rank orders costs as unsigned numbers: the two zeros are equal, NaN comes after every number.
DEVICE u32 cost_rank(float x) {
	u32 bits = (u32)__float_as_int(x + 0.0f); // -0 + 0 is 0
	return isnan(x) ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}

// A block is 256 candidates of an episode: a candidate's place is the count of those before it, ties by index.
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
		// Those before i count where they are no larger, those after it where they are less. There are 256: the rest is
		// as large as can be, and counts only before i, where there is none.
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

// choice is the i-th candidate of `count` chosen for episode e.
DEVICE i64 choice(const EliteArgs &a, i64 e, i64 i, i64 count) {
	i64 c = a.idx[e * a.k + i];
	if (c >= 0 && c < count) return c;
	*a.fault = 1;
	return 0;
}

DEVICE float chosen(const EliteArgs &a, i64 e, i64 i, i64 c) {
	i64 count = a.cand.rows / a.mean.rows;
	return at(a.cand, e * count + choice(a, e, i, count), c);
}

DEVICE float chosen_cost(const EliteArgs &a, i64 e, i64 i) { return at(a.costs, e, choice(a, e, i, a.costs.cols)); }

// each_chosen calls f(i, number) for column c of the chosen of episode e, in their order. Eight are on their way at once.
template <class F> DEVICE void each_chosen(const EliteArgs &a, i64 e, i64 c, F f) {
	enum { AHEAD = 8 };
	int k = (int)a.k, count = (int)a.cand.rows / (int)a.mean.rows;
	const int *idx = a.idx + e * a.k;
	const float *first = row(a.cand, e * count) + c;
	bool astray = false;
	for (int i = 0; i < k; i += AHEAD) {
		int which[AHEAD];
		float v[AHEAD];
		UNROLL
		for (int j = 0; j < AHEAD; j++) which[j] = i + j < k ? idx[i + j] : 0;
		UNROLL
		for (int j = 0; j < AHEAD; j++) {
			bool there = (u32)which[j] < (u32)count;
			astray |= !there;
			v[j] = first[(there ? which[j] : 0) * a.cand.stride];
		}
		UNROLL
		for (int j = 0; j < AHEAD; j++) {
			if (i + j < k) f(i + j, v[j]);
		}
	}
	if (astray) *a.fault = 1;
}

// A thread is a column of an episode.
KERNEL(moments, EliteArgs, THREADS) {
	tiles(a.mean.cols, [&](i64 e, i64 c) {
		float mean = 0, squares = 0;
		each_chosen(a, e, c, [&](int, float v) { mean += v; });
		mean /= (float)a.k;
		at(a.mean, e, c) = mean;
		if (!a.std.p) return;
		each_chosen(a, e, c, [&](int, float v) { squares = fmaf(v - mean, v - mean, squares); });
		at(a.std, e, c) = sqrtf(squares / (float)(a.k - 1));
	});
}

// mean = the chosen candidates weighted by std (episodes x k).
KERNEL(weighted_mean, EliteArgs, THREADS) {
	tiles(a.mean.cols, [&](i64 e, i64 c) {
		const float *weights = row(a.std, e);
		float mean = 0;
		each_chosen(a, e, c, [&](int i, float v) { mean = fmaf(weights[i], v, mean); });
		at(a.mean, e, c) = mean;
	});
}

// A block is an episode; mean are the weights (episodes x k) of its chosen candidates' costs.
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

// std (episodes*first x W) are the first of each episode's k chosen; mean tells the episodes.
KERNEL(gather, EliteArgs, THREADS) {
	tiles(a.std.cols, [&](i64 r, i64 c) { at(a.std, r, c) = chosen(a, r / a.first, r % a.first, c); });
}

// A thread is one column of a block in one row: it filters and scales its series
// of H numbers. out: dst; in: noise, taps (1 x H).
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
