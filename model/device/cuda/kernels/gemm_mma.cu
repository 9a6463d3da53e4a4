// gemm_mma.cu: GEMM in bf16 on tensor cores by mma.sync, dst = epilogue(A B), for all
// GPUs from Ampere on. A and B are bf16 with rows that begin at multiples of 16 bytes,
// which the engine ensures (operands.go).
//
// A block keeps the sums of its tile in registers: 128 x 192 of them for results with
// many rows, 64 x 64 or 32 x 32 for smaller ones. Asynchronous copies bring A and B to
// shared memory some steps ahead of the multiplication (a multi-stage pipeline).
// ldmatrix loads the operands' fragments, transposing them where the matrix is not
// contiguous along the inner index.
//
// Memory traffic: A is read once per tile width of columns, B once per tile height of
// rows, two bytes an element; dst and the operands of the epilogue once. In NN and NT a
// block adds all chunks of K itself; TN, the gradients of weights, has few output tiles
// and a long K, and uses split-K with gemm_add.
//
// Determinism: K is divided into chunks of `span`. A chunk's sum starts at zero and
// grows by 16 inner indices at a time, and chunks are added in order. All tile shapes
// follow this order and so produce the same bits, which allows the engine to choose the
// shape by the number of rows.
#include "async.cuh"
#include "epilogue.cuh"
#include "mma.cuh"

// The transposed operands, in the order of device.Op.
enum { NN, NT, TN };

// SmemTile is a tile of an operand in shared memory: ROWS rows of the result by DEPTH
// inner indices. It consists of lines that are contiguous in the matrix: along the
// inner index if K_MAJOR, else along the rows of the result. TEAM threads fill it, 16
// bytes each at a time.
//
// Lines are padded by 16 bytes. The pitch is then an odd multiple of 16 bytes, so the
// eight lines that one ldmatrix phase reads lie in eight different groups of four
// banks, without a swizzle.
template <int ROWS, int DEPTH, int TEAM, bool K_MAJOR> struct SmemTile {
	enum {
		LINES = K_MAJOR ? ROWS : DEPTH, ALONG = K_MAJOR ? DEPTH : ROWS, // lines, and elements of a line
		PITCH = 2 * ALONG + 16, BYTES = LINES * PITCH,
		THREADS_PER_LINE = ALONG / 8 % 8 == 0 ? 8 : 4,
		// Lines that the team copies at once, and the copies of a thread down and along
		// the lines.
		AT_ONCE = TEAM / THREADS_PER_LINE, LINE_STEPS = (LINES + AT_ONCE - 1) / AT_ONCE, ALONG_STEPS = ALONG / 8 / THREADS_PER_LINE,
		STEP_R = 16 * (K_MAJOR ? PITCH : 2), STEP_K = 16 * (K_MAJOR ? 2 : PITCH), // bytes from a 16 x 16 fragment to the next, in rows and in k
	};
	static_assert(ALONG / 8 % THREADS_PER_LINE == 0, "a line is shared out evenly");
	const u16 *from; // source of the thread's first copy of the next step

	// The thread's index in the team, and the line and first element that it copies
	// first.
	static DEVICE_METHOD int thread() { return TEAM == WARP ? lane() : threadIdx.x; }
	static DEVICE_METHOD int line() { return thread() / THREADS_PER_LINE; }
	static DEVICE_METHOD int along() { return thread() % THREADS_PER_LINE * 8; }

	// start points at the tile's first step: row r0 of the result, inner index k0.
	DEVICE_METHOD void start(const Mat &m, int r0, i64 k0) {
		from = (const u16 *)m.p + (K_MAJOR ? (r0 + line()) * m.stride + k0 : (k0 + line()) * m.stride + r0) + along();
	}

	// copy starts the copies of the next step, of which `rows` rows and `inner` inner
	// indices are within the matrix, and advances to the step after. Entire 16-byte
	// vectors beyond the matrix become zeros. A vector that straddles the end of K
	// brings foreign elements, which zero_tail_k clears. One that straddles the last
	// row only affects sums that are not stored.
	DEVICE_METHOD void copy(u32 to, const Mat &m, int rows, int inner) {
		int lines = (K_MAJOR ? rows : inner) - line(), numbers = (K_MAJOR ? inner : rows) - along();
		i64 down = m.stride * AT_ONCE;
		const u16 *at = from;
		to += line() * PITCH + 2 * along();
		UNROLL for (int i = 0; i < LINE_STEPS; i++, at += down) {
			if (LINES % AT_ONCE != 0 && line() + i * AT_ONCE >= LINES) break;
			UNROLL for (int j = 0; j < ALONG_STEPS; j++)
				copy16(to + i * AT_ONCE * PITCH + j * THREADS_PER_LINE * 16, at + j * THREADS_PER_LINE * 8, i * AT_ONCE < lines && j * THREADS_PER_LINE * 8 < numbers ? 16 : 0);
		}
		from += K_MAJOR ? DEPTH : DEPTH * m.stride;
	}

	// zero_tail_k clears the elements after the last inner index within its 16-byte
	// vector. Both operands need it: a foreign NaN times zero would still be NaN.
	// Operands that are not K_MAJOR have no such elements, since there an inner index
	// is a line.
	static DEVICE_METHOD void zero_tail_k(char *tile, int inner) {
		ROLLED for (int l = K_MAJOR ? thread() : LINES; l < LINES; l += TEAM) {
			ROLLED for (int k = inner; k % 8 != 0; k++) *(u16 *)(tile + l * PITCH + 2 * k) = 0;
		}
	}

	// as_a and as_b return the address that this lane passes to ldmatrix4 for the 16 x
	// 16 fragment at row r, as left and as right operand. The four 8 x 8 matrices of a
	// left operand are ordered rows first (0-7, 8-15), then inner indices; those of a
	// right operand the other way around, which matches the register order of mma
	// (mma.cuh). A tile that is not K_MAJOR is stored transposed, so its order is
	// exchanged.
	static DEVICE_METHOD u32 as_a(u32 tile_address, int r) { return ldmatrix_address(tile_address, r, K_MAJOR); }
	static DEVICE_METHOD u32 as_b(u32 tile_address, int r) { return ldmatrix_address(tile_address, r, !K_MAJOR); }
	static DEVICE_METHOD u32 ldmatrix_address(u32 tile_address, int r, bool rows_first) {
		int l = lane(), first = l % 16, second = l / 16 * 8;
		if (!rows_first) first = l % 8 + l / 16 * 8, second = l / 8 % 2 * 8;
		return tile_address + r / 16 * STEP_R + first * PITCH + second * 2;
	}
	// fragment loads the four registers of a 16 x 16 fragment.
	static DEVICE_METHOD void fragment(u32 *f, u32 at) {
		if (K_MAJOR) ldmatrix4(f, at);
		else ldmatrix4_trans(f, at);
	}
};

