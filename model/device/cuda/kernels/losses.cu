// losses.cu: the objectives. Flat sums go to a fixed number of partial sums in
// double precision, which `add_up` adds in order.
#include "args.cuh"

// dst = scale * the sum of part.
KERNEL(add_up, SumArgs, THREADS) {
	double sum = 0;
	for (i64 i = threadIdx.x; i < a.chunks; i += THREADS) sum += a.part[i];
	sum = block_sum(sum);
	if (threadIdx.x == 0) *a.dst.p = (float)(a.scale * sum);
}

// flat calls f for every element of the block's share of a matrix: a share is
// every gridDim-th piece of 256 elements, whether rows are dense or not.
template <class F> DEVICE void flat(i64 rows, i64 cols, F f) {
	for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < rows * cols; i += (i64)gridDim.x * THREADS)
		f(i / cols, i % cols);
}

KERNEL(mse, MSEArgs, THREADS) {
	double sum = 0;
	float grad = (float)(2 * a.weight / ((double)a.pred.rows * (double)a.pred.cols));
	flat(a.pred.rows, a.pred.cols, [&](i64 r, i64 c) {
		float d = at(a.pred, r, c) - at(a.target, r, c);
		sum += (double)d * d;
		if (a.dpred.p) at(a.dpred, r, c) += grad * d;
		if (a.dtarget.p) at(a.dtarget, r, c) -= grad * d;
	});
	sum = block_sum(sum);
	if (threadIdx.x == 0) a.part[blockIdx.x] = sum;
}

KERNEL(sum_squares, SumArgs, THREADS) {
	double sum = 0;
	flat(a.x.rows, a.x.cols, [&](i64 r, i64 c) { sum += (double)at(a.x, r, c) * at(a.x, r, c); });
	sum = block_sum(sum);
	if (threadIdx.x == 0) a.part[blockIdx.x] = sum;
}

// SIGReg (lewm-spec section 2): a block is 32 columns of one frame of all clips.
// The first of the 17 knots t_k = 3k/16 adds nothing: there both functions are 1.
enum { KNOTS = 17 };

struct Waves {
	float c[KNOTS], s[KNOTS];
};

DEVICE float knot(int k) { return 0.1875f * (float)k; }
DEVICE float normal_wave(int k) { return expf(-0.5f * knot(k) * knot(k)); }
DEVICE float knot_weight(int k) { return (k == KNOTS - 1 ? 0.1875f : 0.375f) * normal_wave(k); }

// sigreg_waves is the mean over clips of exp(i t_k u) minus the normal's, on all threads.
DEVICE void sigreg_waves(const SIGRegArgs &a, i64 frame, i64 c, i64 clips, Waves &w) {
	__shared__ float sums[WARPS][2][WARP];
	for (int k = 1; k < KNOTS; k++) w.c[k] = w.s[k] = 0;
	for (i64 b = warp(); c < a.u.cols && b < clips; b += WARPS) {
		float u = at(a.u, b * a.frames + frame, c), sk, ck;
		for (int k = 1; k < KNOTS; k++) {
			sincosf(knot(k) * u, &sk, &ck);
			w.c[k] += ck;
			w.s[k] += sk;
		}
	}
	for (int k = 1; k < KNOTS; k++) {
		__syncthreads();
		sums[warp()][0][lane()] = w.c[k];
		sums[warp()][1][lane()] = w.s[k];
		__syncthreads();
		float ck = 0, sk = 0;
		for (int i = 0; i < WARPS; i++) {
			ck += sums[i][0][lane()];
			sk += sums[i][1][lane()];
		}
		w.c[k] = ck / (float)clips - normal_wave(k);
		w.s[k] = sk / (float)clips;
	}
}

KERNEL(sigreg, SIGRegArgs, THREADS) {
	i64 wide = (a.u.cols + WARP - 1) / WARP, frame = blockIdx.x / wide, c = blockIdx.x % wide * WARP + lane();
	i64 clips = a.u.rows / a.frames;
	Waves w;
	sigreg_waves(a, frame, c, clips, w);
	float loss = 0;
	for (int k = 1; k < KNOTS; k++) loss = fmaf(knot_weight(k), w.c[k] * w.c[k] + w.s[k] * w.s[k], loss);
	double total = block_sum(warp() || c >= a.u.cols ? 0.0 : (double)loss);
	if (threadIdx.x == 0) a.part[blockIdx.x] = total;
	if (!a.du.p) return;
	float scale = (float)(2 * a.weight / ((double)a.frames * (double)a.u.cols));
	for (int k = 1; k < KNOTS; k++) {
		w.c[k] *= scale * knot_weight(k) * knot(k);
		w.s[k] *= scale * knot_weight(k) * knot(k);
	}
	for (i64 b = warp(); c < a.u.cols && b < clips; b += WARPS) {
		float u = at(a.u, b * a.frames + frame, c), g = 0, sk, ck;
		for (int k = 1; k < KNOTS; k++) {
			sincosf(knot(k) * u, &sk, &ck);
			g += w.s[k] * ck - w.c[k] * sk;
		}
		at(a.du, b * a.frames + frame, c) = g;
	}
}

