// k_norms.h: LayerNorm and AdaLN, a few rows at a time.
//
// LayerNorm: xhat = (x - mean) rstd with rstd = 1/sqrt(variance + eps), y = gamma xhat + beta. AdaLN norms twice:
// y = gamma LN((1 + scale) LN(x) + shift) + beta. Gradient, with g = gamma dy and means over the row:
// dx = rstd (g - mean(g) - xhat mean(g xhat)), dgamma = sum dy xhat and dbeta = sum dy over the rows.
// Memory traffic: a row makes three passes (mean, variance, output) and stays in the nearest cache over them, so
// that memory sees x once and y and xhat once; AdaLN's modulated rows are kept in scratch. The gradient reads dy
// and xhat twice, the second time from that cache; partial dgamma and dbeta are one row a chunk of rows.

// row_sum is the sum over a row of (x - mean), or of its square. Four sums go side by side: one waits for
// its last addition, and numbers past the end add nothing.
INLINED float row_sum(const float *x, i64 n, const int square, float mean) {
	vf sum[4] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)}, m = vset(mean);
	i64 c = 0;
	for (; c + 4 * VL <= n; c += 4 * VL) {
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			vf d = vload(x + c + i * VL) - m;
			sum[i] = square ? vfma(d, d, sum[i]) : sum[i] + d;
		}
	}
	float total = 0;
	for (; c + VL <= n; c += VL) {
		vf d = vload(x + c) - m;
		sum[0] = square ? vfma(d, d, sum[0]) : sum[0] + d;
	}
	for (; c < n; c++) total += square ? (x[c] - mean) * (x[c] - mean) : x[c] - mean;
	return total + vsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// A Norm is what normalises a row: (x - mean) * inv.
typedef struct { float mean, inv; } Norm;

// Rows that are normed together. A sum over a row waits for its last additions, and a root for its division;
// the rows beside it are summed meanwhile.
enum { NORM_ROWS = 8 };

static inline void row_norms(Norm *norms, const float *x, i64 stride, i64 rows, i64 n, double eps) {
	for (i64 r = 0; r < rows; r++) norms[r].mean = row_sum(x + r * stride, n, 0, 0) / (float)n;
	for (i64 r = 0; r < rows; r++) norms[r].inv = row_sum(x + r * stride, n, 1, norms[r].mean) / (float)n;
	for (i64 r = 0; r < rows; r++) norms[r].inv = (float)(1 / sqrt((double)norms[r].inv + eps));
}

INLINED vf normed(const int whole, Norm m, const float *x, i64 c, i64 n) { return (vget(whole, x, c, n) - vset(m.mean)) * vset(m.inv); }

INLINED void layernorm_rows(const int whole, const NormArgs *a, i64 i) {
	i64 n = a->x.cols, end = least((i + 1) * ROWS, a->x.rows);
	for (i64 first = i * ROWS; first < end; first += NORM_ROWS) {
		Norm norms[NORM_ROWS];
		i64 rows = least(NORM_ROWS, end - first);
		row_norms(norms, a->x.p + first * a->x.stride, a->x.stride, rows, n, a->eps);
		for (i64 r = first; r < first + rows; r++) {
			Norm norm = norms[r - first];
			if (a->rstd.p) a->rstd.p[r * a->rstd.stride] = norm.inv;
			for (i64 c = 0; c < n; c += VL) {
				vf h = normed(whole, norm, a->x.p + r * a->x.stride, c, n);
				if (a->xhat.p) mset(whole, a->xhat, r, c, h);
				if (a->gamma.p) h = vfma(h, vget(whole, a->gamma.p, c, n), vget(whole, a->beta.p, c, n));
				mset(whole, a->y, r, c, h);
			}
		}
	}
}

static void layernorm_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const NormArgs *a = args;
	if (a->x.cols % VL == 0) layernorm_rows(1, a, i);
	else layernorm_rows(0, a, i);
}

static int layernorm(Pool *pool, const void *args) {
	pool_run(pool, layernorm_task, args, row_tasks(((const NormArgs *)args)->x.rows));
	return OK;
}

