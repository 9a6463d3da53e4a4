// search.cu: the planners' kernels.
#include "args.cuh"

// Box-Muller as in dataset/rng, in double precision: the numbers are the host's,
// rounded. A thread makes one number.
KERNEL(normal, NormalArgs, THREADS) {
	tiles(a.dst.cols, [&](i64 r, i64 c) {
		u64 i = a.offset + (u64)(r % a.group * a.dst.cols + c);
		Words x = philox(a.keys[r / a.group], i / 4);
		int p = (int)(i % 4 / 2) * 2;
		double u1 = ((double)((p ? x.w[2] : x.w[0]) >> 8) + 0.5) * 0x1p-24;
		double u2 = ((double)((p ? x.w[3] : x.w[1]) >> 8) + 0.5) * 0x1p-24, s, co;
		sincospi(2 * u2, &s, &co);
		at(a.dst, r, c) = (float)(sqrt(-2 * log(u1)) * (i % 2 ? s : co));
	});
}

// A block is a row of costs. in: x; out: the rows' counts of NaN.
KERNEL(nan_to_inf, EachArgs, THREADS) {
	Mat x = a.in[0];
	i64 r = blockIdx.x;
	double found = 0;
	for (i64 c = threadIdx.x; c < x.cols; c += THREADS) {
		if (!isnan(at(x, r, c))) continue;
		at(x, r, c) = INFINITE;
		found++;
	}
	found = block_sum(found);
	if (threadIdx.x == 0) at(a.out[0], r, 0) += (float)found;
}

// better orders costs; NaN comes after every number.
DEVICE bool better(float x, float y) { return x < y || (isnan(y) && !isnan(x)); }

// A block is 256 candidates of an episode: a candidate's place is the count of those before it.
KERNEL(smallest_k, EliteArgs, THREADS) {
	__shared__ float costs[THREADS];
	i64 n = a.costs.cols, pieces = (n + THREADS - 1) / THREADS, e = blockIdx.x / pieces;
	i64 i = blockIdx.x % pieces * THREADS + threadIdx.x;
	const float *all = row(a.costs, e);
	float mine = i < n ? all[i] : 0;
	i64 place = 0;
	for (i64 j0 = 0; j0 < n; j0 += THREADS) {
		__syncthreads();
		if (j0 + threadIdx.x < n) costs[threadIdx.x] = all[j0 + threadIdx.x];
		__syncthreads();
		for (i64 j = 0; j < least(THREADS, n - j0); j++)
			place += better(costs[j], mine) || (j0 + j < i && !better(mine, costs[j]));
	}
	if (i < n && place < a.k) a.idx[e * a.k + place] = (int)i;
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

// A thread is a column of an episode.
KERNEL(moments, EliteArgs, THREADS) {
	tiles(a.mean.cols, [&](i64 e, i64 c) {
		float mean = 0, squares = 0;
		for (i64 i = 0; i < a.k; i++) mean += chosen(a, e, i, c);
		mean /= (float)a.k;
		at(a.mean, e, c) = mean;
		if (!a.std.p) return;
		for (i64 i = 0; i < a.k; i++) {
			float d = chosen(a, e, i, c) - mean;
			squares = fmaf(d, d, squares);
		}
		at(a.std, e, c) = sqrtf(squares / (float)(a.k - a.ddof));
	});
}

// mean = the chosen candidates weighted by std (episodes x k).
KERNEL(weighted_mean, EliteArgs, THREADS) {
	tiles(a.mean.cols, [&](i64 e, i64 c) {
		float mean = 0;
		for (i64 i = 0; i < a.k; i++) mean = fmaf(at(a.std, e, i), chosen(a, e, i, c), mean);
		at(a.mean, e, c) = mean;
	});
}

// A block is an episode; mean are the weights (episodes x k) of its chosen candidates' costs.
KERNEL(softmin, EliteArgs, THREADS) {
	i64 e = blockIdx.x;
	__shared__ float lowest;
	if (threadIdx.x == 0) {
		lowest = INFINITE;
		for (i64 i = 0; i < a.k; i++) lowest = fminf(lowest, chosen_cost(a, e, i));
	}
	__syncthreads();
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

// std (episodes*ddof x W) are the first ddof of each episode's k chosen; mean tells the episodes.
KERNEL(gather, EliteArgs, THREADS) {
	tiles(a.std.cols, [&](i64 r, i64 c) { at(a.std, r, c) = chosen(a, r / a.ddof, r % a.ddof, c); });
}

// A block is an episode: mean (row) and std (1 number) are the best so far and its cost.
KERNEL(keep_best, EliteArgs, THREADS) {
	i64 e = blockIdx.x;
	float cost = chosen_cost(a, e, 0), lowest = at(a.std, e, 0);
	__syncthreads(); // all have read the lowest
	if (!(cost < lowest)) return;
	if (threadIdx.x == 0) at(a.std, e, 0) = cost;
	for (i64 c = threadIdx.x; c < a.mean.cols; c += THREADS) at(a.mean, e, c) = chosen(a, e, 0, c);
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
