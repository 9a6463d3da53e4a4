// gemm.cu: GEMM in float32 on CUDA cores, dst = epilogue(A B), and the reduction of
// split-K.
//
// A block of 256 threads computes a 128 x 64 tile of the result for one chunk of K, a
// thread 8 x 4 elements in registers. A and B pass through shared memory in steps of 16
// inner indices, double-buffered: while one buffer is multiplied, the next step is on
// its way from device memory to registers. A thread reads 12 floats of shared memory
// for 32 FMAs.
//
// Memory traffic: A is read once per 64 columns of the result and B once per 128 rows,
// mostly from L2; dst and the operands of the epilogue once. Under split-K each chunk
// writes float32 sums to part, which gemm_add reads in order.
//
// Determinism: an element is summed over the inner index in increasing order from the
// start of its chunk. Its bits depend neither on the tile nor on the number of rows.
#include "epilogue.cuh"

// The transposed operands, in the order of device.Op.
enum { NN, NT, TN };

// fetch reads elements c to c+3 of row r of m; those at or after `end`, and all of them
// if the row is not valid, are zeros. vec says that aligned float4 access is possible.
DEVICE void fetch(float *v, const Mat &m, i64 r, i64 c, i64 end, bool valid, bool vec) {
	const float *p = m.p + r * m.stride + c;
	if (valid && vec && c + 3 < end) {
		float4 f = *(const float4 *)p;
		v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
		return;
	}
	UNROLL for (int j = 0; j < 4; j++) v[j] = valid && c + j < end ? p[j] : 0;
}

// Tile is a ROWS x DEPTH tile of an operand (rows of the result by inner indices), held
// in the block's registers on its way from device memory to shared memory. K_MAJOR
// operands are contiguous along the inner index. For the others, which are contiguous
// along the rows of the result, an item covers four rows of two inner indices.
template <int ROWS, int DEPTH, bool K_MAJOR> struct Tile {
	// An item is 8 elements; a thread loads up to LOADS of them.
	static const int ITEMS = ROWS * DEPTH / 8, LOADS = (ITEMS + THREADS - 1) / THREADS;
	float v[LOADS][8];

	// The first row and inner index of item i within the tile.
	static DEVICE_METHOD int r_of(int i) { return K_MAJOR ? i / (DEPTH / 8) : i % (ROWS / 4) * 4; }
	static DEVICE_METHOD int k_of(int i) { return K_MAJOR ? i % (DEPTH / 8) * 8 : i / (ROWS / 4) * 2; }
	// item sets *i to the thread's l-th item; it returns false if there are fewer.
	static DEVICE_METHOD bool item(int l, int *i) {
		*i = l * THREADS + threadIdx.x;
		return *i < ITEMS;
	}

	// load issues the loads of the tile at (r0, k0). Elements beyond `rows` and `end`
	// become zeros.
	DEVICE_METHOD void load(const Mat &m, i64 r0, i64 rows, i64 k0, i64 end, bool vec) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			i64 r = r0 + r_of(i), k = k0 + k_of(i);
			if (K_MAJOR) {
				fetch(v[l], m, r, k, end, r < rows, vec);
				fetch(v[l] + 4, m, r, k + 4, end, r < rows, vec);
			} else {
				fetch(v[l], m, k, r, rows, k < end, vec);
				fetch(v[l] + 4, m, k + 1, r, rows, k + 1 < end, vec);
			}
		}
	}

	// store writes the tile to shared memory as s[k][r], so that a thread reads its
	// rows of one inner index with vector loads.
	DEVICE_METHOD void store(float *s, int stride) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			float *to = s + k_of(i) * stride + r_of(i);
			UNROLL for (int j = 0; j < 8; j++) to[K_MAJOR ? j * stride : j / 4 * stride + j % 4] = v[l][j];
		}
	}
};

// gemm_fp32 is the kernel of one OP. Thread (x, y) has columns x to x+3, and rows y to
// y+3 of both halves of the 128 rows: splitting them lets the lanes of a warp read
// adjacent float4.
//
// One barrier per step suffices: the buffer written in step s+1 was last read in step
// s-1, and a thread passes the barrier of step s only when all have finished step s-1.
template <int OP> DEVICE void gemm_fp32(const GemmArgs &a) {
	enum { BM = 128, BN = 64, BK = 16, SA = BM + 4, SB = BN + 4 }; // SA, SB: padded row lengths
	SHARED(float, shared);
	Tile<BM, BK, OP != TN> ta;
	Tile<BN, BK, OP == NT> tb;
	int tiles_n = ((int)a.n + BN - 1) / BN, tiles_m = ((int)a.m + BM - 1) / BM, tile = blockIdx.x % (tiles_n * tiles_m), piece = blockIdx.x / (tiles_n * tiles_m);
	int r0 = tile / tiles_n * BM, c0 = tile % tiles_n * BN;
	i64 begin = piece * a.span, end = min64(a.k, begin + a.span);
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
	__syncthreads(); // all threads have read the last step's tiles: shared memory now takes the sums
	UNROLL for (int i = 0; i < 8; i++) {
		UNROLL for (int j = 0; j < 4; j++) shared[(y + i / 4 * BM / 2 + i % 4) * SB + x + j] = acc[i][j];
	}
	__syncthreads();
	epilogue_tile<BM, BN, THREADS>(a, piece, r0, c0, [&](int r, int c) { return *(float4 *)(shared + r * SB + c); });
}

KERNEL(gemm_fp32_nn, GemmArgs, THREADS) { gemm_fp32<NN>(a); }
KERNEL(gemm_fp32_nt, GemmArgs, THREADS) { gemm_fp32<NT>(a); }
KERNEL(gemm_fp32_tn, GemmArgs, THREADS) { gemm_fp32<TN>(a); }

// gemm_add adds the chunks' partial sums in order and applies the epilogue. The first
// threads have a quad of dst each, the following ones a column sum of A.
KERNEL(gemm_add, GemmArgs, THREADS) {
	i64 quads = (a.n + 3) / 4, id = (i64)blockIdx.x * THREADS + threadIdx.x, column = id - quads * a.m;
	if (column < 0) {
		Spot s = spot(a, (int)(id / quads), (int)(id % quads) * 4);
		Prefetched b = prefetch(a, s);
		float v[4] = {};
		for (i64 i = 0; i < a.splits; i++) {
			GemmArgs p = partial(a, i);
			Spot at = spot(p, s.r, s.c);
			float x[4];
			load4(x, p.dst, s.r, at);
			UNROLL for (int j = 0; j < 4; j++) v[j] += x[j];
		}
		epilogue4(a, s, v, per_column(a, s), b);
	} else if (a.sum_a.p && column < a.m) {
		const float *sums = a.part + a.splits * a.m * a.n;
		float v = 0;
		for (i64 i = 0; i < a.splits; i++) v += sums[i * a.m + column];
		at(a.sum_a, 0, column) += v;
	}
}
