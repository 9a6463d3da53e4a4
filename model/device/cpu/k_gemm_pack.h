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
static inline void ahead(Mat m, i64 r, i64 c, i64 n) {
	for (i64 i = 0; i < n; i += m.half ? 32 : 16) __builtin_prefetch(mat_at(m, r + 8, c + i));
}

// copy_line writes n words: the floats themselves, or rounded.
static void copy_line(uint32_t *dst, const float *src, i64 n, int bf16) {
	if (!bf16) {
		memcpy(dst, src, n * 4);
		return;
	}
	for (i64 i = 0; i < n; i++) {
		float v = bf16_round(src[i]);
		memcpy(dst + i, &v, 4);
	}
}

// pair_line writes n words of the pairs (x[i], y[i]); y may be NULL: zeros.
static void pair_line(uint32_t *dst, const float *x, const float *y, i64 n) {
	i64 i = 0;
#if VEC_BF16
	for (; i + VL <= n; i += VL) vstore((float *)(dst + i), vpair(vload(x + i), y ? vload(y + i) : vset(0.0f)));
#endif
	for (; i < n; i++) dst[i] = bf16_pair(x[i], y ? y[i] : 0.0f);
}

// pairs_along writes (n+1)/2 words of the pairs (x[0], x[1]), (x[2], x[3]), ...
static void pairs_along(uint32_t *dst, const float *x, i64 n) {
	i64 i = 0;
#if VEC_BF16
	for (; i + VL <= n; i += VL) vstore_bf16(dst + i / 2, vload(x + i));
#endif
	for (; i < n; i += 2) dst[i / 2] = bf16_pair(x[i], i + 1 < n ? x[i + 1] : 0.0f);
}

// slice_a is rows [r0, r0+rows) of A at k0..k0+kn: in place where that is what
// micro-kernels need, else a copy in `space`.
static Rows slice_a(const GemmArgs *g, i64 r0, i64 rows, i64 k0, i64 kn, uint32_t *space) {
	int native = g->bf16 && VEC_BF16;
	float line0[KC], line1[KC];
	if (g->op != TN) {
		if (!g->bf16) return (Rows){(const uint32_t *)mat_at(g->a, r0, k0), g->a.stride, 1};
		// Pairs that lie in memory as the micro-kernels want them.
		if (g->a.half && kn % 2 == 0 && g->a.stride % 2 == 0) {
			return (Rows){(const uint32_t *)mat_at(g->a, r0, k0), g->a.stride / 2, 1};
		}
		for (i64 r = 0; r < rows; r++) {
			const float *a = row_floats(g->a, r0 + r, k0, kn, line0);
			if (native) pairs_along(space + r * KC, a, kn);
			else copy_line(space + r * KC, a, kn, 1);
		}
		return (Rows){space, KC, 1};
	}
	i64 step = native ? 2 : 1;
	for (i64 k = 0; k < kn; k += step) {
		uint32_t *line = space + k / step * MC;
		for (i64 j = 0; j < step; j++) ahead(g->a, k0 + k + j, r0, rows);
		const float *a = row_floats(g->a, k0 + k, r0, rows, line0);
		if (native) pair_line(line, a, k + 1 < kn ? row_floats(g->a, k0 + k + 1, r0, rows, line1) : NULL, rows);
		else copy_line(line, a, rows, g->bf16);
	}
	return (Rows){space, 1, MC};
}

// transpose_panel packs columns [0, cols) of B stored N x K, a panel's column being a row of b, as
// lines of `width` words.
static void transpose_panel(Mat b, uint32_t *dst, i64 width, int bf16) {
	i64 kn = b.cols, cols = b.rows;
	int native = bf16 && VEC_BF16;
	i64 steps = native ? (kn + 1) / 2 : kn;
	uint32_t lines[VL * KC];
	for (i64 c = 0; c < width; c += VL) {
		i64 n = least(VL, cols - c), apart = bf16 ? KC : b.stride;
		const float *from = bf16 ? (const float *)lines : mat_at(b, c, 0);
		for (i64 r = 0; bf16 && r < n; r++) {
			float space[KC];
			const float *line = row_floats(b, c + r, 0, kn, space);
			if (native) pairs_along(lines + r * KC, line, kn);
			else copy_line(lines + r * KC, line, kn, 1);
		}
		for (i64 s = 0; s < steps; s += VL) {
			vf t[VL];
			i64 here = least(VL, steps - s);
			for (i64 r = 0; r < VL; r++) t[r] = r < n ? vpart(from + r * apart, s, steps) : vset(0.0f);
			vtranspose(t);
			for (i64 j = 0; j < here; j++) vstore((float *)(dst + (s + j) * width + c), t[j]);
		}
	}
}

// pack_line writes a line of a panel: cols numbers at k (and k+1, for pairs), and zeros up to width.
static void pack_line(const GemmArgs *g, i64 k, i64 end, i64 c0, i64 cols, i64 width, uint32_t *dst) {
	float line0[PANEL], line1[PANEL];
	const float *b = row_floats(g->b, k, c0, cols, line0);
	if (g->bf16 && VEC_BF16) pair_line(dst, b, k + 1 < end ? row_floats(g->b, k + 1, c0, cols, line1) : NULL, cols);
	else copy_line(dst, b, cols, g->bf16);
	memset(dst + cols, 0, (width - cols) * 4);
}

// pack_panels writes columns [c0, c0+cols) of B at k0..k0+kn as panels, PANEL*KC words apart. Lines
// of all panels are written side by side, since that is how B is read fastest.
static void pack_panels(const GemmArgs *g, i64 k0, i64 kn, i64 c0, i64 cols, uint32_t *dst) {
	i64 step = g->bf16 && VEC_BF16 ? 2 : 1;
	for (i64 k = 0; k < kn; k += step) {
		for (i64 j = 0; g->op == TN && j < step; j++) ahead(g->b, k0 + k + j, c0, cols);
		for (i64 c = 0; c < cols; c += PANEL) {
			i64 n = least(PANEL, cols - c), width = (n + VL - 1) / VL * VL;
			pack_line(g, k0 + k, k0 + kn, c0 + c, n, width, dst + c * KC + k / step * width);
		}
	}
}

// panel_at is where the slice at k0 of the panel at column c begins.
static inline size_t panel_at(const Product *p, i64 c, i64 k0) {
	i64 slices = (p->k + KC - 1) / KC;
	return (size_t)(c / PANEL * slices + k0 / KC) * PANEL_BYTES;
}

static void pack_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const Product *p = args;
	const GemmArgs *g = p->g;
	i64 slices = (p->k + KC - 1) / KC, c0 = i / slices * PANEL, k0 = i % slices * KC;
	i64 kn = least(KC, p->k - k0), cols = least(PANEL, p->n - c0), width = (cols + VL - 1) / VL * VL;
	uint32_t *dst = (uint32_t *)(uintptr_t)(p->panels + panel_at(p, c0, k0));
	if (g->op == NN) pack_panels(g, k0, kn, c0, cols, dst);
	else transpose_panel(part(g->b, c0, k0, cols, kn), dst, width, g->bf16);
}
