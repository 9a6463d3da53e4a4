// norms.cu: LayerNorm by warps over rows, BatchNorm by blocks over columns, and
// the sums over rows that gradients of gains, offsets and tables are.
#include "args.cuh"

// Norm is what normalises a row: (x - mean) * inv.
struct Norm {
	float mean, inv;
};

// row_norm is that of a warp's row, number c of which is x(c).
template <typename X> DEVICE Norm row_norm(i64 cols, double eps, X x) {
	float sum = 0, squares = 0;
	for (i64 c = lane(); c < cols; c += WARP) sum += x(c);
	float mean = warp_sum(sum) / (float)cols;
	for (i64 c = lane(); c < cols; c += WARP) squares += (x(c) - mean) * (x(c) - mean);
	Norm m = {mean, (float)(1 / sqrt((double)(warp_sum(squares) / (float)cols) + eps))};
	return m;
}

// A warp is a row. Lanes read and write their own columns only, so y may be x. y and xhat may be bf16.
KERNEL(layer_norm, NormArgs, THREADS) {
	i64 r = grid_warp(), cols = a.x.cols;
	if (r >= a.x.rows) return; // the whole warp
	const float *x = row(a.x, r);
	Norm m = row_norm(cols, a.eps, [&](i64 c) { return x[c]; });
	if (a.rstd.p && lane() == 0) *row(a.rstd, r) = m.inv;
	for (i64 c = lane(); c < cols; c += WARP) {
		float h = (x[c] - m.mean) * m.inv;
		if (a.xhat.p) set(a.xhat, r, c, h);
		set(a.y, r, c, a.gamma.p ? fmaf(h, a.gamma.p[c], a.beta.p[c]) : h);
	}
}

// A warp is a row, whose modulated numbers are made anew each time that they are read: nothing is kept between.
KERNEL(ada_norm, AdaNormArgs, THREADS) {
	i64 r = grid_warp(), cols = a.x.cols;
	if (r >= a.x.rows) return; // the whole warp
	const float *x = row(a.x, r);
	Norm outer = row_norm(cols, a.outer_eps, [&](i64 c) { return x[c]; });
	auto modulated = [&](i64 c) { return fmaf((x[c] - outer.mean) * outer.inv, 1 + get(a.scale, r, c), get(a.shift, r, c)); };
	Norm inner = row_norm(cols, a.inner_eps, modulated);
	for (i64 c = lane(); c < cols; c += WARP) {
		float h = (modulated(c) - inner.mean) * inner.inv;
		if (a.outer.p) at(a.outer, r, c) = (x[c] - outer.mean) * outer.inv;
		if (a.inner.p) set(a.inner, r, c, h);
		set(a.y, r, c, fmaf(h, a.gamma.p[c], a.beta.p[c]));
	}
	if (lane()) return;
	if (a.outer_inv.p) *row(a.outer_inv, r) = outer.inv;
	if (a.inner_inv.p) *row(a.inner_inv, r) = inner.inv;
}

KERNEL(layer_norm_grad, NormGradArgs, THREADS) {
	i64 r = grid_warp(), cols = a.dy.cols;
	if (r >= a.dy.rows) return;
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
	}
}

// Column kernels: a block is 32 columns, thread (i, lane) has rows i, i+8, ...
// column_sum adds the eight threads' sums of a column; all of them get it.
DEVICE double column_sum(double v) {
	__shared__ double sums[WARPS][WARP];
	__syncthreads();
	sums[warp()][lane()] = v;
	__syncthreads();
	double total = 0;
	for (int i = 0; i < WARPS; i++) total += sums[i][lane()];
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
	dot = (float)column_sum(dot);
	sum = (float)column_sum(sum);
	if (k.c >= a.dy.cols || warp()) return;
	a.part[k.chunk * a.dy.cols + k.c] = dot;
	a.part[(a.chunks + k.chunk) * a.dy.cols + k.c] = sum;
}

KERNEL(norm_grad_add, NormGradArgs, THREADS) {
	i64 c = (i64)blockIdx.x * THREADS + threadIdx.x;
	if (c >= a.dy.cols) return;
	float dot = 0, sum = 0;
	for (i64 i = 0; i < a.chunks; i++) {
		dot += a.part[i * a.dy.cols + c];
		sum += a.part[(a.chunks + i) * a.dy.cols + c];
	}
	if (a.dgamma.p) a.dgamma.p[c] += dot;
	if (a.dbeta.p) a.dbeta.p[c] += sum;
}