// swizzled_tile returns the index of element (r, c) in a tile of sums in shared memory.
// Accumulator fragments are written as float2 by four rows of a half-warp at once, and
// rows are a multiple of 128 bytes long: without a swizzle all four would hit the same
// eight banks. XOR by the row moves groups of eight columns so that they cover all 32
// banks.
template <int COLS> DEVICE int swizzled_tile(int r, int c) { return r * COLS + (c ^ r % 4 * 8); }

// WarpTile is the accumulators of a warp: 16*FRAGS_M rows by 16*FRAGS_N columns of the
// tile, as m16n8 fragments.
template <int FRAGS_M, int FRAGS_N> struct WarpTile {
	float acc[FRAGS_M][2 * FRAGS_N][4];

	DEVICE_METHOD void clear() {
		UNROLL for (int i = 0; i < FRAGS_M; i++) {
			UNROLL for (int j = 0; j < 2 * FRAGS_N; j++) {
				UNROLL for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
			}
		}
	}

	// multiply adds the product of one step's tiles; a and b are the lane's addresses
	// in them. Each fragment of A stays in registers for all of B's, so shared memory
	// is read once per k for A and once for B.
	template <class A, class B, int DEPTH> DEVICE_METHOD void multiply(u32 a, u32 b) {
		UNROLL for (int k = 0; k < DEPTH / 16; k++) {
			u32 fa[FRAGS_M][4];
			UNROLL for (int i = 0; i < FRAGS_M; i++) A::fragment(fa[i], a + i * A::STEP_R + k * A::STEP_K);
			UNROLL for (int j = 0; j < FRAGS_N; j++) {
				u32 fb[4];
				B::fragment(fb, b + j * B::STEP_R + k * B::STEP_K);
				UNROLL for (int i = 0; i < FRAGS_M; i++) {
					mma(acc[i][2 * j], fa[i], fb);
					mma(acc[i][2 * j + 1], fa[i], fb + 2);
				}
			}
		}
	}

	// add adds the sums of w, element by element.
	DEVICE_METHOD void add(const WarpTile &w) {
		UNROLL for (int i = 0; i < FRAGS_M; i++) {
			UNROLL for (int j = 0; j < 2 * FRAGS_N; j++) {
				UNROLL for (int e = 0; e < 4; e++) acc[i][j][e] += w.acc[i][j][e];
			}
		}
	}

	// store_to_shared writes the sums to a swizzled tile of COLS columns; (r, c) is the
	// warp's corner in it.
	template <int COLS> DEVICE_METHOD void store_to_shared(float *s, int r, int c) const {
		UNROLL for (int j = 0; j < 2 * FRAGS_N; j++) {
			float *to = s + swizzled_tile<COLS>(r + lane() / 4, c + 8 * j) + lane() % 4 * 2;
			UNROLL for (int i = 0; i < FRAGS_M; i++) {
				float2 top = {acc[i][j][0], acc[i][j][1]}, bottom = {acc[i][j][2], acc[i][j][3]};
				*(float2 *)(to + 16 * i * COLS) = top;
				*(float2 *)(to + (16 * i + 8) * COLS) = bottom;
			}
		}
	}
};

