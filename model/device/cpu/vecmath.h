// vecmath.h: elementary functions of vectors, built on the operations of vec_*.h. The
// polynomials are minimax fits made for this program (weighted least squares on
// Chebyshev nodes). Each comment states the largest error of the float32 evaluation,
// measured over the entire range. NaN passes through all of them. The same code runs
// for every vector length, but fused multiply-adds are not fused on the plain path,
// whose last bits therefore differ.

// INLINED forces inlining of functions with compile-time constant arguments, so that
// the compiler removes the branches on them.
#define INLINED static inline __attribute__((always_inline))

// imin returns the smaller of two integers.
static inline i64 imin(i64 a, i64 b) { return a < b ? a : b; }

// vpart loads the numbers from p[c] to p[cols-1], at most VL, and fills with zeros;
// vput stores as many.
static inline vf vpart(const float *p, i64 c, i64 cols) {
	return c + VL <= cols ? vload(p + c) : vloadn(p + c, cols - c);
}

static inline void vput(float *p, i64 c, i64 cols, vf v) {
	if (c + VL <= cols) vstore(p + c, v);
	else vstoren(p + c, v, cols - c);
}

// vbits reinterprets bits as floats; viset sets all lanes.
static inline vf vbits(vi x) { return (vf)x; }
static inline vi viset(int32_t x) { return (vi){0} + x; }

// Adding ROUND_MAGIC = 1.5 * 2^23 to |x| < 2^21 rounds x to an integer, in the low
// bits of the sum. It is as fast as an addition, and subtracting ROUND_MAGIC again
// gives the integer as a float.
#define ROUND_MAGIC 12582912.0f

// vexp: exp with relative error 1.2e-7; 0 below -87.3, infinite above 88.7. exp(x) =
// 2^n exp(r), where r = x - n log(2) is computed with log(2) split into two parts, so
// that n times the first is exact.
static inline vf vexp(vf x) {
	vf in = vmax(vset(-87.33f), vmin(vset(89.0f), x));
	vf t = vfma(in, vset(1.44269504f), vset(ROUND_MAGIC));
	vf n = t - vset(ROUND_MAGIC);
	vf r = vfma(n, vset(-0.693145752f), in);
	r = vfma(n, vset(-1.42860677e-6f), r);
	vf p = vset(0.00138145f);
	p = vfma(p, r, vset(0.00836878f));
	p = vfma(p, r, vset(0.04166839f));
	p = vfma(p, r, vset(0.1666652f));
	p = vfma(p, r, vset(0.49999993f));
	p = vfma(p, r * r, r) + vset(1.0f);
	// 2^n in two steps, since n may be 128, for which 2^n is not a float.
	vi k = (vi)t - (vi)vset(ROUND_MAGIC);
	vi half = k >> 1;
	p = p * vbits((half + 127) << 23) * vbits((k - half + 127) << 23);
	return vless(x, vset(-87.33f), vset(0.0f), p);
}

// vlog_core returns e*log(2) + log(1+f) for f in [-0.3, 0.42], again with log(2) in
// two parts.
static inline vf vlog_core(vi e, vf f) {
	vf p = vset(0.08700431f);
	p = vfma(p, f, vset(-0.14267486f));
	p = vfma(p, f, vset(0.14914769f));
	p = vfma(p, f, vset(-0.16577585f));
	p = vfma(p, f, vset(0.19963064f));
	p = vfma(p, f, vset(-0.25001337f));
	p = vfma(p, f, vset(0.33333911f));
	vf s = f * f;
	p = vfma(p * f, s, vset(-0.5f) * s);
	vf n = __builtin_convertvector(e, vf);
	return vfma(n, vset(0.693145752f), vfma(n, vset(1.42860677e-6f), p) + f);
}

// vsplit writes x, normal and positive, as 2^e (1+f) with 1+f in [0.707, 1.414):
// symmetric about 1, so that log(x) near 1 has e = 0 and does not cancel.
static inline vi vsplit(vf x, vf *f) {
	vi b = (vi)x - (vi)vset(0.70710678f);
	*f = vbits((b & viset(0x7fffff)) + (vi)vset(0.70710678f)) - vset(1.0f);
	return b >> 23;
}

// vlog: log of normal positive numbers with relative error 1.5e-7.
static inline vf vlog(vf x) {
	vf f;
	vi e = vsplit(x, &f);
	return vlog_core(e, f);
}

