// losses.cu: the objectives and the planners' cost.
//
// mse: mean (pred-target)^2, gradients +-2 weight/n (pred-target); pred and target are read once, gradients
//   read and written once where they are asked for. sum_squares reads each number once.
// sigreg: clips/(T M) sum w_k |mean over clips of exp(i t_k u) - exp(-t_k^2/2)|^2; u is read twice and du
//   written once; the sums of a block's columns stay in registers and shared memory.
// pair_distance: |z_i - z_j|^2, two rows read and one number written a pair. Its gradient is
//   gathered by row of dz, so that pairs are added in order without atomics: each block reads all pairs' indices.
// correlation: 1 - corr of two rows of a few thousand numbers, by one block. latent_cost: |pred - goal|^2, or its
//   mean; pred is read once, the goal for each candidate, and one number a candidate is written.
// Flat sums go to a fixed number of partial sums in double precision, which add_up adds in order.
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
	for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < rows * cols; i += (i64)gridDim.x * THREADS) {
		if (rows == 1) f(0, i); // a division of 64 bits is long
		else f(i / cols, i % cols);
	}
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

// Threads have elements 4i..4i+3 of every grid-th i, in this order whichever way they are read.
KERNEL(sum_squares, SumArgs, THREADS) {
	const Mat &x = a.x;
	i64 n = x.rows * x.cols, step = (i64)gridDim.x * THREADS * 4, i = ((i64)blockIdx.x * THREADS + threadIdx.x) * 4;
	double sum = 0;
	auto add = [&](float v) { sum += (double)v * v; };
	if (x.rows == 1 && (u64)x.p % 16 == 0) {
		for (; i + 3 * step + 4 <= n; i += 4 * step) {
			float4 v[4];
			UNROLL
			for (int j = 0; j < 4; j++) v[j] = *(const float4 *)(x.p + i + j * step);
			UNROLL
			for (int j = 0; j < 4; j++) add(v[j].x), add(v[j].y), add(v[j].z), add(v[j].w);
		}
	}
	for (; i < n; i += step) {
		for (i64 j = i; j < least(n, i + 4); j++) add(x.rows == 1 ? x.p[j] : at(x, j / x.cols, j % x.cols));
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0) a.part[blockIdx.x] = sum;
}

// SIGReg (docs/sources.md#sigreg): a block is 32 columns of one frame of all clips.
// Of the 17 knots t_k = 3k/16 the first adds nothing: there both functions are 1.
// The waves exp(i t_k u) are powers of the first.
enum { KNOTS = 16 };

DEVICE float knot(int k) { return 0.1875f * (float)k; }
DEVICE float normal_wave(int k) { return expf(-0.5f * knot(k) * knot(k)); }
DEVICE float knot_weight(int k) { return (k == KNOTS ? 0.1875f : 0.375f) * normal_wave(k); }

// each_wave calls f(k, cos t_k u, sin t_k u) for the knots from 1 on.
template <class F> DEVICE void each_wave(float u, F f) {
	float s1, c1;
	sincosf(knot(1) * u, &s1, &c1);
	float c = c1, s = s1;
	UNROLL
	for (int k = 1; k <= KNOTS; k++) {
		f(k, c, s);
		float turned = c * c1 - s * s1;
		s = s * c1 + c * s1;
		c = turned;
	}
}

// Waves are those of a block's columns, and its warps' sums on the way there: cosines, then sines.
struct Waves {
	float sums[WARPS][2 * KNOTS][WARP], mean[2 * KNOTS][WARP];
};

// sigreg_waves leaves the mean over clips of exp(i t_k u) minus the normal's.
DEVICE void sigreg_waves(const SIGRegArgs &a, i64 frame, i64 c, i64 clips, Waves &w) {
	float sum[2 * KNOTS] = {};
	for (i64 b = warp(); c < a.u.cols && b < clips; b += WARPS) {
		each_wave(at(a.u, b * a.frames + frame, c), [&](int k, float ck, float sk) {
			sum[k - 1] += ck;
			sum[KNOTS + k - 1] += sk;
		});
	}
	UNROLL
	for (int i = 0; i < 2 * KNOTS; i++) w.sums[warp()][i][lane()] = sum[i];
	__syncthreads();
	for (int i = warp(); i < 2 * KNOTS; i += WARPS) {
		float all = 0;
		for (int j = 0; j < WARPS; j++) all += w.sums[j][i][lane()];
		w.mean[i][lane()] = all / (float)clips - (i < KNOTS ? normal_wave(i + 1) : 0);
	}
	__syncthreads();
}

KERNEL(sigreg, SIGRegArgs, THREADS) {
	__shared__ Waves w;
	i64 wide = (a.u.cols + WARP - 1) / WARP, frame = blockIdx.x / wide, c = blockIdx.x % wide * WARP + lane();
	i64 clips = a.u.rows / a.frames;
	sigreg_waves(a, frame, c, clips, w);
	float wc[KNOTS], ws[KNOTS], loss = 0, scale = (float)(2 * a.weight / ((double)a.frames * (double)a.u.cols));
	UNROLL
	for (int k = 1; k <= KNOTS; k++) {
		float ck = w.mean[k - 1][lane()], sk = w.mean[KNOTS + k - 1][lane()], weight = knot_weight(k);
		loss = fmaf(weight, ck * ck + sk * sk, loss);
		wc[k - 1] = ck * (scale * weight * knot(k));
		ws[k - 1] = sk * (scale * weight * knot(k));
	}
	double total = block_sum(warp() || c >= a.u.cols ? 0.0 : (double)loss);
	if (threadIdx.x == 0) a.part[blockIdx.x] = total;
	if (!a.du.p) return;
	for (i64 b = warp(); c < a.u.cols && b < clips; b += WARPS) {
		float g = 0;
		each_wave(at(a.u, b * a.frames + frame, c), [&](int k, float ck, float sk) { g += ws[k - 1] * ck - wc[k - 1] * sk; });
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
// Each warp looks at 4 x 32 pairs at a time for those that hold r.
KERNEL(pair_distance_grad, DistanceArgs, THREADS) {
	int pieces = (int)((a.z.cols + THREADS - 1) / THREADS), r = blockIdx.x / pieces;
	i64 c = (i64)(blockIdx.x % pieces) * THREADS + threadIdx.x;
	bool mine = c < a.z.cols;
	float z = mine ? at(a.z, r, c) : 0, sum = 0;
	for (i64 k0 = 0; k0 < a.count; k0 += 4 * WARP) {
		int first[4], second[4];
		UNROLL
		for (int p = 0; p < 4; p++) {
			i64 k = k0 + p * WARP + lane();
			first[p] = k < a.count ? a.pairs[k] : r;
			second[p] = k < a.count ? a.pairs[a.count + k] : r; // a pair of r and itself adds nothing
		}
		UNROLL
		for (int p = 0; p < 4; p++) {
			int i = first[p], j = second[p];
			if (i < 0 || i >= a.z.rows || j < 0 || j >= a.z.rows) *a.fault = 1;
			for (u32 hits = __ballot_sync(FULL, (i == r) != (j == r)); hits; hits &= hits - 1) {
				int from = __ffs(hits) - 1;
				int pi = __shfl_sync(FULL, i, from), pj = __shfl_sync(FULL, j, from);
				i64 other = pi == r ? pj : pi;
				if (mine && other >= 0 && other < a.z.rows) sum += 2 * a.ddist.p[k0 + p * WARP + from] * (z - at(a.z, other, c));
			}
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
