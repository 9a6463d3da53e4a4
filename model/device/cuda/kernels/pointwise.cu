// pointwise.cu: element-wise kernels and AdamW. All are limited by memory bandwidth.
//
// A thread has four adjacent columns, which it reads and writes as one 16-byte vector
// (8 bytes of bf16). The caller presents dense matrices as one long row, so that blocks
// of 1,024 columns fill the GPU whatever the shape, and a repeated row as a matrix with
// stride 0. All kernels except candidates accept bf16.
//
// Memory traffic: each input is read once and each output written once, and read if it
// is added to.
//
//    adamw  m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2,
//           p = (1 - lr decay) p - lr/c1 m / (sqrt(v/c2) + eps)
//           with g clipped to max_norm and c1, c2 the bias corrections: 16 bytes read and
//           12 written per parameter
#include "args.cuh"
#include "rows.cuh"

// each calls f(i, x, y) for each element of the block's share, with i = row * cols +
// column. x holds the elements of a.in. f sets y, whose values go to the matrices of
// a.out that are given. If OLD or a.add, y initially holds the old values of the
// outputs, else zeros.
template <int OUTS, int INS, bool OLD, class F> DEVICE void each(const EachArgs &a, F f) {
	i64 cols = a.out[0].cols;
	u32 pieces = (u32)((cols + TILE - 1) / TILE);
	i64 r = blockIdx.x / pieces, c = (i64)(blockIdx.x % pieces) * TILE + 4 * threadIdx.x;
	if (c >= cols) return;
	float x[INS + 1][4], y[OUTS][4] = {};
	UNROLL
	for (int m = 0; m < INS; m++) load_four(x[m], a.in[m], r, c);
	UNROLL
	for (int m = 0; m < OUTS && (OLD || a.add); m++) load_four(y[m], a.out[m], r, c);
	UNROLL
	for (int e = 0; e < 4; e++) {
		float xe[INS + 1], ye[OUTS];
		UNROLL
		for (int m = 0; m < INS; m++) xe[m] = x[m][e];
		UNROLL
		for (int m = 0; m < OUTS; m++) ye[m] = y[m][e];
		f(r * cols + c + e, xe, ye);
		UNROLL
		for (int m = 0; m < OUTS; m++) y[m][e] = ye[m];
	}
	UNROLL
	for (int m = 0; m < OUTS; m++) {
		if (a.out[m].p) store_four(a.out[m], r, c, y[m]);
	}
}

// EACH defines an element-wise kernel with OUTS outputs and INS inputs by its statement
// for one element.
#define EACH(name, OUTS, INS, OLD, ...) \
	KERNEL(name, EachArgs, THREADS) { \
		each<OUTS, INS, OLD>(a, [&](i64 i, const float *x, float *y) { \
			(void)i, (void)x; \
			__VA_ARGS__; \
		}); \
	}

EACH(fill, 1, 0, false, y[0] = (float)a.alpha)
EACH(copy, 2, 1, false, y[0] = y[1] = x[0])
EACH(activate_each, 1, 1, false, y[0] = activate(a.act, x[0]))
EACH(activate_grad, 1, 2, false, y[0] = x[0] * act_grad(a.act, x[1]))
EACH(axpy, 1, 1, true, y[0] += (float)a.alpha * x[0])
EACH(gate_grad, 2, 3, false, y[0] = x[0] * x[1]; y[1] = x[0] * x[2])
EACH(modulate_grad, 3, 3, false, y[0] = x[0] * (1 + x[2]); y[1] = x[0] * x[1]; y[2] = x[0])
EACH(dropout, 2, 1, false, y[0] = y[1] = x[0] * dropout_at((float)a.alpha, a.key, (u64)i))
EACH(clip, 1, 2, true, float v = y[0]; y[0] = v < x[0] ? x[0] : v > x[1] ? x[1] : v)
EACH(lerp, 1, 1, true, y[0] = (float)a.alpha * y[0] + (1 - (float)a.alpha) * x[0])