// vsincos_reduced returns sine and cosine of a + q*pi/2, for a in [-pi/4, pi/4], with
// absolute error 7e-8. An odd q swaps sine and cosine; the second bit of q and of q+1
// flips their signs.
static inline void vsincos_reduced(vf a, vi q, vf *sin, vf *cos) {
	vf s = a * a;
	vf ps = vfma(vset(-0.00019509f), s, vset(0.00833211f));
	ps = vfma(ps, s, vset(-0.16666654f));
	ps = vfma(ps * s, a, a);
	vf pc = vfma(vset(2.44256815e-05f), s, vset(-1.38872515e-03f));
	pc = vfma(pc, s, vset(4.16666444e-02f));
	pc = vfma(pc, s * s, vfma(vset(-0.5f), s, vset(1.0f)));
	vi odd = -(q & 1), low = ~odd;
	vi flip_s = (q & 2) << 30, flip_c = ((q + 1) & 2) << 30;
	*sin = vbits((((vi)ps & low) | ((vi)pc & odd)) ^ flip_s);
	*cos = vbits((((vi)pc & low) | ((vi)ps & odd)) ^ flip_c);
}

// vsincos: sine and cosine for |x| < 1e5 with absolute error 1e-7 + 1e-11 |x|. pi/2
// is subtracted in three parts (Cody and Waite's reduction).
static inline void vsincos(vf x, vf *sin, vf *cos) {
	vf t = vfma(x, vset(0.636619772f), vset(ROUND_MAGIC));
	vf n = t - vset(ROUND_MAGIC);
	vf r = vfma(n, vset(-1.5703125f), x);
	r = vfma(n, vset(-4.8375129699707031e-4f), r);
	r = vfma(n, vset(-7.5497899548918861e-8f), r);
	vsincos_reduced(r, (vi)t, sin, cos);
}

// vhorner evaluates the polynomial in u with n coefficients, highest power first.
INLINED vf vhorner(vf u, const float *coef, int n) {
	vf p = vset(coef[0]);
#pragma GCC unroll 9
	for (int i = 1; i < n; i++) p = vfma(p, u, vset(coef[i]));
	return p;
}

// vclamp limits x to [-limit, limit].
static inline vf vclamp(vf x, float limit) { return vmax(vset(-limit), vmin(vset(limit), x)); }

// vphi: the standard normal distribution function, with absolute error 1.5e-7. It is
// 1/2 plus an odd function, z times a rational function of z^2, which is evaluated at
// +-5.5 for all larger |x|.
static inline vf vphi(vf x) {
	static const float p[] = {2.2931177614899186e-08f, 6.301586123722826e-06f, 0.00016457332786324482f,
		0.004651479593212538f, 0.033458852005963324f, 0.39894227379414404f};
	static const float q[] = {1.1990286238850955e-06f, 7.216689104869384e-05f, 0.0018606436156149f,
		0.028416106823089145f, 0.25053530589883505f, 1.0f};
	vf z = vclamp(x, 5.5f), u = z * z;
	return vfma(z, vhorner(u, p, 6) / vhorner(u, q, 6), vset(0.5f));
}

// vgelu_grad: the derivative of GELU, Phi(x) + x phi(x), with absolute error 2.5e-7,
// in the same form.
static inline vf vgelu_grad(vf x) {
	static const float p[] = {1.5829839906937802e-08f, 7.50251098501684e-07f, 3.407382456827729e-05f, 0.00013718451241743392f,
		0.014000396772956487f, -0.02600397389118039f, 0.7978845428418921f};
	static const float q[] = {1.2864935328951348e-09f, 2.924617660409006e-07f, 9.452948257018514e-06f, 0.000228990874177662f,
		0.0037851003291790963f, 0.042794887488149747f, 0.30074195631870176f, 1.0f};
	vf z = vclamp(x, 5.8f), u = z * z;
	return vfma(z, vhorner(u, p, 7) / vhorner(u, q, 8), vset(0.5f));
}

// vsigmoid: the logistic function.
static inline vf vsigmoid(vf x) { return vset(1.0f) / (vset(1.0f) + vexp(-x)); }

#if VEC_BF16
#include "vecmath_bf16.h"
#else
// Without bf16 storage these are never called. They only let the code below compile.
static inline vf vgelu_bf16(vf x) { return x * vphi(x); }
static inline vf vgelu_grad_bf16(vf x) { return vgelu_grad(x); }
#endif