// Shape is the shape of a block's tile and pipeline: ROWS x COLS results, 16*FRAGS_M x
// 16*FRAGS_N of them per warp, steps of DEPTH inner indices, and STAGES stages of
// shared memory, one of which is multiplied while the others are filled.
template <int ROWS_, int COLS_, int FRAGS_M_, int FRAGS_N_, int DEPTH_, int STAGES_> struct Shape {
	enum {
		ROWS = ROWS_, COLS = COLS_, FRAGS_M = FRAGS_M_, FRAGS_N = FRAGS_N_, DEPTH = DEPTH_, STAGES = STAGES_,
		WARPS_N = COLS / (16 * FRAGS_N), TEAM = ROWS / (16 * FRAGS_M) * WARPS_N * WARP, // warps side by side; threads of the block
	};
};

// BlockTile is where a block's tile and its chunk of K (`piece`) begin; inner is the
// length of the chunk.
struct BlockTile {
	int r0, c0, piece, inner;
	i64 k0;
};

// The grid enumerates the chunks of K in its outer dimension and tiles row by row in
// its inner one.
template <class S> DEVICE BlockTile block_tile(const GemmArgs &a) {
	int tiles_n = ((int)a.n + S::COLS - 1) / S::COLS, tiles_m = ((int)a.m + S::ROWS - 1) / S::ROWS, tile = blockIdx.x % (tiles_n * tiles_m);
	int piece = blockIdx.x / (tiles_n * tiles_m);
	i64 k0 = piece * a.span;
	BlockTile p = {tile / tiles_n * S::ROWS, tile % tiles_n * S::COLS, piece, (int)(a.splits == 1 ? a.k : min64(a.k - k0, a.span)), k0};
	return p;
}

// add_column_sums adds the sums over one step's inner indices of 16 rows of the tile of
// A (in TN: 16 columns of A), as a product with a matrix of ones. They are the bias
// gradient of the layer whose weight gradient the block computes, of A's values as
// rounded, at the price of a few mma.
template <class A, int DEPTH> DEVICE void add_column_sums(float *sums, u32 a) {
	const u32 ones[2] = {0x3f803f80, 0x3f803f80}; // bf16 1.0
	UNROLL for (int k = 0; k < DEPTH / 16; k++) {
		u32 f[4];
		A::fragment(f, a + k * A::STEP_K);
		mma(sums, f, ones);
	}
}

// store_column_sums adds these sums to the result or, under split-K, stores those of
// one chunk behind the partial sums of all chunks. All eight columns of the product are
// equal; lanes of column 0 store.
DEVICE void store_column_sums(const GemmArgs &a, int piece, int r0, const float *sums) {
	UNROLL for (int i = 0; i < 2; i++) {
		int r = r0 + 8 * i + lane() / 4;
		if (lane() % 4 != 0 || r >= a.m) continue;
		if (a.splits == 1) at(a.sum_a, 0, r) += sums[2 * i];
		else a.part[a.splits * a.m * a.n + piece * a.m + r] = sums[2 * i];
	}
}

