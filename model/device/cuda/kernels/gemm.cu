// gemm.cu: matrix products. One block computes a tile of the result; the inner
// dimension is walked in steps of one length from its beginning (of the piece),
// so an element's sum does not depend on the tile or on how many rows there are.
// bf16 rounds while a tile goes to shared memory and multiplies with tensor
// cores; fp32 uses plain multiply-adds.
#include "args.cuh"
#include "mma.cuh"

enum { NN, NT, TN };

// finish is the epilogue of one element.
DEVICE void finish(const GemmArgs &a, i64 r, i64 c, float v) {
	if (a.scale.p) v *= a.scale.p[c];
	if (a.bias.p) v += a.bias.p[c];
	if (a.pre.p) set(a.pre, r, c, v);
	v = a.grad.p ? v * slope(a.act, get(a.grad, r, c)) : activate(a.act, v);
	if (a.drop != 0) v *= keep((float)a.drop, a.drop_key, (u64)(r * a.n + c));
	if (a.ungated.p) at(a.ungated, r, c) = v;
	if (a.gate.p) v *= get(a.gate, r, c);
	set(a.dst, r, c, a.add ? get(a.dst, r, c) + v : v);
}

DEVICE void put(const GemmArgs &a, i64 piece, i64 r, i64 c, float v) {
	if (r >= a.m || c >= a.n) return;
	if (a.splits == 1) finish(a, r, c, v);
	else a.part[(piece * a.m + r) * a.n + c] = v;
}

// The sums of a tile go to shared memory first, so that the epilogue is one loop
// over neighbours: tile_row is one of its rows there.
DEVICE float *tile_row(float *s, int wide, int r) { return s + r * (wide + 4); }

// Raw is two times four numbers on their way, as they are stored: in four words,
// or, of bf16, in the first two of four. They are converted when they arrive in
// shared memory, so that nothing waits for them before.
typedef u32 Raw[8];

// fetch4 reads columns c..c+3 of a row, with zeros from end on.
DEVICE void fetch4(u32 *v, const Mat &m, i64 r, i64 c, i64 end, bool there, bool vec) {
	i64 i = r * m.stride + c;
	bool whole = there && vec && c + 3 < end;
	v[2] = v[3] = 0;
	if (m.half) {
		const u16 *p = (const u16 *)m.p + i;
		if (whole) {
			uint2 h = *(const uint2 *)p;
			v[0] = h.x, v[1] = h.y;
			return;
		}
		UNROLL for (int j = 0; j < 2; j++) {
			u32 lo = there && c + 2 * j < end ? p[2 * j] : 0, hi = there && c + 2 * j + 1 < end ? p[2 * j + 1] : 0;
			v[j] = lo | hi << 16;
		}
		return;
	}
	if (whole) {
		uint4 f = *(const uint4 *)(m.p + i);
		v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
		return;
	}
	UNROLL for (int j = 0; j < 4; j++) v[j] = there && c + j < end ? (u32)__float_as_int(m.p[i + j]) : 0;
}

// Two floats as a pair of bf16.
DEVICE u32 rounded(u32 lo, u32 hi) { return pack_bf16(__int_as_float((int)lo), __int_as_float((int)hi)); }

DEVICE uint4 words(u32 x, u32 y, u32 z, u32 w) {
	uint4 v = {x, y, z, w};
	return v;
}

