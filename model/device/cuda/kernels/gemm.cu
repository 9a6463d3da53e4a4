// gemm.cu: matrix products in fp32 by plain multiply-adds, dst = epilogue(A B), and the sum of a product's pieces.
//
// Idea: a block computes 128 x 64 of the result for one piece of the inner dimension, a thread 8 x 4 of
// them in registers. Factors come by 16 inner indices to shared memory, in two places: while one is multiplied,
// the next step is on its way in registers. A thread reads 12 numbers of shared memory for 32 multiply-adds.
// Memory traffic: A is read once for every 64 columns of the result, B once for every 128 rows (mostly from the
// second level cache), dst and what the epilogue takes once. Where K is cut into pieces, each piece's sums are
// written to part as floats, and gemm_add reads them in order and applies the epilogue.
// An element's sum is walked in one order from the beginning of its piece, so its bits do not depend on the
// tile or on how many rows there are.
#include "epilogue.cuh"

enum { NN, NT, TN };

// fetch reads columns c..c+3 of a row, with zeros from end on.
DEVICE void fetch(float *v, const Mat &m, i64 r, i64 c, i64 end, bool there, bool vec) {
	const float *p = m.p + r * m.stride + c;
	if (there && vec && c + 3 < end) {
		float4 f = *(const float4 *)p;
		v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
		return;
	}
	UNROLL for (int j = 0; j < 4; j++) v[j] = there && c + j < end ? p[j] : 0;
}

// Tile is a factor's ROWS x DEPTH piece (rows of the result by inner index) on
// its way from device memory to shared memory. DEEP: the inner index runs along
// the matrix's columns; else along its rows, and two of them are read at once.
template <int ROWS, int DEPTH, bool DEEP> struct Tile {
	static const int ITEMS = ROWS * DEPTH / 8, LOADS = (ITEMS + THREADS - 1) / THREADS; // of 8 numbers
	float v[LOADS][8];

	// Item i: DEEP eight numbers along a row, else four columns of two rows.
	static DEVICE_METHOD int r_of(int i) { return DEEP ? i / (DEPTH / 8) : i % (ROWS / 4) * 4; }
	static DEVICE_METHOD int k_of(int i) { return DEEP ? i % (DEPTH / 8) * 8 : i / (ROWS / 4) * 2; }
	static DEVICE_METHOD bool item(int l, int *i) {
		*i = l * THREADS + threadIdx.x;
		return *i < ITEMS;
	}

	DEVICE_METHOD void load(const Mat &m, i64 r0, i64 rows, i64 k0, i64 end, bool vec) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			i64 r = r0 + r_of(i), k = k0 + k_of(i);
			if (DEEP) {
				fetch(v[l], m, r, k, end, r < rows, vec);
				fetch(v[l] + 4, m, r, k + 4, end, r < rows, vec);
			} else {
				fetch(v[l], m, k, r, rows, k < end, vec);
				fetch(v[l] + 4, m, k + 1, r, rows, k + 1 < end, vec);
			}
		}
	}

	// To s[k][r].
	DEVICE_METHOD void store(float *s, int stride) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			float *to = s + k_of(i) * stride + r_of(i);
			UNROLL for (int j = 0; j < 8; j++) to[DEEP ? j * stride : j / 4 * stride + j % 4] = v[l][j];
		}
	}
};

// Thread (x, y) has columns x*4.. and rows y*4.. of both halves of a tile of 128 x 64.
template <int OP> DEVICE void gemm_fp32(const GemmArgs &a) {
	enum { BM = 128, BN = 64, BK = 16, SA = BM + 4, SB = BN + 4 };
	SHARED(float, shared);
	Tile<BM, BK, OP != TN> ta;
	Tile<BN, BK, OP == NT> tb;
	int wide = ((int)a.n + BN - 1) / BN, high = ((int)a.m + BM - 1) / BM, tile = blockIdx.x % (wide * high), piece = blockIdx.x / (wide * high);
	int r0 = tile / wide * BM, c0 = tile % wide * BN;
	i64 begin = piece * a.span, end = least(a.k, begin + a.span);
	int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
	float acc[8][4] = {};
	ta.load(a.a, r0, a.m, begin, end, a.vec_a);
	tb.load(a.b, c0, a.n, begin, end, a.vec_b);
	for (i64 k0 = begin, step = 0; k0 < end; k0 += BK, step++) {
		float *sa = shared + step % 2 * BK * (SA + SB), *sb = sa + BK * SA;
		ta.store(sa, SA);
		tb.store(sb, SB);
		__syncthreads();
		if (k0 + BK < end) {
			ta.load(a.a, r0, a.m, k0 + BK, end, a.vec_a);
			tb.load(a.b, c0, a.n, k0 + BK, end, a.vec_b);
		}
		UNROLL for (int k = 0; k < BK; k++) {
			float4 lo = *(float4 *)(sa + k * SA + y), hi = *(float4 *)(sa + k * SA + BM / 2 + y);
			float4 b = *(float4 *)(sb + k * SB + x);
			float va[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w}, vb[4] = {b.x, b.y, b.z, b.w};
			UNROLL for (int i = 0; i < 8; i++) {
				UNROLL for (int j = 0; j < 4; j++) acc[i][j] = fmaf(va[i], vb[j], acc[i][j]);
			}
		}
	}
	__syncthreads(); // the last step's tiles have been read
	UNROLL for (int i = 0; i < 8; i++) {
		UNROLL for (int j = 0; j < 4; j++) shared[(y + i / 4 * BM / 2 + i % 4) * SB + x + j] = acc[i][j];
	}
	__syncthreads();
	finish_tile<BM, BN, THREADS>(a, piece, r0, c0, [&](int r, int c) { return *(float4 *)(shared + r * SB + c); });
}

KERNEL(gemm_fp32_nn, GemmArgs, THREADS) { gemm_fp32<NN>(a); }
KERNEL(gemm_fp32_nt, GemmArgs, THREADS) { gemm_fp32<NT>(a); }
KERNEL(gemm_fp32_tn, GemmArgs, THREADS) { gemm_fp32<TN>(a); }

// The pieces' sums, in order: four neighbours a thread, then one of A's columns.
KERNEL(gemm_add, GemmArgs, THREADS) {
	i64 wide = (a.n + 3) / 4, id = (i64)blockIdx.x * THREADS + threadIdx.x, column = id - wide * a.m;
	if (column < 0) {
		Spot s = spot(a, (int)(id / wide), (int)(id % wide) * 4);
		Beside b = beside(a, s);
		float v[4] = {};
		for (i64 i = 0; i < a.splits; i++) {
			GemmArgs p = partial(a, i);
			Spot at = spot(p, s.r, s.c);
			float x[4];
			load4(x, p.dst, s.r, at);
			UNROLL for (int j = 0; j < 4; j++) v[j] += x[j];
		}
		finish4(a, s, v, above(a, s), b);
	} else if (a.sum_a.p && column < a.m) {
		const float *sums = a.part + a.splits * a.m * a.n;
		float v = 0;
		for (i64 i = 0; i < a.splits; i++) v += sums[i * a.m + column];
		at(a.sum_a, 0, column) += v;
	}
}
