// vecmath_bf16.h: GELU and its derivative for results that are stored as bf16, to
// about its precision.
//
// The epilogue of a GEMM that ends in them is bound by the units that multiply. A
// polynomial of degree 2 for each of 32 ranges of |x| takes half as many
// multiplications as one polynomial of degree 16 would; its coefficients are looked
// up by permutations, which other units execute.
//
// Range i is centred at i * 5/32, and the last one covers everything from 4.77 on.
// Coefficients are listed by power, highest first. The fits were made for this
// program: least squares on Chebyshev nodes, with value zero at zero.

// Phi(t) - 1/2, where Phi is the standard normal distribution function: absolute
// error 8e-6, and 7e-6 for GELU.
static const float phi_ranges[3][32] = {
	{
		-0.0071614934f, -0.030754294f, -0.059298482f, -0.083685033f, -0.10244829f, -0.11474615f, -0.12040594f, -0.11987495f,
		-0.1140931f, -0.10431722f, -0.091931179f, -0.078272648f, -0.064499788f, -0.051509257f, -0.03990617f, -0.030017778f,
		-0.021937529f, -0.015584838f, -0.010767545f, -0.0072375862f, -0.0047344691f, -0.0030148586f, -0.0018693123f, -0.0011287654f,
		-0.0006639096f, -0.00038042123f, -0.00021238814f, -0.00011554683f, -6.1262515e-05f, -3.1657924e-05f, -1.5946249e-05f, 0.0f,
	},
	{
		0.3991119f, 0.40341955f, 0.41673076f, 0.43567702f, 0.45606881f, 0.47322142f, 0.48281121f, 0.48161f,
		0.46796006f, 0.4419229f, 0.40511125f, 0.36028045f, 0.31079245f, 0.26007229f, 0.21115561f, 0.1663869f,
		0.12728617f, 0.094564945f, 0.068250358f, 0.04786725f, 0.032632925f, 0.021630876f, 0.013944432f, 0.0087445136f,
		0.005335439f, 0.0031680227f, 0.001830911f, 0.0010300963f, 0.00056426751f, 0.00030098765f, 0.00015635933f, 0.0f,
	},
	{
		0.0f, -0.00020145228f, -0.0017677768f, -0.0054599517f, -0.011009673f, -0.016996484f, -0.021060703f, -0.020388152f,
		-0.01232941f, 0.0050123306f, 0.032369889f, 0.069163382f, 0.11362489f, 0.16313934f, 0.21470135f, 0.26537779f,
		0.31268448f, 0.35482249f, 0.39076093f, 0.42018732f, 0.44336814f, 0.46096674f, 0.47386101f, 0.48298949f,
		0.4892399f, 0.49338281f, 0.49604288f, 0.49769849f, 0.49869785f, 0.49928322f, 0.49961606f, 0.5f,
	},
};

// Phi(t) - 1/2 + t phi(t): absolute error 3.1e-5.
static const float phi_slope_ranges[3][32] = {
	{
		-0.028631981f, -0.12219712f, -0.23127621f, -0.3161889f, -0.36960092f, -0.38879335f, -0.37568411f, -0.33603913f,
		-0.27811271f, -0.21105339f, -0.14341524f, -0.082038701f, -0.031440228f, 0.0062828083f, 0.031132776f, 0.04463879f,
		0.049200639f, 0.047490083f, 0.041997604f, 0.034757297f, 0.027237551f, 0.020357784f, 0.014581926f, 0.01004336f,
		0.0066678869f, 0.0042751106f, 0.0026508286f, 0.0015914305f, 0.00092590728f, 0.00052245869f, 0.0002860995f, 0.0f,
	},
	{
		0.79856253f, 0.81561857f, 0.86634302f, 0.93207502f, 0.98978019f, 1.0160484f, 0.99288166f, 0.91187191f,
		0.77581644f, 0.59759229f, 0.39686009f, 0.19565833f, 0.01407951f, -0.1329964f, -0.23757127f, -0.29855359f,
		-0.32048902f, -0.31156403f, -0.28147066f, -0.23959348f, -0.19377585f, -0.14972235f, -0.11094163f, -0.079055831f,
		-0.054290149f, -0.035989009f, -0.023059515f, -0.014296367f, -0.0085838111f, -0.0049950038f, -0.0028188135f, 0.0f,
	},
	{
		0.0f, -0.00079662498f, -0.0067486023f, -0.019511594f, -0.035122171f, -0.044113386f, -0.033879332f, 0.0075226636f,
		0.087442152f, 0.20589305f, 0.35485744f, 0.51978105f, 0.68271089f, 0.82608575f, 0.93611699f, 1.0049598f,
		1.0313296f, 1.0196886f, 0.97846556f, 0.91790855f, 0.84811336f, 0.77758747f, 0.71248841f, 0.65648252f,
		0.61105472f, 0.57605946f, 0.55032855f, 0.53220624f, 0.51994741f, 0.51196635f, 0.50695711f, 0.5f,
	},
};

// vpiecewise evaluates the polynomial of t's range, for t >= 0. Ranges are 5/32 wide,
// so rounding 6.4 t to an integer gives the index.
static inline vf vpiecewise(vf t, const float table[3][32]) {
	vf u = vmin(t, vset(31 * 0.15625f));
	vi range = (vi)vfma(u, vset(6.4f), vset(ROUND_MAGIC));
	vf p = vlookup(range, table[0]);
	p = vfma(p, u, vlookup(range, table[1]));
	return vfma(p, u, vlookup(range, table[2]));
}

// vgelu_bf16 is GELU: x Phi(x) = x/2 + |x| (Phi(|x|) - 1/2), since Phi - 1/2 is odd.
static inline vf vgelu_bf16(vf x) {
	vf t = vbits((vi)x & viset(0x7fffffff));
	return vfma(t, vpiecewise(t, phi_ranges), vset(0.5f) * x);
}

// vgelu_grad_bf16 is GELU's derivative: 1/2 plus an odd function, whose sign is that
// of x.
static inline vf vgelu_grad_bf16(vf x) {
	vf t = vbits((vi)x & viset(0x7fffffff));
	return vset(0.5f) + vbits((vi)vpiecewise(t, phi_slope_ranges) ^ ((vi)x & viset(INT32_MIN)));
}
