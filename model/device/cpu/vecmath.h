// vecmath.h: functions of vectors. The polynomials are minimax fits made for
// this program (weighted least squares on Chebyshev nodes); each comment says
// the largest error of the float32 evaluation, found over all of the range.
// NaN goes through all of them.

static inline vf vbits(vi x) { return (vf)x; }
static inline vi viset(int32_t x) { return (vi){0} + x; }

// round_magic: adding it leaves an integer in the low bits, for |x| < 2^21.
#define ROUND_MAGIC 12582912.0f

// exp: relative error 1.2e-7; 0 below -87.3, inf above 88.7.
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
	// 2^n in two steps: n may be 128.
	vi k = (vi)t - (vi)vset(ROUND_MAGIC);
	vi half = k >> 1;
	p = p * vbits((half + 127) << 23) * vbits((k - half + 127) << 23);
	return vless(x, vset(-87.33f), vset(0.0f), p);
}

// vlog_core is e*log(2) + log(1+f) for f in [-0.3, 0.42].
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

// vsplit writes x, normal and positive, as 2^e (1+f) with 1+f in [0.707, 1.414).
static inline vi vsplit(vf x, vf *f) {
	vi b = (vi)x - (vi)vset(0.70710678f);
	*f = vbits((b & viset(0x7fffff)) + (vi)vset(0.70710678f)) - vset(1.0f);
	return b >> 23;
}

// log of normal positive numbers: relative error 1.5e-7.
static inline vf vlog(vf x) {
	vf f;
	vi e = vsplit(x, &f);
	return vlog_core(e, f);
}

// sincos of a in [-pi/4, pi/4] turned by q quarters: absolute error 7e-8.
static inline void vturn(vf a, vi q, vf *sin, vf *cos) {
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

// sincos for |x| < 1e5: absolute error 1e-7 + 1e-11 |x|.
static inline void vsincos(vf x, vf *sin, vf *cos) {
	vf t = vfma(x, vset(0.636619772f), vset(ROUND_MAGIC));
	vf n = t - vset(ROUND_MAGIC);
	vf r = vfma(n, vset(-1.5703125f), x);
	r = vfma(n, vset(-4.8375129699707031e-4f), r);
	r = vfma(n, vset(-7.5497899548918861e-8f), r);
	vturn(r, (vi)t, sin, cos);
}

// The standard normal distribution function: absolute error 1.5e-7.
static inline vf vphi(vf x) {
	vf z = vmax(vset(-5.5f), vmin(vset(5.5f), x)), u = z * z;
	vf p = vset(2.2931177614899186e-08f), q = vset(1.1990286238850955e-06f);
	p = vfma(p, u, vset(6.301586123722826e-06f));
	q = vfma(q, u, vset(7.216689104869384e-05f));
	p = vfma(p, u, vset(0.00016457332786324482f));
	q = vfma(q, u, vset(0.0018606436156149f));
	p = vfma(p, u, vset(0.004651479593212538f));
	q = vfma(q, u, vset(0.028416106823089145f));
	p = vfma(p, u, vset(0.033458852005963324f));
	q = vfma(q, u, vset(0.25053530589883505f));
	p = vfma(p, u, vset(0.39894227379414404f));
	q = vfma(q, u, vset(1.0f));
	return vfma(z, p / q, vset(0.5f));
}

static inline vf vsigmoid(vf x) { return vset(1.0f) / (vset(1.0f) + vexp(-x)); }

// tanh(y) = 1 - 2/(exp(2y)+1) of GELU's inner polynomial: absolute error 2e-7.
static inline vf vgelu_tanh_inner(vf x) {
	vf y = vset(0.7978845608f) * vfma(vset(0.044715f) * x * x, x, x);
	return vset(1.0f) - vset(2.0f) / (vexp(y + y) + vset(1.0f));
}

static inline vf vact(int act, vf x) {
	switch (act) {
	case GELU: return x * vphi(x);
	case GELU_TANH: return vset(0.5f) * x * (vset(1.0f) + vgelu_tanh_inner(x));
	case SILU: return x * vsigmoid(x);
	case RELU: return vless(x, vset(0.0f), vset(0.0f), x);
	}
	return x;
}

// vslope is the derivative of vact.
static inline vf vslope(int act, vf x) {
	vf one = vset(1.0f);
	switch (act) {
	case GELU: return vfma(x * vset(0.39894228f), vexp(vset(-0.5f) * x * x), vphi(x));
	case GELU_TANH: {
		vf t = vgelu_tanh_inner(x);
		vf dy = vset(0.7978845608f) * vfma(vset(0.134145f) * x, x, one);
		return vset(0.5f) * vfma(x * (one - t * t), dy, one + t);
	}
	case SILU: {
		vf s = vsigmoid(x);
		return s * vfma(x, one - s, one);
	}
	case RELU: return vless(vset(0.0f), x, one, vset(0.0f));
	}
	return one;
}

// vsum adds the lanes in a fixed tree.
static inline float vsum(vf v) {
	float a[VL];
	vstore(a, v);
	for (int n = VL / 2; n > 0; n /= 2) {
		for (int i = 0; i < n; i++) a[i] += a[i + n];
	}
	return a[0];
}

static inline float vhmax(vf v) {
	float a[VL];
	vstore(a, v);
	for (int i = 1; i < VL; i++) a[0] = a[i] > a[0] ? a[i] : a[0];
	return a[0];
}

// philox gives the 4 words of VL consecutive blocks of a stream (rng.Philox).
static inline void vphilox(uint64_t key, uint64_t block, vu out[4]) {
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t c[4][VL];
	for (int i = 0; i < VL; i++) {
		c[0][i] = (uint32_t)(block + i);
		c[1][i] = (uint32_t)((block + i) >> 32);
		c[2][i] = c[3][i] = 0;
	}
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		for (int i = 0; i < VL; i++) {
			uint64_t a = (uint64_t)0xD2511F53u * c[0][i], b = (uint64_t)0xCD9E8D57u * c[2][i];
			c[0][i] = (uint32_t)(b >> 32) ^ c[1][i] ^ k0;
			c[1][i] = (uint32_t)b;
			c[2][i] = (uint32_t)(a >> 32) ^ c[3][i] ^ k1;
			c[3][i] = (uint32_t)a;
		}
	}
	__builtin_memcpy(out, c, sizeof c);
}
