// k_gemm_pack.h: laying out the factors of a product for its micro-kernels.
// Where products round to bf16 this is where they do: to pairs of bf16 (k, k+1)
// for machines that multiply them, else to floats that bf16 could hold.

static inline float bf16_round(float x) {
	uint32_t b;
	memcpy(&b, &x, 4);
	if ((b & 0x7fffffff) > 0x7f800000) return x; // NaN stays one
	b = (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &b, 4);
	return x;
}

// pair is bf16 x in the lower and y in the upper half of a word.
static inline uint32_t bf16_pair(float x, float y) {
	uint32_t a, b;
	x = bf16_round(x);
	y = bf16_round(y);
	memcpy(&a, &x, 4);
	memcpy(&b, &y, 4);
	// A NaN whose payload lies in the lower half must not become infinite.
	a |= (a & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
	b |= (b & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
	return a >> 16 | (b & 0xffff0000);
}

// ahead asks for the line that is read a few rows later: rows of a long factor lie far apart.
static inline void ahead(Mat m, i64 r) {
	for (i64 c = 0; c < m.cols; c += m.bf16 ? 32 : 16) __builtin_prefetch(mat_at(m, r + 8, c));
}

// round_line writes n floats that bf16 could hold.
static void round_line(uint32_t *dst, const float *src, i64 n) {
	for (i64 i = 0; i < n; i++) {
		float v = bf16_round(src[i]);
		memcpy(dst + i, &v, 4);
	}
}

#if VEC_BF16
// mpair is the pairs (m[r][c], m[r+1][c]) of VL columns from c on: zeros past the last row and column.
static inline vf mpair(Mat m, i64 r, i64 c) {
	if (!m.bf16) return vpair(mload(m, r, c), r + 1 < m.rows ? mload(m, r + 1, c) : vset(0.0f));
	vi lower = (vi)((vu)mload(m, r, c) >> 16);
	return (vf)(r + 1 < m.rows ? lower | (vi)mload(m, r + 1, c) : lower);
}

// pairs_along is the VL pairs (m[r][c], m[r][c+1]), ...: zeros past the last column.
static inline vf pairs_along(Mat m, i64 r, i64 c) {
	if (m.bf16) {
		i64 n = least(2 * VL, m.cols - c);
		const uint16_t *p = (const uint16_t *)mat_at(m, r, c);
		return (vf)(n == 2 * VL ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p));
	}
	return vpairs(mload(m, r, c), c + VL < m.cols ? mload(m, r, c + VL) : vset(0.0f));
}
#else
// Where `native` is never true these stand for what is never called.
static inline vf mpair(Mat m, i64 r, i64 c) { return mload(m, r, c); }
static inline vf pairs_along(Mat m, i64 r, i64 c) { return mload(m, r, c); }
#endif

// whole_steps is the words that k numbers of a row or column take: one each, or one a pair, padded
// with zeros as the micro-kernels want it.
static inline i64 whole_steps(int native, i64 k) {
	if (!native) return k;
	i64 pairs = (k + 1) / 2;
	return TILES ? (pairs + VL - 1) / VL * VL : pairs;
}

// copy_step is the words from one copied row of A to the next: never a multiple of a page.
static inline i64 copy_step(i64 steps) { return (steps + VL - 1) / VL * VL + VL; }

// rows_along lays out rows of A whose steps follow one another in memory: in place where that is
// what micro-kernels need, else a copy in `space`.
static Rows rows_along(Mat a, int bf16, i64 steps, uint32_t *space) {
	i64 apart = copy_step(steps);
	if (!bf16) return (Rows){(const uint32_t *)a.p, a.stride, 1};
	int fits = TILES ? a.cols % (2 * VL) == 0 && a.rows % VL == 0 : a.cols % 2 == 0;
	if (a.bf16 && fits && a.stride % 2 == 0) return (Rows){(const uint32_t *)a.p, a.stride / 2, 1};
	for (i64 r = 0; r < a.rows; r++) {
		if (!VEC_BF16) round_line(space + r * apart, a.p + r * a.stride, a.cols);
		else for (i64 s = 0; s < steps; s += VL) vstore((float *)(space + r * apart + s), pairs_along(a, r, 2 * s));
	}
	return (Rows){space, apart, 1};
}

// rows_across lays out rows of A, which are columns in memory (a is K x M). Vectors are multiplied
// step by step: lines of all rows. Tiles want each row's steps side by side.
static Rows rows_across(Mat a, int bf16, i64 steps, uint32_t *space) {
	int native = bf16 && VEC_BF16;
	if (native && TILES) {
		i64 apart = copy_step(steps);
		for (i64 s = 0; s < steps; s += VL) {
			for (i64 c = 0; c < a.cols; c += VL) {
				vf t[VL];
				for (i64 j = 0; j < VL; j++) t[j] = 2 * (s + j) < a.rows ? mpair(a, 2 * (s + j), c) : vset(0.0f);
				vtranspose(t);
				for (i64 j = 0; j < VL; j++) vstore((float *)(space + (c + j) * apart + s), t[j]);
			}
			for (i64 k = 2 * s; k < 2 * (s + VL); k++) ahead(a, k + 2 * VL - 8);
		}
		return (Rows){space, apart, 1};
	}
	i64 apart = (a.cols + VL - 1) / VL * VL;
	for (i64 s = 0; s < steps; s++) {
		uint32_t *line = space + s * apart;
		ahead(a, native ? 2 * s : s);
		if (native) ahead(a, 2 * s + 1);
		if (native) for (i64 c = 0; c < a.cols; c += VL) vstore((float *)(line + c), mpair(a, 2 * s, c));
		else if (bf16) round_line(line, a.p + s * a.stride, a.cols);
		else memcpy(line, a.p + s * a.stride, a.cols * 4);
	}
	return (Rows){space, 1, apart};
}

// pack_panels writes b (a slice of K x some columns) as panels, `apart` words from one to the next.
// Lines of all panels are written side by side, since that is how b is read fastest.
static void pack_panels(Mat b, int bf16, uint32_t *dst, i64 apart) {
	int native = bf16 && VEC_BF16;
	i64 steps = whole_steps(native, b.rows);
	for (i64 s = 0; s < steps; s++) {
		ahead(b, native ? 2 * s : s);
		if (native) ahead(b, 2 * s + 1);
		for (i64 c = 0; c < b.cols; c += VL) {
			i64 n = least(PANEL, b.cols - c / PANEL * PANEL), width = (n + VL - 1) / VL * VL;
			float *line = (float *)(dst + c / PANEL * apart + s * width + c % PANEL);
			if (native) vstore(line, 2 * s < b.rows ? mpair(b, 2 * s, c) : vset(0.0f));
			else vstore(line, mload(b, s, c));
			if (bf16 && !native) round_line((uint32_t *)line, line, VL);
		}
	}
}

// transpose_panel packs b, some columns x a slice of K (a panel's column is a row of b), as lines of
// `width` words.
static void transpose_panel(Mat b, uint32_t *dst, i64 width, int bf16) {
	int native = bf16 && VEC_BF16;
	i64 steps = whole_steps(native, b.cols);
	for (i64 c = 0; c < width; c += VL) {
		for (i64 s = 0; s < steps; s += VL) {
			vf t[VL];
			for (i64 j = 0; j < VL; j++) {
				if (c + j >= b.rows) t[j] = vset(0.0f);
				else if (native) t[j] = pairs_along(b, c + j, 2 * s);
				else t[j] = mload(b, c + j, s);
				if (bf16 && !native) round_line((uint32_t *)&t[j], (const float *)&t[j], VL);
			}
			vtranspose(t);
			for (i64 j = 0; j < least(VL, steps - s); j++) vstore((float *)(dst + (s + j) * width + c), t[j]);
		}
	}
}
