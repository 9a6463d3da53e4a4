// norms.cu: LayerNorm (a warp per row), BatchNorm (a block per 32 columns), and sums
// over rows.
//
//    LayerNorm  xhat = (x - mean) rstd with rstd = 1/sqrt(variance + eps),
//               y = gamma xhat + beta
//    AdaLN      y = gamma LN((1 + scale) LN(x) + shift) + beta
//    gradient   with g = gamma dy and means over the row:
//               dx = rstd (g - mean(g) - xhat mean(g xhat)),
//               dgamma = sum dy xhat and dbeta = sum dy over the rows
//
// Memory traffic: a row of up to 192 columns (rows.cuh) stays in a warp's registers, so
// everything is read once and written once; wider rows are read once per pass.
//
// The sums over rows (dgamma, dbeta, tables) have a fixed number of chunks of rows.
// Each chunk's partial sums go through device memory and a second kernel adds them in
// order: the result is deterministic, without atomics. For narrow rows layer_norm_grad
// computes dgamma and dbeta on the way; for wider rows norm_grad_sums reads dy and xhat
// again.
//
// BatchNorm and normalize_columns go down a column: in training x is read three times
// (mean, variance, result), in the gradient dy and xhat twice, and a column to be
// normalized twice.
#include "args.cuh"
#include "rows.cuh"

// row_norm returns the normalization of a row that is too wide for registers; x(c)
// returns its column c.
template <typename X> DEVICE Norm row_norm(i64 cols, double eps, X x) {
	float sum = 0, squares = 0;
	for (i64 c = lane(); c < cols; c += WARP) sum += x(c);
	float mean = warp_sum(sum) / (float)cols;
	for (i64 c = lane(); c < cols; c += WARP) squares += (x(c) - mean) * (x(c) - mean);
	Norm m = {mean, inverse_deviation(warp_sum(squares), cols, eps)};
	return m;
}

// wide_layer_norm normalizes row r, reading it three times.
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

// layer_norm: a warp normalizes a row, then the row one grid further, so that it reads
// gamma and beta once. A lane reads all its columns before it writes them, and no other
// lane's, so y may be x. y and xhat may be bf16.
KERNEL(layer_norm, NormArgs, THREADS) {
	i64 rows = a.x.rows, cols = a.x.cols, step = (i64)gridDim.x * WARPS;
	if (cols > NARROW) {
		for (i64 r = grid_warp(); r < rows; r += step) wide_layer_norm(a, r);
		return;
	}
	float gamma[PER_LANE], beta[PER_LANE], v[PER_LANE];
	if (a.gamma.p) {
		load_row(gamma, a.gamma, 0);
		load_row(beta, a.beta, 0);
	}
	for (i64 r = grid_warp(); r < rows; r += step) {
		load_row(v, a.x, r);
		Norm m = norm_of(v, cols, a.eps);
		UNROLL
		for (int i = 0; i < PER_LANE; i++) v[i] = (v[i] - m.mean) * m.inv;
		if (a.rstd.p && lane() == 0) *row(a.rstd, r) = m.inv;
		if (a.xhat.p) store_row(a.xhat, r, v);
		UNROLL
		for (int i = 0; i < PER_LANE && a.gamma.p; i++) v[i] = fmaf(v[i], gamma[i], beta[i]);
		store_row(a.y, r, v);
	}
}

// wide_ada_norm normalizes row r. It recomputes the modulated values each time instead
// of storing them.
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

// narrow_ada_ln normalizes a row in registers. X is the layout of x, F that of scale
// and shift. With the layouts known at compile time, all loads are in flight at once.
template <Layout X, Layout F> DEVICE void narrow_ada_ln(const AdaLNArgs &a, i64 r, Norm &outer, Norm &inner) {
	float v[PER_LANE], scale[PER_LANE], shift[PER_LANE], gamma[PER_LANE], beta[PER_LANE];
	load_row<X>(v, a.x, r);
	load_row<F>(scale, a.scale, r);
	load_row<F>(shift, a.shift, r);
	load_row(gamma, a.gamma, 0);
	load_row(beta, a.beta, 0);
	outer = norm_of(v, a.x.cols, a.outer_eps);
	UNROLL
	for (int i = 0; i < PER_LANE; i++) v[i] = (v[i] - outer.mean) * outer.inv;
	if (a.outer.p) store_row(a.outer, r, v);
	UNROLL
	for (int i = 0; i < PER_LANE; i++) v[i] = fmaf(v[i], 1 + scale[i], shift[i]);
	zero_tail(v, a.x.cols); // which (x - mean) and shift have overwritten
	inner = norm_of(v, a.x.cols, a.inner_eps);
	UNROLL
	for (int i = 0; i < PER_LANE; i++) v[i] = (v[i] - inner.mean) * inner.inv;
	if (a.inner.p) store_row(a.inner, r, v);
	UNROLL
	for (int i = 0; i < PER_LANE; i++) v[i] = fmaf(v[i], gamma[i], beta[i]);
	store_row(a.y, r, v);
}