// GELU_BF16 is GELU for results that are stored as bf16: less accurate, and faster.
enum { GELU_BF16 = RELU + 1, ACTS };

// vact applies activation act, a compile-time constant.
static inline vf vact(int act, vf x) {
	switch (act) {
	case GELU_BF16: return vgelu_bf16(x);
	case GELU: return x * vphi(x);
	case SILU: return x * vsigmoid(x);
	case RELU: return vless(x, vset(0.0f), vset(0.0f), x);
	}
	return x;
}

// vact_grad is the derivative of vact.
static inline vf vact_grad(int act, vf x) {
	vf one = vset(1.0f);
	switch (act) {
	case GELU_BF16: return vgelu_grad_bf16(x);
	case GELU: return vgelu_grad(x);
	case SILU: {
		vf s = vsigmoid(x);
		return s * vfma(x, one - s, one);
	}
	case RELU: return vless(vset(0.0f), x, one, vset(0.0f));
	}
	return one;
}

// Shuffles. Their masks are constants, so that each becomes one instruction. vzip_lo
// interleaves the first halves, a0 b0 a1 b1 ..., and vzip_hi the second halves.
static inline vi viota(void) { return (vi){IOTA}; }
static inline vf vswap(vf a) { return __builtin_shuffle(a, viota() ^ 1); } // swaps neighbours
static inline vf vrotate(vf a, int n) { return __builtin_shuffle(a, (viota() + n) & (VL - 1)); }
static inline vf vzip_lo(vf a, vf b) { return __builtin_shuffle(a, b, (viota() >> 1) + (viota() & 1) * VL); }
static inline vf vzip_hi(vf a, vf b) {
	return __builtin_shuffle(a, b, (viota() >> 1) + (viota() & 1) * VL + VL / 2);
}

// vtranspose transposes VL x VL numbers in place, by log2(VL) perfect shuffles.
static inline void vtranspose(vf a[VL]) {
#pragma GCC unroll 4
	for (int n = 1; n < VL; n *= 2) {
		vf b[VL];
#pragma GCC unroll 8
		for (int i = 0; i < VL / 2; i++) {
			b[2 * i] = vzip_lo(a[i], a[i + VL / 2]);
			b[2 * i + 1] = vzip_hi(a[i], a[i + VL / 2]);
		}
#pragma GCC unroll 16
		for (int i = 0; i < VL; i++) a[i] = b[i];
	}
}

// vsum adds the lanes, in a fixed tree; vhmax returns their maximum.
static inline float vsum(vf v) {
#pragma GCC unroll 4
	for (int n = VL / 2; n > 0; n /= 2) v += vrotate(v, n);
	return v[0];
}

static inline float vhmax(vf v) {
#pragma GCC unroll 4
	for (int n = VL / 2; n > 0; n /= 2) v = vmax(v, vrotate(v, n));
	return v[0];
}

// vphilox generates the 4 words of VL consecutive Philox-4x32-10 blocks of a stream,
// one block per lane (rng.Philox). The upper half of the counter is zero.
static inline void vphilox(uint64_t key, uint64_t block, vu out[4]) {
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	vu lane = (vu)viota(), zero = {0}, x0 = lane + (uint32_t)block, x2 = zero, x3 = zero;
	vu x1 = zero + (uint32_t)(block >> 32) + ((vu)(x0 < lane) & 1); // with the carry of the lower half
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		vu lo0, lo2, hi0 = vmul_wide(x0, 0xD2511F53u, &lo0), hi2 = vmul_wide(x2, 0xCD9E8D57u, &lo2);
		x0 = hi2 ^ x1 ^ k0;
		x2 = hi0 ^ x3 ^ k1;
		x1 = lo2;
		x3 = lo0;
	}
	out[0] = x0;
	out[1] = x1;
	out[2] = x2;
	out[3] = x3;
}

// vinterleave4 interleaves 4 vectors: element j of each, for j = 0, 1, ... This is
// the order of a stream's words.
static inline void vinterleave4(vf a[4]) {
	vf lo02 = vzip_lo(a[0], a[2]), hi02 = vzip_hi(a[0], a[2]), lo13 = vzip_lo(a[1], a[3]), hi13 = vzip_hi(a[1], a[3]);
	a[0] = vzip_lo(lo02, lo13);
	a[1] = vzip_hi(lo02, lo13);
	a[2] = vzip_lo(hi02, hi13);
	a[3] = vzip_hi(hi02, hi13);
}