// adaln_rows norms rows from `first` on; m is room for the modulated ones.
INLINED void adaln_rows(const int whole, const AdaLNArgs *a, i64 first, i64 rows, float *m) {
	i64 n = a->x.cols;
	const float *x = a->x.p + first * a->x.stride;
	Norm outer[NORM_ROWS], inner[NORM_ROWS];
	row_norms(outer, x, a->x.stride, rows, n, a->outer_eps);
	for (i64 i = 0; i < rows; i++) {
		prefetch(a->scale, first + i + 2); // rows that lie far apart
		prefetch(a->shift, first + i + 2);
		for (i64 c = 0; c < n; c += VL) {
			vf h = normed(whole, outer[i], x + i * a->x.stride, c, n);
			if (a->outer.p) mset(whole, a->outer, first + i, c, h);
			h = vfma(h, vset(1.0f) + mget(whole, a->scale, first + i, c), mget(whole, a->shift, first + i, c));
			if (whole) vstore(m + i * n + c, h);
			else vput(m + i * n, c, n, h);
		}
	}
	row_norms(inner, m, n, rows, n, a->inner_eps);
	for (i64 i = 0; i < rows; i++) {
		i64 r = first + i;
		for (i64 c = 0; c < n; c += VL) {
			vf h = normed(whole, inner[i], m + i * n, c, n);
			if (a->inner.p) mset(whole, a->inner, r, c, h);
			mset(whole, a->y, r, c, vfma(h, vget(whole, a->gamma.p, c, n), vget(whole, a->beta.p, c, n)));
		}
		if (a->outer_inv.p) a->outer_inv.p[r * a->outer_inv.stride] = outer[i].inv;
		if (a->inner_inv.p) a->inner_inv.p[r * a->inner_inv.stride] = inner[i].inv;
	}
}

static void adaln_task(const void *args, i64 i, Worker *w) {
	const AdaLNArgs *a = args;
	i64 end = least((i + 1) * ROWS, a->x.rows);
	for (i64 r = i * ROWS; r < end; r += NORM_ROWS) {
		i64 rows = least(NORM_ROWS, end - r);
		if (a->x.cols % VL == 0) adaln_rows(1, a, r, rows, (float *)w->scratch);
		else adaln_rows(0, a, r, rows, (float *)w->scratch);
	}
}

static int adaln(Pool *pool, const void *args) {
	const AdaLNArgs *a = args;
	if (pool_reserve(pool, NORM_ROWS * a->x.cols * sizeof(float), 0)) return NO_MEMORY;
	pool_run(pool, adaln_task, a, row_tasks(a->x.rows));
	return OK;
}

// Partial gradients of gamma and beta, by chunk of rows: partial[chunk][2][cols].
typedef struct { const NormGradArgs *a; float *partial; } NormGrad;

INLINED void layernorm_grad_row(const int whole, const NormGradArgs *a, i64 r, float *dgamma, float *dbeta) {
	i64 n = a->dy.cols;
	const float *gamma = a->gamma.p;
	vf sum = vset(0.0f), dot = vset(0.0f);
	for (i64 c = 0; c < n; c += VL) {
		vf g = mget(whole, a->dy, r, c), h = mget(whole, a->xhat, r, c);
		if (dgamma) vput(dgamma, c, n, vfma(g, h, vget(whole, dgamma, c, n)));
		if (dbeta) vput(dbeta, c, n, g + vget(whole, dbeta, c, n));
		if (gamma) g *= vget(whole, gamma, c, n);
		sum += g;
		dot = vfma(g, h, dot);
	}
	vf inv = vset(a->rstd.p[r * a->rstd.stride]);
	vf mean = vset(vsum(sum) / (float)n), mean_dot = vset(vsum(dot) / (float)n);
	for (i64 c = 0; c < n; c += VL) {
		vf g = mget(whole, a->dy, r, c), h = mget(whole, a->xhat, r, c);
		if (gamma) g *= vget(whole, gamma, c, n);
		vf d = inv * (g - vfma(h, mean_dot, mean));
		if (a->add) d += mget(whole, a->dx, r, c);
		mset(whole, a->dx, r, c, d);
	}
}

static void layernorm_grad_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const NormGrad *s = args;
	const NormGradArgs *a = s->a;
	i64 cols = a->dy.cols, per = chunk_rows(a->dy.rows);
	float *dgamma = a->dgamma.p ? s->partial + 2 * i * cols : NULL;
	float *dbeta = a->dbeta.p ? s->partial + (2 * i + 1) * cols : NULL;
	memset(s->partial + 2 * i * cols, 0, 2 * cols * sizeof(float));
	for (i64 r = i * per; r < least((i + 1) * per, a->dy.rows); r++) {
		if (cols % VL == 0) layernorm_grad_row(1, a, r, dgamma, dbeta);
		else layernorm_grad_row(0, a, r, dgamma, dbeta);
	}
}

static int layernorm_grad(Pool *pool, const void *args) {
	const NormGradArgs *a = args;
	i64 cols = a->dy.cols, chunks = chunks_of(a->dy.rows);
	if (pool_reserve(pool, 0, 2 * chunks * cols * sizeof(float))) return NO_MEMORY;
	NormGrad s = {a, pool_shared(pool)};
	pool_run(pool, layernorm_grad_task, &s, chunks);
	for (i64 k = 0; k < chunks; k++) {
		const float *dgamma = s.partial + 2 * k * cols, *dbeta = dgamma + cols;
		for (i64 c = 0; a->dgamma.p && c < cols; c++) a->dgamma.p[c] += dgamma[c];
		for (i64 c = 0; a->dbeta.p && c < cols; c++) a->dbeta.p[c] += dbeta[c];
	}
	return OK;
}
