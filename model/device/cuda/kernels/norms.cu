// norms.cu: LayerNorm by warps over rows, BatchNorm by blocks over 32 columns, and sums over rows.
//
// LayerNorm: xhat = (x - mean) rstd with rstd = 1/sqrt(variance + eps), y = gamma xhat + beta. AdaLN norms twice:
// y = gamma LN((1 + scale) LN(x) + shift) + beta. Gradient, with g = gamma dy and means over the row:
// dx = rstd (g - mean(g) - xhat mean(g xhat)), dgamma = sum dy xhat and dbeta = sum dy over the rows.
// Memory traffic: a row of up to 192 columns (rows.cuh) stays in a warp's registers, so that all is read once and
// written once; wider rows are read once for each pass. The sums of dgamma and dbeta are made on the way, and
// their partial sums, one a chunk of rows, go through memory, since that keeps the order of additions without
// atomics; of wider rows norm_grad_sums reads dy and xhat again. sum_table does the same for tables.
// BatchNorm and normalize_columns go down a column: x is read three times in training (mean, variance, result),
// dy and xhat twice in the gradient, a column to be normalised twice.
#include "args.cuh"
#include "rows.cuh"

// row_norm is that of a wide row, number c of which is x(c).
template <typename X> DEVICE Norm row_norm(i64 cols, double eps, X x) {
	float sum = 0, squares = 0;
	for (i64 c = lane(); c < cols; c += WARP) sum += x(c);
	float mean = warp_sum(sum) / (float)cols;
	for (i64 c = lane(); c < cols; c += WARP) squares += (x(c) - mean) * (x(c) - mean);
	Norm m = {mean, inverse_deviation(warp_sum(squares), cols, eps)};
	return m;
}

DEVICE void wide_layer_norm(const NormArgs &a, i64 r) {
	const float *x = row(a.x, r);
	Norm m = row_norm(a.x.cols, a.eps, [&](i64 c) { return x[c]; });
	if (a.rstd.p && lane() == 0) *row(a.rstd, r) = m.inv;
	for (i64 c = lane(); c < a.x.cols; c += WARP) {
		float h = (x[c] - m.mean) * m.inv;
		if (a.xhat.p) set(a.xhat, r, c, h);
		set(a.y, r, c, a.gamma.p ? fmaf(h, a.gamma.p[c], a.beta.p[c]) : h);
	}
}

// A warp is a row, then the next one a grid further. Lanes read and write their own columns only, so y may be x. y and
// xhat may be bf16.
KERNEL(layer_norm, NormArgs, THREADS) {
	i64 rows = a.x.rows, cols = a.x.cols, step = (i64)gridDim.x * WARPS;
	if (cols > NARROW) {
		for (i64 r = grid_warp(); r < rows; r += step) wide_layer_norm(a, r);
		return;
	}
	float gamma[PART], beta[PART], v[PART];
	if (a.gamma.p) {
		load_row(gamma, a.gamma, 0);
		load_row(beta, a.beta, 0);
	}
	for (i64 r = grid_warp(); r < rows; r += step) {
		load_row(v, a.x, r);
		Norm m = norm_of(v, cols, a.eps);
		UNROLL
		for (int i = 0; i < PART; i++) v[i] = (v[i] - m.mean) * m.inv;
		if (a.rstd.p && lane() == 0) *row(a.rstd, r) = m.inv;
		if (a.xhat.p) store_row(a.xhat, r, v);
		UNROLL
		for (int i = 0; i < PART && a.gamma.p; i++) v[i] = fmaf(v[i], gamma[i], beta[i]);
		store_row(a.y, r, v);
	}
}

// A wide row's modulated numbers are made anew each time that they are read: nothing is kept between.
DEVICE void wide_ada_norm(const AdaLNArgs &a, i64 r, Norm &outer, Norm &inner) {
	i64 cols = a.x.cols;
	const float *x = row(a.x, r);
	outer = row_norm(cols, a.outer_eps, [&](i64 c) { return x[c]; });
	auto modulated = [&](i64 c) { return fmaf((x[c] - outer.mean) * outer.inv, 1 + get(a.scale, r, c), get(a.shift, r, c)); };
	inner = row_norm(cols, a.inner_eps, modulated);
	for (i64 c = lane(); c < cols; c += WARP) {
		float h = (modulated(c) - inner.mean) * inner.inv;
		if (a.outer.p) at(a.outer, r, c) = (x[c] - outer.mean) * outer.inv;
		if (a.inner.p) set(a.inner, r, c, h);
		set(a.y, r, c, fmaf(h, a.gamma.p[c], a.beta.p[c]));
	}
}