// gemm_tile is the kernel of one OP and shape. Without PIECES a block computes one
// chunk of K: all of K, or its share under split-K. With PIECES it walks through all
// chunks, adding each to `total`; this needs a second set of accumulators and so twice
// the registers. For a single chunk both give the same bits, since 0 + sum is sum.
template <int OP, class S, bool PIECES> DEVICE void gemm_tile(const GemmArgs &a) {
	typedef SmemTile<S::ROWS, S::DEPTH, S::TEAM, OP != TN> A;
	typedef SmemTile<S::COLS, S::DEPTH, S::TEAM, OP == NT> B;
	enum { STAGE = A::BYTES + B::BYTES };
	SHARED(float, shared);
	BlockTile p = block_tile<S>(a);
	u32 base = shared_address(shared);
	int wm = warp() / S::WARPS_N * 16 * S::FRAGS_M, wn = warp() % S::WARPS_N * 16 * S::FRAGS_N, steps = (p.inner + S::DEPTH - 1) / S::DEPTH;
	u32 at_a = A::as_a(base, wm), at_b = B::as_b(base + A::BYTES, wn);
	bool columns = OP == TN && a.sum_a.p && p.c0 == 0 && warp() < S::ROWS / 16;
	A from_a;
	B from_b;
	from_a.start(a.a, p.r0, p.k0);
	from_b.start(a.b, p.c0, p.k0);
	auto fetch = [&](int step) {
		u32 to = base + step % S::STAGES * STAGE;
		if (step < steps) {
			from_a.copy(to, a.a, (int)a.m - p.r0, p.inner - step * S::DEPTH);
			from_b.copy(to + A::BYTES, a.b, (int)a.n - p.c0, p.inner - step * S::DEPTH);
		}
		copy_commit();
	};
	UNROLL for (int i = 0; i < S::STAGES - 1; i++) fetch(i);
	WarpTile<S::FRAGS_M, S::FRAGS_N> sum, total;
	float sums[4] = {};
	sum.clear();
	if (PIECES) total.clear();
	ROLLED for (int step = 0; step < steps; step++) {
		int slot = step % S::STAGES * STAGE;
		// After the barrier this step's copies are visible to all threads, and all have
		// finished the previous step, whose stage the next fetch overwrites.
		copy_wait<S::STAGES - 2>();
		__syncthreads();
		fetch(step + S::STAGES - 1);
		if (p.inner % 8 != 0 && step == steps - 1) {
			A::zero_tail_k((char *)shared + slot, p.inner - step * S::DEPTH);
			B::zero_tail_k((char *)shared + slot + A::BYTES, p.inner - step * S::DEPTH);
			__syncthreads();
		}
		sum.template multiply<A, B, S::DEPTH>(at_a + slot, at_b + slot);
		if (columns) add_column_sums<A, S::DEPTH>(sums, A::as_a(base, 16 * warp()) + slot);
		if (PIECES && (step + 1) * S::DEPTH % (int)a.span == 0) {
			total.add(sum);
			sum.clear();
		}
	}
	if (PIECES) total.add(sum);
	copy_wait<0>();
	__syncthreads(); // all warps have read the last step: shared memory now takes the sums
	(PIECES ? total : sum).template store_to_shared<S::COLS>(shared, wm, wn);
	__syncthreads();
	if (columns) store_column_sums(a, p.piece, p.r0 + 16 * warp(), sums);
	epilogue_tile<S::ROWS, S::COLS, S::TEAM>(a, p.piece, p.r0, p.c0, [&](int r, int c) { return *(float4 *)(shared + swizzled_tile<S::COLS>(r, c)); });
}