// table[p] += the rows r of src with r mod table.rows == p. A block is 32 columns
// of one p and one chunk of its rows.
KERNEL(sum_table, ColumnArgs, THREADS) {
	i64 wide = (a.src.cols + WARP - 1) / WARP, p = blockIdx.x / wide % a.table.rows;
	i64 chunk = blockIdx.x / (wide * a.table.rows), c = blockIdx.x % wide * WARP + lane();
	i64 n = (a.src.rows - p + a.table.rows - 1) / a.table.rows, span = (n + a.chunks - 1) / a.chunks;
	float sum = 0;
	if (c < a.src.cols) {
		for (i64 i = chunk * span + warp(); i < least(n, (chunk + 1) * span); i += WARPS)
			sum += get(a.src, i * a.table.rows + p, c);
	}
	sum = (float)column_sum(sum);
	if (c >= a.src.cols || warp()) return;
	if (a.chunks == 1) at(a.table, p, c) += sum;
	else a.part[(chunk * a.table.rows + p) * a.src.cols + c] = sum;
}

KERNEL(sum_table_add, ColumnArgs, THREADS) {
	tiles(a.table.cols, [&](i64 r, i64 c) {
		float sum = 0;
		for (i64 i = 0; i < a.chunks; i++) sum += a.part[(i * a.table.rows + r) * a.table.cols + c];
		at(a.table, r, c) += sum;
	});
}

// Statistics in double precision: a constant column has variance 0, exactly.
KERNEL(batch_norm, BatchArgs, THREADS) {
	i64 c = (i64)blockIdx.x * WARP + lane(), rows = a.x.rows;
	bool mine = c < a.x.cols;
	double sum = 0, squares = 0;
	for (i64 r = warp(); mine && r < rows; r += WARPS) sum += at(a.x, r, c);
	double mean = column_sum(sum) / (double)rows;
	for (i64 r = warp(); mine && r < rows; r += WARPS) squares += (at(a.x, r, c) - mean) * (at(a.x, r, c) - mean);
	double var = column_sum(squares) / (double)rows;
	if (!mine) return;
	float inv = (float)(1 / sqrt(var + a.eps)), gamma = a.gamma.p[c], beta = a.beta.p[c];
	for (i64 r = warp(); r < rows; r += WARPS) {
		float h = (float)(at(a.x, r, c) - mean) * inv;
		if (a.xhat.p) at(a.xhat, r, c) = h;
		at(a.y, r, c) = fmaf(h, gamma, beta);
	}
	if (warp()) return;
	if (a.rstd.p) a.rstd.p[c] = inv;
	a.mean.p[c] = (float)((1 - a.momentum) * a.mean.p[c] + a.momentum * mean);
	a.var.p[c] = (float)((1 - a.momentum) * a.var.p[c] + a.momentum * var * (double)rows / (double)(rows - 1));
}

KERNEL(batch_norm_eval, BatchArgs, THREADS) {
	tiles(a.x.cols, [&](i64 r, i64 c) {
		float inv = (float)(1 / sqrt((double)a.var.p[c] + a.eps));
		at(a.y, r, c) = fmaf((at(a.x, r, c) - a.mean.p[c]) * inv, a.gamma.p[c], a.beta.p[c]);
	});
}

KERNEL(batch_norm_grad, NormGradArgs, THREADS) {
	i64 c = (i64)blockIdx.x * WARP + lane(), rows = a.dy.rows;
	bool mine = c < a.dy.cols;
	double sum = 0, dot = 0;
	for (i64 r = warp(); mine && r < rows; r += WARPS) {
		sum += at(a.dy, r, c);
		dot += (double)at(a.dy, r, c) * at(a.xhat, r, c);
	}
	sum = column_sum(sum);
	dot = column_sum(dot);
	if (!mine) return;
	float scale = a.gamma.p[c] * a.rstd.p[c], mean = (float)(sum / (double)rows), along = (float)(dot / (double)rows);
	for (i64 r = warp(); r < rows; r += WARPS)
		at(a.dx, r, c) = scale * (at(a.dy, r, c) - mean - at(a.xhat, r, c) * along);
	if (warp()) return;
	a.dbeta.p[c] += (float)sum;
	a.dgamma.p[c] += (float)dot;
}

// out[0] = in[0] with each column divided by its L2 norm.
KERNEL(normalize_columns, EachArgs, THREADS) {
	Mat x = a.in[0], y = a.out[0];
	i64 c = (i64)blockIdx.x * WARP + lane();
	bool mine = c < x.cols;
	float squares = 0;
	for (i64 r = warp(); mine && r < x.rows; r += WARPS) squares = fmaf(at(x, r, c), at(x, r, c), squares);
	float norm = sqrtf((float)column_sum(squares));
	for (i64 r = warp(); mine && r < x.rows; r += WARPS) at(y, r, c) = at(x, r, c) / norm;
}
