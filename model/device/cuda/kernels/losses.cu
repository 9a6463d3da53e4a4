// losses.cu: the loss terms, their gradients, and the planners' cost.
//
//    mse            mean (pred - target)^2, gradients +-2 weight/n (pred - target). pred
//                   and target are read once, gradients read and written once where given.
//    sum_squares    reads each number once.
//    sigreg         clips/(T M) sum w_k |mean over clips of exp(i t_k u) - exp(-t_k^2/2)|^2.
//                   u is read twice and du written once; sums stay in registers and
//                   shared memory.
//    pair_distance  |z_i - z_j|^2: two rows read and one number written per pair. The
//                   gradient is gathered by row of dz, so that pairs are added in order
//                   without atomics; each block reads the indices of all pairs.
//    correlation    1 - corr of two rows of a few thousand numbers, by one block.
//    latent_cost    |pred - goal|^2, or its mean. pred is read once, the goal once per
//                   candidate, and one number is written per candidate.
//
// Sums over all elements use a fixed number of partial sums in double precision, which
// add_up adds in order: the result does not depend on the GPU.
#include "args.cuh"

// add_up sets dst to scale times the sum of part. It runs as a single block.
KERNEL(add_up, SumArgs, THREADS) {
	double sum = 0;
	for (i64 i = threadIdx.x; i < a.chunks; i += THREADS) sum += a.part[i];
	sum = block_sum(sum);
	if (threadIdx.x == 0) *a.dst.p = (float)(a.scale * sum);
}

// flat calls f for the block's share of a rows x cols matrix: every gridDim-th piece of
// 256 elements.
template <class F> DEVICE void flat(i64 rows, i64 cols, F f) {
	for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < rows * cols; i += (i64)gridDim.x * THREADS) {
		if (rows == 1) f(0, i); // saves a 64-bit division per element
		else f(i / cols, i % cols);
	}
}

// mse adds to the gradients where given, and computes one partial sum of squares per
// block.
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

// sum_squares computes one partial sum per block. A thread has elements 4i to 4i+3 of
// every grid-th i, in this order however the matrix is stored. Dense matrices are read
// with four float4 loads in flight.
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
		for (i64 j = i; j < min64(n, i + 4); j++) add(x.rows == 1 ? x.p[j] : at(x, j / x.cols, j % x.cols));
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0) a.part[blockIdx.x] = sum;
}

// SIGReg (docs/sources.md#sigreg): a block has 32 columns of one frame of all clips,
// one column per lane.
//
// The loss compares the empirical characteristic function of each column with that of
// the standard normal at the knots t_k = 3k/16, integrated by the trapezoidal rule.
// Knot 0 of the 17 adds nothing, since both functions are 1 there. exp(i t_k u) is the
// k-th power of exp(i t_1 u), so one sincosf suffices.
enum { KNOTS = 16 };

// The position of a knot, the normal characteristic function there, and the knot's
// weight: the window exp(-t^2/2) times twice the interval of 3/16, or once at the last
// knot.
DEVICE float knot(int k) { return 0.1875f * (float)k; }
DEVICE float normal_cf(int k) { return expf(-0.5f * knot(k) * knot(k)); }
DEVICE float knot_weight(int k) { return (k == KNOTS ? 0.1875f : 0.375f) * normal_cf(k); }

// each_frequency calls f(k, cos t_k u, sin t_k u) for k = 1 to KNOTS, by the addition
// theorems.
template <class F> DEVICE void each_frequency(float u, F f) {
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

// CharFunc holds a block's characteristic functions, cosines then sines: the sums of
// each warp, and the means over clips minus the normal's.
struct CharFunc {
	float sums[WARPS][2 * KNOTS][WARP], mean[2 * KNOTS][WARP];
};

// char_func fills w.mean. A warp takes every WARPS-th clip; the warps' sums are added
// in order.
DEVICE void char_func(const SIGRegArgs &a, i64 frame, i64 c, i64 clips, CharFunc &w) {
	float sum[2 * KNOTS] = {};
	for (i64 b = warp(); c < a.u.cols && b < clips; b += WARPS) {
		each_frequency(at(a.u, b * a.frames + frame, c), [&](int k, float ck, float sk) {
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
		w.mean[i][lane()] = all / (float)clips - (i < KNOTS ? normal_cf(i + 1) : 0);
	}
	__syncthreads();
}

// sigreg writes each block's share of the loss to part, and du where given.
KERNEL(sigreg, SIGRegArgs, THREADS) {
	__shared__ CharFunc w;
	i64 wide = (a.u.cols + WARP - 1) / WARP, frame = blockIdx.x / wide, c = blockIdx.x % wide * WARP + lane();
	i64 clips = a.u.rows / a.frames;
	char_func(a, frame, c, clips, w);
	// wc and ws are the derivatives of the loss with respect to the means of cosines
	// and sines, times t_k: the chain rule through exp(i t_k u) is then one
	// multiply-add per knot.
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
		each_frequency(at(a.u, b * a.frames + frame, c), [&](int k, float ck, float sk) { g += ws[k - 1] * ck - wc[k - 1] * sk; });
		at(a.du, b * a.frames + frame, c) = g;
	}
}

// pair_distance: one warp per pair. An index out of range sets *fault, and its distance
// is 0.
KERNEL(pair_distance, DistanceArgs, THREADS) {
	i64 k = grid_warp();
	if (k >= a.count) return;
	int i = a.pairs[k], j = a.pairs[a.count + k];
	float sum = 0;
	bool in_range = i >= 0 && i < a.z.rows && j >= 0 && j < a.z.rows;
	if (!in_range) *a.fault = 1;
	for (i64 c = lane(); in_range && c < a.z.cols; c += WARP) {
		float d = at(a.z, i, c) - at(a.z, j, c);
		sum = fmaf(d, d, sum);
	}
	sum = warp_sum(sum);
	if (lane() == 0) a.dst.p[k] = sum;
}

// pair_distance_grad: a block has row r of dz and 256 of its columns, one per thread,
// and adds the row's pairs in their order. Each warp examines 4 x 32 pairs at a time,
// one per lane, for those that contain r; the ballot then lists the hits in order for
// all lanes.
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
			second[p] = k < a.count ? a.pairs[a.count + k] : r; // a pair of r with itself adds nothing
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

// deviation computes the mean and the standard deviation of x, with the given divisor
// of the variance, in two passes. All threads of the block get the result.
DEVICE void deviation(const float *x, i64 n, double divisor, double *mean, double *dev) {
	double sum = 0, squares = 0;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
	*mean = block_sum(sum) / (double)n;
	for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares += (x[i] - *mean) * (x[i] - *mean);
	*dev = sqrt(block_sum(squares) / divisor);
}

// correlation: one block, in double precision, since a few thousand numbers are cheap.
// A deviation below `guard` makes the correlation meaningless: the loss and its
// gradient are then 0 and result[1] is 1. guard is also added to the deviations, as the
// authors' code does.
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

// latent_cost: one warp per candidate. pred has `patches` rows per candidate, goal as
// many per episode.
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