// tokens: a row of out is a block of tokens: in[0], one row for all, plus in[1] in its
// first token and a row of in[2] in the others.
KERNEL(tokens, EachArgs, THREADS) {
	i64 width = a.in[1].cols;
	u32 pieces = (u32)((a.out[0].cols + TILE - 1) / TILE);
	i64 r = blockIdx.x / pieces, c = (i64)(blockIdx.x % pieces) * TILE + 4 * threadIdx.x;
	if (c >= a.out[0].cols) return;
	float x[4], table[4];
	load_four(table, a.in[0], 0, c);
	if (c < width) load_four(x, a.in[1], 0, c);
	else load_four(x, a.in[2], r, c - width);
	UNROLL
	for (int e = 0; e < 4; e++) x[e] += table[e];
	store_four(a.out[0], r, c, x);
}

// add_repeated: out = the rows of in[0] plus those of in[1], each repeated until it
// fills out. Rows are short, so a block has several.
KERNEL(add_repeated, EachArgs, THREADS) {
	u32 rows = (u32)a.out[0].rows, fours = (u32)(a.out[0].cols + 3) / 4, i = blockIdx.x * THREADS + threadIdx.x;
	u32 r = i / fours, c = i % fours * 4;
	if (r >= rows) return;
	float x[4], y[4];
	load_four(x, a.in[0], r / (rows / (u32)a.in[0].rows), c);
	load_four(y, a.in[1], r / (rows / (u32)a.in[1].rows), c);
	UNROLL
	for (int e = 0; e < 4; e++) x[e] += y[e];
	store_four(a.out[0], r, c, x);
}

// candidates: out = mean + std * noise (in[0] to in[2]), except that candidate 0 of
// each episode is the mean itself. One element per thread.
KERNEL(candidates, EachArgs, THREADS) {
	const Mat &out = a.out[0];
	u32 rows = (u32)out.rows, cols = (u32)out.cols, i = blockIdx.x * THREADS + threadIdx.x, r = i / cols, c = i % cols;
	u32 count = rows / (u32)a.in[0].rows, e = r / count;
	if (r >= rows) return;
	float v = at(a.in[0], e, c);
	at(out, r, c) = r % count ? fmaf(at(a.in[1], e, c), at(a.in[2], r, c), v) : v;
}

// adamw updates in PyTorch's order: decay, then the moments. The grid fills the GPU
// once and blocks loop over the parameters, so that the scalars, in double precision,
// are computed once per thread. The condition is written so that a NaN norm makes the
// clipping factor NaN: a diverged training then has NaN parameters instead of
// continuing unclipped.
KERNEL(adamw, AdamArgs, THREADS, RESIDENT) {
	double norm = sqrt((double)*a.sumsq.p);
	float clip = 1;
	if (a.max_norm > 0 && !(norm + 1e-6 <= a.max_norm)) clip = (float)(a.max_norm / (norm + 1e-6));
	float decay_factor = (float)(1 - a.lr * a.decay), b1 = (float)a.beta1, b2 = (float)a.beta2;
	float n1 = (float)(1 - a.beta1), n2 = (float)(1 - a.beta2);
	float rate = (float)(a.lr / a.correct1), root = (float)(1 / sqrt(a.correct2)), eps = (float)a.eps;
	for (i64 c = ((i64)blockIdx.x * THREADS + threadIdx.x) * 4; c < a.p.cols; c += (i64)gridDim.x * TILE) {
		float p[4], g[4], m[4], v[4];
		load_four(p, a.p, 0, c);
		load_four(g, a.g, 0, c);
		load_four(m, a.m, 0, c);
		load_four(v, a.v, 0, c);
		UNROLL
		for (int e = 0; e < 4; e++) {
			float grad = g[e] * clip;
			m[e] = fmaf(b1, m[e], n1 * grad);
			v[e] = fmaf(b2, v[e], n2 * grad * grad);
			p[e] = p[e] * decay_factor - rate * m[e] / (sqrtf(v[e]) * root + eps);
		}
		store_four(a.p, 0, c, p);
		store_four(a.m, 0, c, m);
		store_four(a.v, 0, c, v);
	}
}