// gemm_slim is for few rows and a long K, where a grid of tiles alone would leave most
// SMs idle. The four warps of a block compute the same 32 x 32 tile, each for its own
// chunk of K and with its own pipeline, synchronized within the warp only; then they
// continue with the next four chunks. After each round all threads add the warps' sums
// in the order of the chunks.
enum { SLIM_WARPS = 4, SLIM_TILE = 32, SLIM_DEPTH = 32, SLIM_STAGES = 4 };
template <int OP> DEVICE void gemm_slim(const GemmArgs &a) {
	typedef SmemTile<SLIM_TILE, SLIM_DEPTH, WARP, true> A;
	typedef SmemTile<SLIM_TILE, SLIM_DEPTH, WARP, OP == NT> B;
	enum { STAGE = A::BYTES + B::BYTES, OWN = SLIM_STAGES * STAGE, MINE = SLIM_TILE * SLIM_TILE / 4 / (SLIM_WARPS * WARP) };
	SHARED(float, shared);
	int tiles_n = ((int)a.n + SLIM_TILE - 1) / SLIM_TILE, r0 = blockIdx.x / tiles_n * SLIM_TILE, c0 = blockIdx.x % tiles_n * SLIM_TILE;
	u32 base = shared_address(shared) + warp() * OWN, at_a = A::as_a(base, 0), at_b = B::as_b(base + A::BYTES, 0);
	float4 total[MINE] = {};
	for (i64 first = 0; first < a.k; first += SLIM_WARPS * a.span) {
		i64 k0 = first + warp() * a.span;
		int inner = (int)min64(a.k - k0, a.span), steps = (inner + SLIM_DEPTH - 1) / SLIM_DEPTH; // chunks beyond K have no steps
		A from_a;
		B from_b;
		from_a.start(a.a, r0, k0);
		from_b.start(a.b, c0, k0);
		auto fetch = [&](int step) {
			u32 to = base + step % SLIM_STAGES * STAGE;
			if (step < steps) {
				from_a.copy(to, a.a, (int)a.m - r0, inner - step * SLIM_DEPTH);
				from_b.copy(to + A::BYTES, a.b, (int)a.n - c0, inner - step * SLIM_DEPTH);
			}
			copy_commit();
		};
		UNROLL for (int i = 0; i < SLIM_STAGES - 1; i++) fetch(i);
		WarpTile<SLIM_TILE / 16, SLIM_TILE / 16> sum;
		sum.clear();
		ROLLED for (int step = 0; step < steps; step++) {
			int slot = step % SLIM_STAGES * STAGE;
			copy_wait<SLIM_STAGES - 2>();
			__syncwarp();
			fetch(step + SLIM_STAGES - 1);
			if (inner % 8 != 0 && step == steps - 1) {
				A::zero_tail_k((char *)shared + warp() * OWN + slot, inner - step * SLIM_DEPTH);
				B::zero_tail_k((char *)shared + warp() * OWN + slot + A::BYTES, inner - step * SLIM_DEPTH);
				__syncwarp();
			}
			sum.template multiply<A, B, SLIM_DEPTH>(at_a + slot, at_b + slot);
		}
		copy_wait<0>();
		__syncwarp();
		sum.template store_to_shared<SLIM_TILE>(shared + warp() * OWN / 4, 0, 0);
		__syncthreads();
		UNROLL for (int w = 0; w < SLIM_WARPS; w++) {
			UNROLL for (int u = 0; u < MINE; u++) {
				int q = threadIdx.x + u * SLIM_WARPS * WARP;
				float4 v = *(float4 *)(shared + w * OWN / 4 + 4 * q);
				total[u].x += v.x, total[u].y += v.y, total[u].z += v.z, total[u].w += v.w;
			}
		}
		__syncthreads();
	}
	UNROLL for (int u = 0; u < MINE; u++) *(float4 *)(shared + 4 * (threadIdx.x + u * SLIM_WARPS * WARP)) = total[u];
	__syncthreads();
	epilogue_tile<SLIM_TILE, SLIM_TILE, SLIM_WARPS * WARP>(a, 0, r0, c0, [&](int r, int c) { return *(float4 *)(shared + swizzled_tile<SLIM_TILE>(r, c)); });
}

// Tile shapes for many rows, for few, and for gradients of weights (TN). None takes more
// than 99 KiB of shared memory, the limit for a block on the smallest supported GPUs. The
// last argument of KERNEL is the number of blocks per SM that the registers should allow:
// two for the large tiles, but one for gemm_pieces with its two sets of accumulators.
typedef Shape<128, 192, 4, 3, 32, 3> WideShape;
typedef Shape<64, 64, 2, 2, 64, 3> NarrowShape;
typedef Shape<96, 192, 3, 3, 32, 4> TnShape;

KERNEL(gemm_wide_nn, GemmArgs, WideShape::TEAM, 2) { gemm_tile<NN, WideShape, false>(a); }
KERNEL(gemm_wide_nt, GemmArgs, WideShape::TEAM, 2) { gemm_tile<NT, WideShape, false>(a); }
KERNEL(gemm_pieces_nn, GemmArgs, WideShape::TEAM, 1) { gemm_tile<NN, WideShape, true>(a); }
KERNEL(gemm_pieces_nt, GemmArgs, WideShape::TEAM, 1) { gemm_tile<NT, WideShape, true>(a); }
KERNEL(gemm_narrow_nn, GemmArgs, NarrowShape::TEAM, 4) { gemm_tile<NN, NarrowShape, true>(a); }
KERNEL(gemm_narrow_nt, GemmArgs, NarrowShape::TEAM, 4) { gemm_tile<NT, NarrowShape, true>(a); }
KERNEL(gemm_slim_nn, GemmArgs, SLIM_WARPS *WARP) { gemm_slim<NN>(a); }
KERNEL(gemm_slim_nt, GemmArgs, SLIM_WARPS *WARP) { gemm_slim<NT>(a); }
KERNEL(gemm_tn, GemmArgs, TnShape::TEAM, 2) { gemm_tile<TN, TnShape, false>(a); }