// X is the layout of x, F that of scale and shift: all that is read is on its way at once.
template <Layout X, Layout F> DEVICE void narrow_ada_ln(const AdaLNArgs &a, i64 r, Norm &outer, Norm &inner) {
	float v[PART], scale[PART], shift[PART], gamma[PART], beta[PART];
	load_row<X>(v, a.x, r);
	load_row<F>(scale, a.scale, r);
	load_row<F>(shift, a.shift, r);
	load_row(gamma, a.gamma, 0);
	load_row(beta, a.beta, 0);
	outer = norm_of(v, a.x.cols, a.outer_eps);
	UNROLL
	for (int i = 0; i < PART; i++) v[i] = (v[i] - outer.mean) * outer.inv;
	if (a.outer.p) store_row(a.outer, r, v);
	UNROLL
	for (int i = 0; i < PART; i++) v[i] = fmaf(v[i], 1 + scale[i], shift[i]);
	clear_beyond(v, a.x.cols);
	inner = norm_of(v, a.x.cols, a.inner_eps);
	UNROLL
	for (int i = 0; i < PART; i++) v[i] = (v[i] - inner.mean) * inner.inv;
	if (a.inner.p) store_row(a.inner, r, v);
	UNROLL
	for (int i = 0; i < PART; i++) v[i] = fmaf(v[i], gamma[i], beta[i]);
	store_row(a.y, r, v);
}

KERNEL(ada_ln, AdaLNArgs, THREADS) {
	i64 r = grid_warp();
	if (r >= a.x.rows) return; // the whole warp
	Norm outer, inner;
	Layout f = layout(a.scale);
	if (a.x.cols > NARROW) wide_ada_norm(a, r, outer, inner);
	else if (layout(a.x) != PAIRS || layout(a.shift) != f || f == SINGLES) narrow_ada_ln<SINGLES, SINGLES>(a, r, outer, inner);
	else if (f == PAIRS) narrow_ada_ln<PAIRS, PAIRS>(a, r, outer, inner);
	else narrow_ada_ln<PAIRS, BF16_PAIRS>(a, r, outer, inner);
	if (lane()) return;
	if (a.outer_inv.p) *row(a.outer_inv, r) = outer.inv;
	if (a.inner_inv.p) *row(a.inner_inv, r) = inner.inv;
}

DEVICE void wide_norm_grad(const NormGradArgs &a, i64 r) {
	i64 cols = a.dy.cols;
	float *dx = row(a.dx, r), sum = 0, dot = 0, inv = *row(a.rstd, r);
	for (i64 c = lane(); c < cols; c += WARP) {
		float g = get(a.dy, r, c) * (a.gamma.p ? a.gamma.p[c] : 1);
		sum += g;
		dot = fmaf(g, get(a.xhat, r, c), dot);
	}
	sum = warp_sum(sum) / (float)cols;
	dot = warp_sum(dot) / (float)cols;
	for (i64 c = lane(); c < cols; c += WARP) {
		float g = get(a.dy, r, c) * (a.gamma.p ? a.gamma.p[c] : 1);
		float v = inv * (g - sum - get(a.xhat, r, c) * dot);
		dx[c] = a.add ? dx[c] + v : v;
		if (a.rounded.p) set(a.rounded, r, c, dx[c]);
	}
}

// Gains is a lane's share of the sums over rows of dy*xhat and of dy.
struct Gains {
	float dot[PART], sum[PART];
};