// A warp is a pair.
KERNEL(pair_distance, DistanceArgs, THREADS) {
	i64 k = grid_warp();
	if (k >= a.count) return;
	int i = a.pairs[k], j = a.pairs[a.count + k];
	float sum = 0;
	bool there = i >= 0 && i < a.z.rows && j >= 0 && j < a.z.rows;
	if (!there) *a.fault = 1;
	for (i64 c = lane(); there && c < a.z.cols; c += WARP) {
		float d = at(a.z, i, c) - at(a.z, j, c);
		sum = fmaf(d, d, sum);
	}
	sum = warp_sum(sum);
	if (lane() == 0) a.dst.p[k] = sum;
}

// A block is a row r of dz and 256 of its columns: it adds the row's pairs in their order.
// Each warp looks at 32 pairs at a time for those that hold r.
KERNEL(pair_distance_grad, DistanceArgs, THREADS) {
	i64 pieces = (a.z.cols + THREADS - 1) / THREADS, r = blockIdx.x / pieces;
	i64 c = blockIdx.x % pieces * THREADS + threadIdx.x;
	bool mine = c < a.z.cols;
	float z = mine ? at(a.z, r, c) : 0, sum = 0;
	for (i64 k0 = 0; k0 < a.count; k0 += WARP) {
		i64 k = k0 + lane();
		int i = k < a.count ? a.pairs[k] : -1, j = k < a.count ? a.pairs[a.count + k] : -1;
		if (k < a.count && (i < 0 || i >= a.z.rows || j < 0 || j >= a.z.rows)) *a.fault = 1;
		for (u32 hits = __ballot_sync(FULL, i == r || j == r); hits; hits &= hits - 1) {
			int from = __ffs(hits) - 1;
			int pi = __shfl_sync(FULL, i, from), pj = __shfl_sync(FULL, j, from);
			i64 other = pi == r ? pj : pi;
			if (mine && other >= 0 && other < a.z.rows) sum += 2 * a.ddist.p[k0 + from] * (z - at(a.z, other, c));
		}
	}
	if (mine) at(a.dst, r, c) += sum;
}

DEVICE void deviation(const float *x, i64 n, double divisor, double *mean, double *dev) {
	double sum = 0, squares = 0;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
	*mean = block_sum(sum) / (double)n;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares += (x[i] - *mean) * (x[i] - *mean);
	*dev = sqrt(block_sum(squares) / divisor);
}

// One block, double precision throughout: a few thousand numbers.
KERNEL(correlation, CorrelationArgs, 1024) {
	const double guard = 1e-6;
	const float *x = a.x.p, *y = a.y.p;
	i64 n = a.x.cols;
	double divisor = (double)(a.paper ? n : n - 1), mx, my, dev, dev_y, sum = 0;
	deviation(x, n, divisor, &mx, &dev);
	deviation(y, n, divisor, &my, &dev_y);
	bool skip = dev < guard || dev_y < guard;
	double sx = dev + guard, sy = dev_y + guard;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += (x[i] - mx) * (y[i] - my);
	double corr = block_sum(sum) / (sx * sy) / (double)n;
	if (threadIdx.x == 0) {
		a.result.p[0] = skip ? 0.0f : (float)(1 - corr);
		a.result.p[1] = skip;
	}
	for (i64 i = threadIdx.x; a.dx.p && i < n; i += blockDim.x) {
		double g = (y[i] - my) / ((double)n * sx * sy) - corr / sx * (x[i] - mx) / (divisor * dev);
		a.dx.p[i] = skip ? 0.0f : (float)(-a.weight * g);
	}
}

// A warp is a candidate.
KERNEL(latent_cost, CostArgs, THREADS) {
	i64 i = grid_warp(), patches = a.goal.rows / a.dst.rows, cols = a.pred.cols;
	if (i >= a.dst.rows * a.dst.cols) return;
	i64 e = i / a.dst.cols;
	float sum = 0;
	for (i64 p = 0; p < patches; p++) {
		for (i64 c = lane(); c < cols; c += WARP) {
			float d = at(a.pred, i * patches + p, c) - at(a.goal, e * patches + p, c);
			sum = fmaf(d, d, sum);
		}
	}
	sum = warp_sum(sum);
	if (a.mean) sum /= (float)(patches * cols);
	if (lane() == 0) at(a.dst, e, i % a.dst.cols) = sum;
}