// Tile is a factor's ROWS x DEPTH piece (rows of the result by inner index) on
// its way from device memory to shared memory. DEEP: the inner index runs along
// the matrix's columns; else along its rows, and two of them are read at once.
template <int ROWS, int DEPTH, int TEAM, bool DEEP> struct Tile {
	static const int ITEMS = ROWS * DEPTH / 8, LOADS = (ITEMS + TEAM - 1) / TEAM; // of 8 numbers
	Raw v[LOADS];

	// Item i: DEEP eight numbers along a row, else four columns of two rows.
	static DEVICE_METHOD int r_of(int i) { return DEEP ? i / (DEPTH / 8) : i % (ROWS / 4) * 4; }
	static DEVICE_METHOD int k_of(int i) { return DEEP ? i % (DEPTH / 8) * 8 : i / (ROWS / 4) * 2; }
	static DEVICE_METHOD bool item(int l, int *i) {
		*i = l * TEAM + threadIdx.x;
		return *i < ITEMS;
	}

	DEVICE_METHOD void load(const Mat &m, i64 r0, i64 rows, i64 k0, i64 end, bool vec) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			i64 r = r0 + r_of(i), k = k0 + k_of(i);
			if (DEEP) {
				fetch4(v[l], m, r, k, end, r < rows, vec);
				fetch4(v[l] + 4, m, r, k + 4, end, r < rows, vec);
			} else {
				fetch4(v[l], m, k, r, rows, k < end, vec);
				fetch4(v[l] + 4, m, k + 1, r, rows, k + 1 < end, vec);
			}
		}
	}

	// To pairs of bf16: s[r][k/2].
	DEVICE_METHOD void store(u32 *s, int stride, bool half) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			u32 *to = s + r_of(i) * stride + k_of(i) / 2;
			const u32 *x = v[l];
			uint4 w; // DEEP: along the row; else one word for each of four rows
			if (DEEP && half) w = words(x[0], x[1], x[4], x[5]);
			else if (DEEP) w = words(rounded(x[0], x[1]), rounded(x[2], x[3]), rounded(x[4], x[5]), rounded(x[6], x[7]));
			else if (half) w = words(low(x[0], x[4]), high(x[0], x[4]), low(x[1], x[5]), high(x[1], x[5]));
			else w = words(rounded(x[0], x[4]), rounded(x[1], x[5]), rounded(x[2], x[6]), rounded(x[3], x[7]));
			if (DEEP) *(uint4 *)to = w;
			else to[0] = w.x, to[stride] = w.y, to[2 * stride] = w.z, to[3 * stride] = w.w;
		}
	}

	// To floats: s[k][r]. The matrix holds floats.
	DEVICE_METHOD void store(float *s, int stride) {
		UNROLL for (int l = 0, i; l < LOADS; l++) {
			if (!item(l, &i)) continue;
			float *to = s + k_of(i) * stride + r_of(i);
			UNROLL for (int j = 0; j < 8; j++) to[DEEP ? j * stride : j / 4 * stride + j % 4] = __int_as_float((int)v[l][j]);
		}
	}
};

// Place is what a block computes.
struct Place {
	i64 r0, c0, piece, k0, end;
};

template <int BM, int BN> DEVICE Place place(const GemmArgs &a) {
	i64 wide = (a.n + BN - 1) / BN, high = (a.m + BM - 1) / BM, tile = blockIdx.x % (wide * high);
	i64 piece = blockIdx.x / (wide * high);
	Place p = {tile / wide * BM, tile % wide * BN, piece, piece * a.span, least(a.k, (piece + 1) * a.span)};
	return p;
}

template <int BM, int BN> DEVICE void finish_tile(const GemmArgs &a, const Place &p, float *s) {
	__syncthreads();
	for (int i = threadIdx.x; i < BM * BN; i += blockDim.x)
		put(a, p.piece, p.r0 + i / BN, p.c0 + i % BN, tile_row(s, BN, i / BN)[i % BN]);
}