// narrow_norm_grad does rows r, r+WARPS, ... up to end.
template <Layout DY, Layout XHAT, Layout DX> DEVICE void narrow_norm_grad(const NormGradArgs &a, i64 r, i64 end, Gains &all) {
	float gamma[PART];
	float share = 1 / (float)a.dy.cols;
	for (int i = 0; i < PART; i++) gamma[i] = 1;
	if (a.gamma.p) load_row(gamma, a.gamma, 0);
	for (; r < end; r += WARPS) {
		float g[PART], h[PART], dx[PART], inv = *row(a.rstd, r), sum = 0, dot = 0;
		load_row<DY>(g, a.dy, r);
		load_row<XHAT>(h, a.xhat, r);
		for (int i = 0; i < PART; i++) dx[i] = 0;
		if (a.add) load_row<DX>(dx, a.dx, r);
		UNROLL
		for (int i = 0; i < PART; i++) {
			all.sum[i] += g[i];
			all.dot[i] = fmaf(g[i], h[i], all.dot[i]);
			g[i] *= gamma[i];
			sum += g[i];
			dot = fmaf(g[i], h[i], dot);
		}
		sum = warp_sum(sum) * share;
		dot = warp_sum(dot) * share;
		UNROLL
		for (int i = 0; i < PART; i++) dx[i] += inv * (g[i] - sum - h[i] * dot);
		store_row<DX>(a.dx, r, dx);
		if (a.rounded.p) store_row(a.rounded, r, dx);
	}
}

// A block is a chunk of rows. Where part is given, it gets (2 x chunks x cols) each chunk's sums of dy*xhat and of dy.
KERNEL(layer_norm_grad, NormGradArgs, THREADS, RESIDENT) {
	__shared__ float sums[WARPS][2 * NARROW];
	i64 rows = a.dy.rows, span = (rows + a.chunks - 1) / a.chunks, r = blockIdx.x * span + warp(), end = least(rows, (blockIdx.x + 1) * span);
	int cols = (int)a.dy.cols;
	if (cols > NARROW) {
		for (; r < end; r += WARPS) wide_norm_grad(a, r);
		return;
	}
	Gains all = {};
	Layout dy = layout(a.dy), xhat = layout(a.xhat);
	if (dy == SINGLES || xhat == SINGLES || layout(a.dx) == SINGLES) narrow_norm_grad<SINGLES, SINGLES, SINGLES>(a, r, end, all);
	else if (dy == PAIRS && xhat == PAIRS) narrow_norm_grad<PAIRS, PAIRS, PAIRS>(a, r, end, all);
	else if (dy == PAIRS) narrow_norm_grad<PAIRS, BF16_PAIRS, PAIRS>(a, r, end, all);
	else if (xhat == PAIRS) narrow_norm_grad<BF16_PAIRS, PAIRS, PAIRS>(a, r, end, all);
	else narrow_norm_grad<BF16_PAIRS, BF16_PAIRS, PAIRS>(a, r, end, all);
	if (!a.part) return;
	for (int i = 0; i < PART; i++) {
		sums[warp()][column(i / 2) + i % 2] = all.dot[i];
		sums[warp()][NARROW + column(i / 2) + i % 2] = all.sum[i];
	}
	__syncthreads();
	for (int i = threadIdx.x; i < 2 * NARROW; i += THREADS) {
		int c = i % NARROW;
		if (c >= cols) continue;
		float sum = 0;
		for (int w = 0; w < WARPS; w++) sum += sums[w][i];
		a.part[(i / NARROW * a.chunks + blockIdx.x) * cols + c] = sum;
	}
}

// Column kernels: a block is 32 columns, thread (i, lane) has rows i, i+W, ... of W warps.
// column_sum adds the threads' sums of a column; all of them get it.
template <int W> DEVICE double column_sum(double v) {
	__shared__ double sums[W][WARP];
	__syncthreads();
	sums[warp()][lane()] = v;
	__syncthreads();
	double total = 0;
	for (int i = 0; i < W; i++) total += sums[i][lane()];
	return total;
}

// The place of a block of a grid of (columns of 32) x chunks over rows.
struct Chunk {
	i64 c, chunk, r0, r1;
};

DEVICE Chunk chunk_of(i64 rows, i64 cols, i64 chunks) {
	i64 wide = (cols + WARP - 1) / WARP, span = (rows + chunks - 1) / chunks, i = blockIdx.x / wide;
	Chunk k = {blockIdx.x % wide * WARP + lane(), i, least(rows, i * span), least(rows, (i + 1) * span)};
	return k;
}

