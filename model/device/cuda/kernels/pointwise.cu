// pointwise.cu: element by element. The caller sees dense matrices as one long
// row, so that pieces of 1,024 columns fill the card.
#include "args.cuh"

#define EACH(name, ...) \
	KERNEL(name, EachArgs, THREADS) { tiles(a.out[0].cols, [&](i64 r, i64 c) { __VA_ARGS__; }); }
#define OUT(i) at(a.out[i], r, c)
#define IN(i) at(a.in[i], r, c)

EACH(fill, OUT(0) = (float)a.alpha)
// copy and dropout take bf16 too.
EACH(copy, set(a.out[0], r, c, get(a.in[0], r, c)))
EACH(activate_each, OUT(0) = activate(a.act, IN(0)))
EACH(activate_grad, OUT(0) = IN(0) * slope(a.act, IN(1)))
EACH(axpy, OUT(0) += (float)a.alpha * IN(0))
EACH(mul, float v = IN(0) * IN(1); OUT(0) = a.add ? OUT(0) + v : v)
EACH(gate_grad, float g = IN(0), gate = IN(1), y = IN(2); OUT(0) = g * gate; OUT(1) = g * y)
EACH(modulate_grad, float g = IN(0), x = IN(1), s = IN(2); OUT(0) = g * (1 + s); OUT(1) = g * x; OUT(2) = g)
EACH(add_table, OUT(0) += at(a.in[0], r % a.in[0].rows, c))
EACH(add_repeated, const Mat &rows = a.out[0]; OUT(0) = at(a.in[0], r * a.in[0].rows / rows.rows, c) + at(a.in[1], r * a.in[1].rows / rows.rows, c))
EACH(dropout, float kept = keep((float)a.alpha, a.key, (u64)(r * a.out[0].cols + c));
     set(a.out[0], r, c, get(a.in[0], r, c) * kept))
EACH(clip, float v = OUT(0), lo = a.in[0].p[c], hi = a.in[1].p[c]; OUT(0) = v < lo ? lo : v > hi ? hi : v)
EACH(lerp, OUT(0) = (float)a.alpha * OUT(0) + (1 - (float)a.alpha) * IN(0))

// Candidate 0 of each episode is the mean itself. in: mean, std, noise.
EACH(candidates, i64 count = a.out[0].rows / a.in[0].rows; i64 e = r / count;
     float v = at(a.in[0], e, c); OUT(0) = r % count ? fmaf(at(a.in[1], e, c), IN(2), v) : v)

// A block is a row of a block of rows.
KERNEL(copy_blocks, BlocksArgs, THREADS) {
	i64 i = blockIdx.x / a.rows, r = blockIdx.x % a.rows;
	float *out = row(a.dst, i * a.dst_block + r);
	const float *in = row(a.src, i * a.src_block + r);
	for (i64 c = threadIdx.x; c < a.dst.cols; c += THREADS) out[c] = a.add ? out[c] + in[c] : in[c];
}

// PyTorch's order: decay, then the moments.
KERNEL(adamw, AdamArgs, THREADS) {
	double norm = sqrt((double)*a.sumsq.p);
	float clip = 1;
	if (a.max_norm > 0 && !(norm + 1e-6 <= a.max_norm)) clip = (float)(a.max_norm / (norm + 1e-6)); // NaN stays NaN
	float keep = (float)(1 - a.lr * a.decay), b1 = (float)a.beta1, b2 = (float)a.beta2;
	float n1 = (float)(1 - a.beta1), n2 = (float)(1 - a.beta2);
	float rate = (float)(a.lr / a.correct1), root = (float)(1 / sqrt(a.correct2)), eps = (float)a.eps;
	tiles(a.p.cols, [&](i64, i64 c) {
		float g = a.g.p[c] * clip;
		float m = fmaf(b1, a.m.p[c], n1 * g), v = fmaf(b2, a.v.p[c], n2 * g * g);
		a.m.p[c] = m;
		a.v.p[c] = v;
		a.p.p[c] = a.p.p[c] * keep - rate * m / (sqrtf(v) * root + eps);
	});
}
