// k_norms.h: LayerNorm, AdaLN and the gradient of LayerNorm, a few rows at a time.
//
// LayerNorm: xhat = (x - mean) rstd with rstd = 1/sqrt(variance + eps), y = gamma
// xhat + beta. AdaLN: y = gamma LN((1 + scale) LN(x) + shift) + beta. Gradient of
// LayerNorm, with g = gamma dy and means over the row: dx = rstd (g - mean(g) - xhat
// mean(g xhat)); over all rows, dgamma = sum dy xhat and dbeta = sum dy.
//
// Memory traffic: the three passes over a row (mean, variance, output) find it in the
// L1 cache after the first, so that x is read from memory once, and y and xhat are
// written once. AdaLN's modulated rows stay in scratch. The gradient reads dy and
// xhat twice, the second time from the L1 cache. Each chunk of rows has one partial
// row of dgamma and one of dbeta.

// row_sum returns the sum over a row of x - mean, or of its square; `square` is a
// compile-time constant. Four independent sums hide the latency of additions. The
// remainder is summed number by number.
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

// A Norm normalises a row: xhat = (x - mean) * inv.
typedef struct { float mean, inv; } Norm;

// Rows that are normalised together. The horizontal sum of a row, the square root and
// the division are chains of slow instructions; those of different rows overlap.
enum { NORM_ROWS = 8 };

// row_norms computes the norms of `rows` rows of n numbers. The square root is in
// double precision.
static inline void row_norms(Norm *norms, const float *x, i64 stride, i64 rows, i64 n, double eps) {
	for (i64 r = 0; r < rows; r++) norms[r].mean = row_sum(x + r * stride, n, 0, 0) / (float)n;
	for (i64 r = 0; r < rows; r++) norms[r].inv = row_sum(x + r * stride, n, 1, norms[r].mean) / (float)n;
	for (i64 r = 0; r < rows; r++) norms[r].inv = (float)(1 / sqrt((double)norms[r].inv + eps));
}

// normed returns the normalised numbers of a row at column c.
INLINED vf normed(const int full, Norm m, const float *x, i64 c, i64 n) { return (vget(full, x, c, n) - vset(m.mean)) * vset(m.inv); }

// layernorm_rows normalises the ROWS rows of task i.
INLINED void layernorm_rows(const int full, const NormArgs *a, i64 i) {
	i64 n = a->x.cols, end = imin((i + 1) * ROWS, a->x.rows);
	for (i64 first = i * ROWS; first < end; first += NORM_ROWS) {
		Norm norms[NORM_ROWS];
		i64 rows = imin(NORM_ROWS, end - first);
		row_norms(norms, a->x.p + first * a->x.stride, a->x.stride, rows, n, a->eps);
		for (i64 r = first; r < first + rows; r++) {
			Norm norm = norms[r - first];
			if (a->rstd.p) a->rstd.p[r * a->rstd.stride] = norm.inv;
			for (i64 c = 0; c < n; c += VL) {
				vf h = normed(full, norm, a->x.p + r * a->x.stride, c, n);
				if (a->xhat.p) mset(full, a->xhat, r, c, h);
				if (a->gamma.p) h = vfma(h, vget(full, a->gamma.p, c, n), vget(full, a->beta.p, c, n));
				mset(full, a->y, r, c, h);
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

// adaln_rows computes AdaLN of `rows` rows from row `first` on. m is scratch for the
// modulated rows.
INLINED void adaln_rows(const int full, const AdaLNArgs *a, i64 first, i64 rows, float *m) {
	i64 n = a->x.cols;
	const float *x = a->x.p + first * a->x.stride;
	Norm outer[NORM_ROWS], inner[NORM_ROWS];
	row_norms(outer, x, a->x.stride, rows, n, a->outer_eps);
	for (i64 i = 0; i < rows; i++) {
		// scale and shift are often columns of a wider matrix, whose rows the hardware
		// prefetcher does not follow.
		prefetch_row(a->scale, first + i + 2);
		prefetch_row(a->shift, first + i + 2);
		for (i64 c = 0; c < n; c += VL) {
			vf h = normed(full, outer[i], x + i * a->x.stride, c, n);
			if (a->outer.p) mset(full, a->outer, first + i, c, h);
			h = vfma(h, vset(1.0f) + mget(full, a->scale, first + i, c), mget(full, a->shift, first + i, c));
			if (full) vstore(m + i * n + c, h);
			else vput(m + i * n, c, n, h);
		}
	}
	row_norms(inner, m, n, rows, n, a->inner_eps);
	for (i64 i = 0; i < rows; i++) {
		i64 r = first + i;
		for (i64 c = 0; c < n; c += VL) {
			vf h = normed(full, inner[i], m + i * n, c, n);
			if (a->inner.p) mset(full, a->inner, r, c, h);
			mset(full, a->y, r, c, vfma(h, vget(full, a->gamma.p, c, n), vget(full, a->beta.p, c, n)));
		}
		if (a->outer_inv.p) a->outer_inv.p[r * a->outer_inv.stride] = outer[i].inv;
		if (a->inner_inv.p) a->inner_inv.p[r * a->inner_inv.stride] = inner[i].inv;
	}
}

static void adaln_task(const void *args, i64 i, Worker *w) {
	const AdaLNArgs *a = args;
	i64 end = imin((i + 1) * ROWS, a->x.rows);
	for (i64 r = i * ROWS; r < end; r += NORM_ROWS) {
		i64 rows = imin(NORM_ROWS, end - r);
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

// NormGrad holds partial gradients of gamma and beta by chunk of rows:
// partial[chunk][2][cols].
typedef struct { const NormGradArgs *a; float *partial; } NormGrad;

// layernorm_grad_row computes dx of row r and adds the row's terms to dgamma and
// dbeta.
INLINED void layernorm_grad_row(const int full, const NormGradArgs *a, i64 r, float *dgamma, float *dbeta) {
	i64 n = a->dy.cols;
	const float *gamma = a->gamma.p;
	vf sum = vset(0.0f), dot = vset(0.0f);
	for (i64 c = 0; c < n; c += VL) {
		vf g = mget(full, a->dy, r, c), h = mget(full, a->xhat, r, c);
		if (dgamma) vput(dgamma, c, n, vfma(g, h, vget(full, dgamma, c, n)));
		if (dbeta) vput(dbeta, c, n, g + vget(full, dbeta, c, n));
		if (gamma) g *= vget(full, gamma, c, n);
		sum += g;
		dot = vfma(g, h, dot);
	}
	vf inv = vset(a->rstd.p[r * a->rstd.stride]);
	vf mean = vset(vsum(sum) / (float)n), mean_dot = vset(vsum(dot) / (float)n);
	for (i64 c = 0; c < n; c += VL) {
		vf g = mget(full, a->dy, r, c), h = mget(full, a->xhat, r, c);
		if (gamma) g *= vget(full, gamma, c, n);
		vf d = inv * (g - vfma(h, mean_dot, mean));
		if (a->add) d += mget(full, a->dx, r, c);
		mset(full, a->dx, r, c, d);
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
	for (i64 r = i * per; r < imin((i + 1) * per, a->dy.rows); r++) {
		if (cols % VL == 0) layernorm_grad_row(1, a, r, dgamma, dbeta);
		else layernorm_grad_row(0, a, r, dgamma, dbeta);
	}
}

// layernorm_grad computes chunks of rows in parallel, then adds their partial
// gradients in order.
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