// part (2 x chunks x cols): each chunk's sums of dy*xhat, then of dy.
KERNEL(norm_grad_sums, NormGradArgs, THREADS) {
	Chunk k = chunk_of(a.dy.rows, a.dy.cols, a.chunks);
	float dot = 0, sum = 0;
	if (k.c < a.dy.cols) {
		for (i64 r = k.r0 + warp(); r < k.r1; r += WARPS) {
			float g = get(a.dy, r, k.c);
			sum += g;
			dot = fmaf(g, get(a.xhat, r, k.c), dot);
		}
	}
	dot = (float)column_sum<WARPS>(dot);
	sum = (float)column_sum<WARPS>(sum);
	if (k.c >= a.dy.cols || warp()) return;
	a.part[k.chunk * a.dy.cols + k.c] = dot;
	a.part[(a.chunks + k.chunk) * a.dy.cols + k.c] = sum;
}

// pieces_sum adds the chunks' sums of a column, number i of which is at part[i * stride]. All threads call it, those of
// a block of whole warps have 32 columns; those of the first warp get the sum.
DEVICE float pieces_sum(const float *part, i64 stride, i64 chunks, bool mine) {
	__shared__ float sums[WARP][WARP];
	float sum = 0;
	UNROLL
	for (int i = warp(); i < (int)chunks; i += WARP) sum += mine ? part[i * stride] : 0;
	sums[warp()][lane()] = sum;
	__syncthreads();
	sum = 0;
	for (int i = 0; i < WARP; i++) sum += sums[i][lane()];
	return sum;
}

// The first half of the blocks has dgamma, 32 columns each, the other one dbeta.
KERNEL(norm_grad_add, NormGradArgs, WARP * WARP) {
	i64 wide = (a.dy.cols + WARP - 1) / WARP, half = blockIdx.x / wide, c = blockIdx.x % wide * WARP + lane();
	float sum = pieces_sum(a.part + half * a.chunks * a.dy.cols + c, a.dy.cols, a.chunks, c < a.dy.cols);
	float *to = half ? a.dbeta.p : a.dgamma.p;
	if (to && c < a.dy.cols && warp() == 0) to[c] += sum;
}

// table[p] += the rows r of src with r mod table.rows == p. A block is 128 columns of one p and one chunk of its rows,
// four of which a thread reads at a time.
template <Layout F> DEVICE void sum_rows(const ColumnArgs &a, i64 i, i64 end, i64 p, i64 c, float *sum) {
	for (; i < end; i += 4 * WARPS) {
		float x[4][4];
		UNROLL
		for (int j = 0; j < 4; j++) {
			UNROLL
			for (int e = 0; e < 4; e++) x[j][e] = 0;
			if (i + j * WARPS < end) load_four<F>(x[j], a.src, (i + j * WARPS) * a.table.rows + p, c);
		}
		UNROLL
		for (int j = 0; j < 4; j++) {
			UNROLL
			for (int e = 0; e < 4; e++) sum[e] += x[j][e];
		}
	}
}

KERNEL(sum_table, ColumnArgs, THREADS, RESIDENT) {
	i64 wide = (a.src.cols + 4 * WARP - 1) / (4 * WARP), p = blockIdx.x / wide % a.table.rows;
	i64 chunk = blockIdx.x / (wide * a.table.rows), c = (blockIdx.x % wide * WARP + lane()) * 4;
	i64 n = (a.src.rows - p + a.table.rows - 1) / a.table.rows, span = (n + a.chunks - 1) / a.chunks;
	i64 first = chunk * span + warp(), end = c < a.src.cols ? least(n, (chunk + 1) * span) : 0;
	float sum[4] = {};
	Layout f = four_layout(a.src);
	if (f == SINGLES) sum_rows<SINGLES>(a, first, end, p, c, sum);
	else if (f == PAIRS) sum_rows<PAIRS>(a, first, end, p, c, sum);
	else sum_rows<BF16_PAIRS>(a, first, end, p, c, sum);
	for (int e = 0; e < 4; e++) {
		float all = (float)column_sum<WARPS>(sum[e]);
		if (c + e >= a.src.cols || warp()) continue;
		if (a.chunks == 1) at(a.table, p, c + e) += all;
		else a.part[(chunk * a.table.rows + p) * a.src.cols + c + e] = all;
	}
}