// bf16: four warps, each 64 x 32 of a tile of 128 x 64, two buffers of 32 inner indices.
enum { TENSOR_TEAM = 128 };
template <int OP> DEVICE void gemm_bf16(const GemmArgs &a) {
	enum { BM = 128, BN = 64, BK = 32, STRIDE = BK / 2 + 4, MW = 64 / 16, NW = 32 / 8 };
	SHARED(u32, shared);
	Tile<BM, BK, TENSOR_TEAM, OP != TN> ta;
	Tile<BN, BK, TENSOR_TEAM, OP == NT> tb;
	Place p = place<BM, BN>(a);
	int g = lane() / 4, t = lane() % 4, wm = warp() / 2 * 64, wn = warp() % 2 * 32;
	float acc[MW][NW][4] = {};
	ta.load(a.a, p.r0, a.m, p.k0, p.end, a.vec_a);
	tb.load(a.b, p.c0, a.n, p.k0, p.end, a.vec_b);
	for (i64 k0 = p.k0, step = 0; k0 < p.end; k0 += BK, step++) {
		u32 *sa = shared + step % 2 * (BM + BN) * STRIDE, *sb = sa + BM * STRIDE;
		ta.store(sa, STRIDE, a.a.half);
		tb.store(sb, STRIDE, a.b.half);
		__syncthreads();
		if (k0 + BK < p.end) {
			ta.load(a.a, p.r0, a.m, k0 + BK, p.end, a.vec_a);
			tb.load(a.b, p.c0, a.n, k0 + BK, p.end, a.vec_b);
		}
		UNROLL for (int kk = 0; kk < BK / 2; kk += 8) {
			u32 fa[MW][4], fb[NW][2];
			UNROLL for (int i = 0; i < MW; i++) mma_load_a(fa[i], sa + (wm + 16 * i) * STRIDE + kk, STRIDE);
			UNROLL for (int j = 0; j < NW; j++) mma_load_b(fb[j], sb + (wn + 8 * j) * STRIDE + kk, STRIDE);
			UNROLL for (int i = 0; i < MW; i++) {
				UNROLL for (int j = 0; j < NW; j++) mma(acc[i][j], fa[i], fb[j]);
			}
		}
	}
	__syncthreads(); // the last step's tiles have been read
	UNROLL for (int i = 0; i < MW; i++) {
		UNROLL for (int j = 0; j < NW; j++) {
			UNROLL for (int e = 0; e < 4; e++)
				tile_row((float *)shared, BN, wm + 16 * i + g + e / 2 * 8)[wn + 8 * j + 2 * t + e % 2] = acc[i][j][e];
		}
	}
	finish_tile<BM, BN>(a, p, (float *)shared);
}

// fp32: thread (x, y) has columns x*4.. and rows y*4.. of both halves of a tile of 128 x 64.
template <int OP> DEVICE void gemm_fp32(const GemmArgs &a) {
	enum { BM = 128, BN = 64, BK = 16, SA = BM + 4, SB = BN + 4 };
	SHARED(float, shared);
	Tile<BM, BK, THREADS, OP != TN> ta;
	Tile<BN, BK, THREADS, OP == NT> tb;
	Place p = place<BM, BN>(a);
	int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
	float acc[8][4] = {};
	ta.load(a.a, p.r0, a.m, p.k0, p.end, a.vec_a);
	tb.load(a.b, p.c0, a.n, p.k0, p.end, a.vec_b);
	for (i64 k0 = p.k0, step = 0; k0 < p.end; k0 += BK, step++) {
		float *sa = shared + step % 2 * BK * (SA + SB), *sb = sa + BK * SA;
		ta.store(sa, SA);
		tb.store(sb, SB);
		__syncthreads();
		if (k0 + BK < p.end) {
			ta.load(a.a, p.r0, a.m, k0 + BK, p.end, a.vec_a);
			tb.load(a.b, p.c0, a.n, k0 + BK, p.end, a.vec_b);
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
		UNROLL for (int j = 0; j < 4; j++) tile_row(shared, BN, y + i / 4 * BM / 2 + i % 4)[x + j] = acc[i][j];
	}
	finish_tile<BM, BN>(a, p, shared);
}

KERNEL(gemm_bf16_nn, GemmArgs, TENSOR_TEAM) { gemm_bf16<NN>(a); }
KERNEL(gemm_bf16_nt, GemmArgs, TENSOR_TEAM) { gemm_bf16<NT>(a); }
KERNEL(gemm_bf16_tn, GemmArgs, TENSOR_TEAM) { gemm_bf16<TN>(a); }
KERNEL(gemm_fp32_nn, GemmArgs, THREADS) { gemm_fp32<NN>(a); }
KERNEL(gemm_fp32_nt, GemmArgs, THREADS) { gemm_fp32<NT>(a); }
KERNEL(gemm_fp32_tn, GemmArgs, THREADS) { gemm_fp32<TN>(a); }

// The pieces' sums, in order.
KERNEL(gemm_add, GemmArgs, THREADS) {
	tiles(a.n, [&](i64 r, i64 c) {
		float v = 0;
		for (i64 i = 0; i < a.splits; i++) v += a.part[(i * a.m + r) * a.n + c];
		finish(a, r, c, v);
	});
}