// ada_ln: one warp per row. Only the combinations of layouts that models use are
// instantiated; the rest take SINGLES.
KERNEL(ada_ln, AdaLNArgs, THREADS) {
	i64 r = grid_warp();
	if (r >= a.x.rows) return; // uniform in the warp: shuffles below are safe
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

// wide_norm_grad computes dx of row r in two passes over dy and xhat.
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

// ColumnSums is a lane's share of the sums over rows of dy*xhat (dgamma) and of dy
// (dbeta).
struct ColumnSums {
	float dot[PER_LANE], sum[PER_LANE];
};

// narrow_norm_grad computes dx of rows r, r+WARPS, ... before `end`, and adds to the
// sums over rows.
template <Layout DY, Layout XHAT, Layout DX> DEVICE void narrow_norm_grad(const NormGradArgs &a, i64 r, i64 end, ColumnSums &all) {
	float gamma[PER_LANE];
	float share = 1 / (float)a.dy.cols;
	for (int i = 0; i < PER_LANE; i++) gamma[i] = 1;
	if (a.gamma.p) load_row(gamma, a.gamma, 0);
	for (; r < end; r += WARPS) {
		float g[PER_LANE], h[PER_LANE], dx[PER_LANE], inv = *row(a.rstd, r), sum = 0, dot = 0;
		load_row<DY>(g, a.dy, r);
		load_row<XHAT>(h, a.xhat, r);
		for (int i = 0; i < PER_LANE; i++) dx[i] = 0;
		if (a.add) load_row<DX>(dx, a.dx, r);
		UNROLL
		for (int i = 0; i < PER_LANE; i++) {
			all.sum[i] += g[i];
			all.dot[i] = fmaf(g[i], h[i], all.dot[i]);
			g[i] *= gamma[i];
			sum += g[i];
			dot = fmaf(g[i], h[i], dot);
		}
		sum = warp_sum(sum) * share;
		dot = warp_sum(dot) * share;
		UNROLL
		for (int i = 0; i < PER_LANE; i++) dx[i] += inv * (g[i] - sum - h[i] * dot);
		store_row<DX>(a.dx, r, dx);
		if (a.rounded.p) store_row(a.rounded, r, dx);
	}
}

// layer_norm_grad: a block has a chunk of rows, each of its warps every WARPS-th row.
// The warps' sums over rows are added in order and written to part (2 x chunks x cols),
// where given.
KERNEL(layer_norm_grad, NormGradArgs, THREADS, RESIDENT) {
	__shared__ float sums[WARPS][2 * NARROW];
	i64 rows = a.dy.rows, span = (rows + a.chunks - 1) / a.chunks, r = blockIdx.x * span + warp(), end = min64(rows, (blockIdx.x + 1) * span);
	int cols = (int)a.dy.cols;
	if (cols > NARROW) {
		for (; r < end; r += WARPS) wide_norm_grad(a, r);
		return;
	}
	ColumnSums all = {};
	Layout dy = layout(a.dy), xhat = layout(a.xhat);
	if (dy == SINGLES || xhat == SINGLES || layout(a.dx) == SINGLES) narrow_norm_grad<SINGLES, SINGLES, SINGLES>(a, r, end, all);
	else if (dy == PAIRS && xhat == PAIRS) narrow_norm_grad<PAIRS, PAIRS, PAIRS>(a, r, end, all);
	else if (dy == PAIRS) narrow_norm_grad<PAIRS, BF16_PAIRS, PAIRS>(a, r, end, all);
	else if (xhat == PAIRS) narrow_norm_grad<BF16_PAIRS, PAIRS, PAIRS>(a, r, end, all);
	else narrow_norm_grad<BF16_PAIRS, BF16_PAIRS, PAIRS>(a, r, end, all);
	if (!a.part) return;
	for (int i = 0; i < PER_LANE; i++) {
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

// In the column kernels a block has 32 columns: the thread of warp i and lane l has
// rows i, i+W, ... of column l, where W is the number of warps. column_sum adds the W
// sums of each column in order and returns the total to all of the column's threads.
template <int W> DEVICE double column_sum(double v) {
	__shared__ double sums[W][WARP];
	__syncthreads();
	sums[warp()][lane()] = v;
	__syncthreads();
	double total = 0;
	for (int i = 0; i < W; i++) total += sums[i][lane()];
	return total;
}

// Chunk is the column of a thread and its chunk of rows [r0, r1), in a grid of chunks
// (outer) by groups of 32 columns (inner).
struct Chunk {
	i64 c, chunk, r0, r1;
};

// chunk_of returns this thread's chunk. Column c may be beyond the matrix.
DEVICE Chunk chunk_of(i64 rows, i64 cols, i64 chunks) {
	i64 wide = (cols + WARP - 1) / WARP, span = (rows + chunks - 1) / chunks, i = blockIdx.x / wide;
	Chunk k = {blockIdx.x % wide * WARP + lane(), i, min64(rows, i * span), min64(rows, (i + 1) * span)};
	return k;
}

// norm_grad_sums writes each chunk's sums of dy*xhat, then those of dy, to part (2 x
// chunks x cols).
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

// sum_chunks adds the chunks' partial sums of a column; that of chunk i is part[i *
// stride]. All threads of a block of 32 warps must call it: lane l of every warp works
// on column l, warp w on chunks w, w+32, ... The result is valid in all warps; callers
// use that of the first. `mine` is false if the column does not exist.
DEVICE float sum_chunks(const float *part, i64 stride, i64 chunks, bool mine) {
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

// norm_grad_add adds the chunks' sums to dgamma (first half of the blocks, 32 columns
// each) and dbeta.
KERNEL(norm_grad_add, NormGradArgs, WARP * WARP) {
	i64 wide = (a.dy.cols + WARP - 1) / WARP, half = blockIdx.x / wide, c = blockIdx.x % wide * WARP + lane();
	float sum = sum_chunks(a.part + half * a.chunks * a.dy.cols + c, a.dy.cols, a.chunks, c < a.dy.cols);
	float *to = half ? a.dbeta.p : a.dgamma.p;
	if (to && c < a.dy.cols && warp() == 0) to[c] += sum;
}

// sum_table: table[p] += the rows r of src with r mod table.rows == p. A block has 128
// columns of one p and one chunk of its rows. sum_rows adds a thread's rows, with the
// loads of four of them in flight.
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
	i64 first = chunk * span + warp(), end = c < a.src.cols ? min64(n, (chunk + 1) * span) : 0;
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

// sum_table_add adds the chunks' sums to the table.
KERNEL(sum_table_add, ColumnArgs, WARP * WARP) {
	i64 n = a.table.rows * a.table.cols, i = (i64)blockIdx.x * WARP + lane();
	float sum = sum_chunks(a.part + i, n, a.chunks, i < n);
	if (i < n && warp() == 0) at(a.table, i / a.table.cols, i % a.table.cols) += sum;
}

// batch_norm computes the statistics of a batch in double precision: a constant column
// then has variance exactly 0. The running variance uses the unbiased estimate, as
// PyTorch does.
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

// batch_norm_eval normalizes with the running statistics.
KERNEL(batch_norm_eval, BatchArgs, THREADS) {
	for_tile(a.x.cols, [&](i64 r, i64 c) {
		float inv = (float)(1 / sqrt((double)a.variance.p[c] + a.eps));
		at(a.y, r, c) = fmaf((at(a.x, r, c) - a.mean.p[c]) * inv, a.gamma.p[c], a.beta.p[c]);
	});
}

// batch_norm_grad computes dx and adds to dgamma and dbeta. Each block has complete
// columns, so it needs no partial sums.
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
	float scale = a.gamma.p[c] * a.rstd.p[c], mean = (float)(sum / (double)rows), dot_mean = (float)(dot / (double)rows);
	for (i64 r = warp(); r < rows; r += WARP)
		at(a.dx, r, c) = scale * (at(a.dy, r, c) - mean - at(a.xhat, r, c) * dot_mean);
	if (warp()) return;
	a.dbeta.p[c] += (float)sum;
	a.dgamma.p[c] += (float)dot;
}

// normalize_columns: out[0] = in[0] with each column divided by its L2 norm.
KERNEL(normalize_columns, EachArgs, WARP * WARP) {
	Mat x = a.in[0], y = a.out[0];
	i64 c = (i64)blockIdx.x * WARP + lane();
	bool mine = c < x.cols;
	float squares = 0;
	for (i64 r = warp(); mine && r < x.rows; r += WARP) squares = fmaf(at(x, r, c), at(x, r, c), squares);
	float norm = sqrtf((float)column_sum<WARP>(squares));
	for (i64 r = warp(); mine && r < x.rows; r += WARP) at(y, r, c) = at(x, r, c) / norm;
}