KERNEL(sum_table_add, ColumnArgs, WARP * WARP) {
	i64 n = a.table.rows * a.table.cols, i = (i64)blockIdx.x * WARP + lane();
	float sum = pieces_sum(a.part + i, n, a.chunks, i < n);
	if (i < n && warp() == 0) at(a.table, i / a.table.cols, i % a.table.cols) += sum;
}

// Statistics in double precision: a constant column has variance 0, exactly.
KERNEL(batch_norm, BatchArgs, WARP * WARP) {
	i64 c = (i64)blockIdx.x * WARP + lane(), rows = a.x.rows;
	bool mine = c < a.x.cols;
	double sum = 0, squares = 0;
	for (i64 r = warp(); mine && r < rows; r += WARP) sum += at(a.x, r, c);
	double mean = column_sum<WARP>(sum) / (double)rows;
	for (i64 r = warp(); mine && r < rows; r += WARP) squares += (at(a.x, r, c) - mean) * (at(a.x, r, c) - mean);
	double var = column_sum<WARP>(squares) / (double)rows;
	if (!mine) return;
	float inv = (float)(1 / sqrt(var + a.eps)), gamma = a.gamma.p[c], beta = a.beta.p[c];
	for (i64 r = warp(); r < rows; r += WARP) {
		float h = (float)(at(a.x, r, c) - mean) * inv;
		if (a.xhat.p) at(a.xhat, r, c) = h;
		at(a.y, r, c) = fmaf(h, gamma, beta);
	}
	if (warp()) return;
	if (a.rstd.p) a.rstd.p[c] = inv;
	a.mean.p[c] = (float)((1 - a.momentum) * a.mean.p[c] + a.momentum * mean);
	a.variance.p[c] = (float)((1 - a.momentum) * a.variance.p[c] + a.momentum * var * (double)rows / (double)(rows - 1));
}

KERNEL(batch_norm_eval, BatchArgs, THREADS) {
	tiles(a.x.cols, [&](i64 r, i64 c) {
		float inv = (float)(1 / sqrt((double)a.variance.p[c] + a.eps));
		at(a.y, r, c) = fmaf((at(a.x, r, c) - a.mean.p[c]) * inv, a.gamma.p[c], a.beta.p[c]);
	});
}

KERNEL(batch_norm_grad, NormGradArgs, WARP * WARP) {
	i64 c = (i64)blockIdx.x * WARP + lane(), rows = a.dy.rows;
	bool mine = c < a.dy.cols;
	double sum = 0, dot = 0;
	for (i64 r = warp(); mine && r < rows; r += WARP) {
		sum += at(a.dy, r, c);
		dot += (double)at(a.dy, r, c) * at(a.xhat, r, c);
	}
	sum = column_sum<WARP>(sum);
	dot = column_sum<WARP>(dot);
	if (!mine) return;
	float scale = a.gamma.p[c] * a.rstd.p[c], mean = (float)(sum / (double)rows), along = (float)(dot / (double)rows);
	for (i64 r = warp(); r < rows; r += WARP)
		at(a.dx, r, c) = scale * (at(a.dy, r, c) - mean - at(a.xhat, r, c) * along);
	if (warp()) return;
	a.dbeta.p[c] += (float)sum;
	a.dgamma.p[c] += (float)dot;
}

// out[0] = in[0] with each column divided by its L2 norm.
KERNEL(normalize_columns, EachArgs, WARP * WARP) {
	Mat x = a.in[0], y = a.out[0];
	i64 c = (i64)blockIdx.x * WARP + lane();
	bool mine = c < x.cols;
	float squares = 0;
	for (i64 r = warp(); mine && r < x.rows; r += WARP) squares = fmaf(at(x, r, c), at(x, r, c), squares);
	float norm = sqrtf((float)column_sum<WARP>(squares));
	for (i64 r = warp(); mine && r < x.rows; r += WARP) at(y, r, c) = at(x, r, c) / norm;
}
