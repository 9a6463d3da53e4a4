// gemm_wgmma.cu: GEMM in bf16 by Hopper's warpgroup instructions (wgmma), dst =
// epilogue(A B).
//
// As in gemm_mma.cu, A and B are bf16 with rows that begin at multiples of 16 bytes,
// and K is divided into chunks: a chunk's sum starts at zero and grows by 16 inner
// indices at a time, and chunks are added in order. All tiles here produce the same
// bits; they may differ from those of mma.sync.
//
// A warpgroup (four warps, one per tensor core of an SM) multiplies 64 rows by up to
// 192 columns, reading both operands from shared memory, with the sums in registers.
// There are two schemes. The pipelined kernels stream both operands through shared
// memory in slabs of 64 inner indices. The panel kernels, for K up to 192, keep 192
// columns of B in shared memory while rows of A pass.
//
// Memory traffic: A is read once per tile width of columns; B once per tile height of
// rows, or once per block where it stays; dst and the operands of the epilogue once.
// Under split-K partial sums go through part, as in gemm.cu.
//
// Operands arrive by cp.async, issued by every thread, instead of by the tensor memory
// accelerator (TMA). In the widest kernel a thread issues 8 copies per step, while its
// warpgroup multiplies for about 400 cycles, so TMA would save few instructions. It
// might reduce latency where rows are few.
#include "epilogue.cuh"
#include "wgmma.cuh"

// The transposed operands, in the order of device.Op.
enum { NN, NT, TN };
// Inner indices of a slab, and of one wgmma instruction.
enum { SLAB_K = 64, WGMMA_K = 16 };

// slab_memory returns the start of the block's dynamic shared memory, rounded up to
// 1024 bytes: the 128-byte swizzle is a function of address bits, so slabs must be
// aligned to its period. The host allocates 1024 bytes more for this.
DEVICE char *slab_memory() {
	SHARED(char, shared);
	return shared + (1024 - shared_address(shared) % 1024) % 1024;
}

// SlabLoader copies slabs of an operand, ROWS rows of the result by 64 inner indices,
// with zeros where the matrix ends. A line is 128 contiguous bytes of the matrix: along
// the inner index or, if MN_MAJOR, along the rows of the result. A thread always copies
// the same 16-byte piece of every LINES_AT_ONCE-th line. LINES_AT_ONCE is a multiple of
// 8, so that the swizzle, which depends on the line modulo 8, is the same for all its
// copies.
template <int ROWS, int TEAM, bool MN_MAJOR> struct SlabLoader {
	enum { PIECES = MN_MAJOR ? ROWS / 8 : 8, LINES_AT_ONCE = TEAM / PIECES, COPIES = 8 * ROWS / TEAM };
	static_assert(LINES_AT_ONCE * PIECES == TEAM && COPIES * TEAM == 8 * ROWS && LINES_AT_ONCE % 8 == 0, "a slab is shared out evenly");
	const u16 *from;
	i64 stride;
	int line, along, rows; // the thread's first line and element of it; rows of the matrix from the first on
	u32 offset; // of the thread's first piece in the slabs

	// start prepares the copies of rows r0 to `end` (exclusive) of the result, by
	// thread `thread` of the team.
	DEVICE_METHOD void start(const Mat &m, int r0, int end, int thread) {
		int piece = thread % PIECES;
		line = thread / PIECES, along = 8 * piece, rows = end - r0, stride = m.stride;
		from = (const u16 *)m.p + (MN_MAJOR ? line * stride + r0 : (r0 + line) * stride) + along;
		offset = piece / 8 * SLAB + swizzled(line, piece % 8);
	}

	// copy starts the copies of the slab that begins at inner index k, of which `inner`
	// indices are left. A vector that straddles the end is copied in part and padded
	// with zeros by cp.async itself.
	DEVICE_METHOD void copy(u32 to, i64 k, int inner) {
		int lines = (MN_MAJOR ? inner : rows) - line, left = (MN_MAJOR ? rows : inner) - along;
		int bytes = left >= 8 ? 16 : left > 0 ? 2 * left : 0;
		const u16 *at = from + (MN_MAJOR ? k * stride : k);
		UNROLL for (int i = 0; i < COPIES; i++) copy16(to + offset + i * LINES_AT_ONCE * ROW, at + i * LINES_AT_ONCE * stride, i * LINES_AT_ONCE < lines ? bytes : 0);
	}
};

// multiply issues the wgmma instructions of one slab of each operand. Within a slab, 16
// inner indices are 32 bytes of a K-major row, or 16 rows of 128 bytes of an MN-major
// slab.
template <int OP, int BN> DEVICE void multiply(float (*sums)[4], u32 a, u32 b) {
	UNROLL for (int k = 0; k < SLAB_K; k += WGMMA_K)
		wgmma<BN, OP == TN, OP != NT>(sums, descriptor<OP == TN>(a + k * (OP == TN ? ROW : 2)), descriptor<OP != NT>(b + k * (OP == NT ? 2 : ROW)));
}

// clear zeroes the accumulators.
template <int BN> DEVICE void clear(float (*sums)[4]) {
	UNROLL for (int j = 0; j < BN / 8; j++) {
		UNROLL for (int e = 0; e < 4; e++) sums[j][e] = 0;
	}
}

// warp_epilogue applies the epilogue to a warpgroup's 64 rows. Each warp finishes its
// own 16 rows, eight at a time (h), through its own part of `shared`, so it
// synchronizes with no other warp. Quad q of row r is stored at q ^ r%8 (of 16 columns:
// q ^ r%4): the eight rows that a warp writes at once then lie in different banks, and
// so do the quads that it reads along a row.
enum { EPILOGUE_ROWS = 8 };
template <int BN> DEVICE void warp_epilogue(const GemmArgs &a, int piece, int r0, int c0, const float (*sums)[4], char *shared) {
	enum { SWIZZLE = BN % 32 == 0 ? 7 : 3 };
	int w = threadIdx.x % GROUP / WARP, g = lane() / 4, t = lane() % 4;
	float *mine = (float *)shared + w * EPILOGUE_ROWS * BN;
	char *to[4]; // where this lane's sums go in its row, for j%4 = 0 to 3
	UNROLL for (int j = 0; j < 4; j++) to[j] = (char *)(mine + g * BN) + (((2 * j + t / 2) ^ (g & SWIZZLE)) * 16 | t % 2 * 8);
	auto read = [&](int r, int c) { return *(float4 *)(mine + r * BN + ((c / 4) ^ (r & SWIZZLE)) * 4); };
	UNROLL for (int h = 0; h < 2; h++) {
		UNROLL for (int j = 0; j < BN / 8; j++) {
			float2 v = {sums[j][2 * h], sums[j][2 * h + 1]};
			*(float2 *)(to[j % 4] + j / 4 * 128) = v;
		}
		__syncwarp();
		epilogue_tile<EPILOGUE_ROWS, BN, WARP>(a, piece, r0 + 16 * w + EPILOGUE_ROWS * h, c0, read, lane());
		__syncwarp();
	}
}

// fill_ones fills a matrix of eight columns by 64 inner indices with bf16 ones. A
// product with it sums the columns of A, for a bias gradient. All elements are equal,
// so it needs no swizzle.
DEVICE void fill_ones(char *ones) {
	for (int i = threadIdx.x; i < 1024 / 4; i += blockDim.x) ((u32 *)ones)[i] = 0x3f803f80;
}

// add_column_sums issues the products of one slab of A with ones.
DEVICE void add_column_sums(float (*sums)[4], u32 a, u32 ones) {
	UNROLL for (int k = 0; k < SLAB_K; k += WGMMA_K) wgmma<8, 1, 0>(sums, descriptor<true>(a + k * ROW), descriptor<false>(ones));
}

// store_column_sums adds these sums to the result or, under split-K, stores those of
// one chunk behind the partial sums of all chunks.
DEVICE void store_column_sums(const GemmArgs &a, int piece, int r0, const float *sums) {
	UNROLL for (int i = 0; i < 2; i++) {
		int r = r0 + warp() % (GROUP / WARP) * 16 + 8 * i + lane() / 4;
		if (lane() % 4 != 0 || r >= a.m) continue;
		if (a.splits == 1) at(a.sum_a, 0, r) += sums[2 * i];
		else a.part[a.splits * a.m * a.n + piece * a.m + r] = sums[2 * i];
	}
}

// Pipeline is a block that computes a tile for one chunk of K: 64 rows for each of
// GROUPS warpgroups, and BN columns that all of them share. Slabs of both operands pass
// through STAGES stages.
//
// While one stage is being multiplied, the previous one may still be in use, since
// wgmma is asynchronous and warpgroups do not run in step. Hence only STAGES - 2 stages
// (IN_FLIGHT) may be filling.
template <int OP, int GROUPS, int BN_, int STAGES_> struct Pipeline {
	enum { BM = 64 * GROUPS, BN = BN_, TEAM = GROUPS * GROUP, STAGES = STAGES_, BYTES_A = BM * ROW, BYTES = BYTES_A + BN * ROW, IN_FLIGHT = STAGES - 2 };
	int r0, c0, piece, inner, steps;
	i64 k0;
	u32 base, ones; // shared addresses of the first stage and of the matrix of ones
	SlabLoader<BM, TEAM, OP == TN> from_a;
	SlabLoader<BN, TEAM, OP != NT> from_b;

	// start finds the block's tile and starts the first copies. The grid enumerates the
	// chunks of K in its outer dimension and tiles row by row in its inner one.
	DEVICE_METHOD void start(const GemmArgs &a, char *block) {
		int tiles_n = ((int)a.n + BN - 1) / BN, tiles_m = ((int)a.m + BM - 1) / BM, tile = blockIdx.x % (tiles_n * tiles_m);
		piece = blockIdx.x / (tiles_n * tiles_m), r0 = tile / tiles_n * BM, c0 = tile % tiles_n * BN;
		k0 = piece * a.span, inner = (int)min64(a.k - k0, a.span), steps = (inner + SLAB_K - 1) / SLAB_K;
		base = shared_address(block), ones = base + STAGES * BYTES;
		from_a.start(a.a, r0, (int)a.m, threadIdx.x);
		from_b.start(a.b, c0, (int)a.n, threadIdx.x);
		UNROLL for (int step = 0; step < IN_FLIGHT; step++) fetch(step);
	}

	// fetch starts the copies of a step. It closes a group even where there is no such
	// step, so that copy_wait can count groups.
	DEVICE_METHOD void fetch(int step) {
		u32 to = base + step % STAGES * BYTES;
		if (step < steps) {
			from_a.copy(to, k0 + (i64)step * SLAB_K, inner - step * SLAB_K);
			from_b.copy(to + BYTES_A, k0 + (i64)step * SLAB_K, inner - step * SLAB_K);
		}
		copy_commit();
	}

	// run multiplies all steps. The variant that also sums A's columns is a loop of its
	// own: with a branch between wgmma instructions the compiler would serialize them,
	// waiting for each before the next.
	template <bool COLUMNS> DEVICE_METHOD void run(float (*sums)[4], float (*columns)[4]) {
		ROLLED for (int step = 0; step < steps; step++) {
			copy_wait<IN_FLIGHT - 1>();
			proxy_fence();
			// All threads' copies of this step are visible to the tensor cores, and all
			// warpgroups have finished the step before the last, whose stage is filled
			// next.
			__syncthreads();
			u32 at = base + step % STAGES * BYTES, mine = at + threadIdx.x / GROUP * SLAB;
			wgmma_fence();
			multiply<OP, BN>(sums, mine, at + BYTES_A);
			if (COLUMNS) add_column_sums(columns, mine, ones);
			wgmma_commit();
			fetch(step + IN_FLIGHT);
			wgmma_wait<1>();
		}
		wgmma_wait<0>();
		copy_wait<0>();
	}
};

// pipelined is the kernel of a Pipeline. Its epilogue reuses the stages' shared memory.
template <int OP, int GROUPS, int BN, int STAGES> DEVICE void pipelined(const GemmArgs &a) {
	typedef Pipeline<OP, GROUPS, BN, STAGES> S;
	char *block = slab_memory();
	int group = threadIdx.x / GROUP;
	float sums[BN / 8][4], columns[1][4];
	S s;
	s.start(a, block);
	bool adds = OP == TN && a.sum_a.p && s.c0 == 0;
	clear<BN>(sums);
	clear<8>(columns);
	if (adds) {
		fill_ones(block + S::STAGES * S::BYTES);
		s.template run<OP == TN>(sums, columns);
	} else {
		s.template run<false>(sums, columns);
	}
	__syncthreads();
	warp_epilogue<BN>(a, s.piece, s.r0 + 64 * group, s.c0, sums, block + group * GROUP / WARP * EPILOGUE_ROWS * BN * 4);
	if (adds) store_column_sums(a, s.piece, s.r0 + 64 * group, columns[0]);
}

// panel is the kernel for K up to 192. A block keeps 192 columns of B, with all their
// inner indices, in shared memory. Each of its three warpgroups walks through tiles of
// 64 rows of A independently of the others, so that one multiplies while another runs
// its epilogue. A warpgroup has two buffers for rows of A: the next tile arrives in one
// while the other, once multiplied, serves as scratch for the epilogue. The grid has
// about one block per SM, so B is read once by each.
enum { PANEL_COLS = 192, PANEL_GROUPS = 3, PANEL_SLABS = 3 };
template <int OP> DEVICE void panel(const GemmArgs &a) {
	enum { TEAM = PANEL_GROUPS * GROUP, ROWS_BYTES = PANEL_SLABS * SLAB, COLS_BYTES = PANEL_COLS * ROW };
	int tiles_n = ((int)a.n + PANEL_COLS - 1) / PANEL_COLS, tiles_m = ((int)a.m + 63) / 64, c0 = blockIdx.x % tiles_n * PANEL_COLS;
	int group = warpgroup(), tile = blockIdx.x / tiles_n * PANEL_GROUPS + group, tiles = gridDim.x / tiles_n * PANEL_GROUPS;
	char *block = slab_memory(), *rows = block + PANEL_SLABS * COLS_BYTES + 2 * group * ROWS_BYTES;
	u32 at_b = shared_address(block), at_a = shared_address(rows);
	auto fetch = [&](int tile, int buffer) {
		if (tile < tiles_m) {
			SlabLoader<64, GROUP, false> from;
			from.start(a.a, tile * 64, (int)a.m, threadIdx.x % GROUP);
			UNROLL for (int s = 0; s < PANEL_SLABS; s++) from.copy(at_a + buffer * ROWS_BYTES + s * SLAB, s * SLAB_K, (int)a.k - s * SLAB_K);
		}
		copy_commit();
	};
	SlabLoader<PANEL_COLS, TEAM, OP != NT> from;
	from.start(a.b, c0, (int)a.n, threadIdx.x);
	UNROLL for (int s = 0; s < PANEL_SLABS; s++) from.copy(at_b + s * COLS_BYTES, s * SLAB_K, (int)a.k - s * SLAB_K);
	fetch(tile, 0);
	copy_wait<0>();
	proxy_fence();
	__syncthreads();
	ROLLED for (int buffer = 0; tile < tiles_m; tile += tiles, buffer ^= 1) {
		float sums[PANEL_COLS / 8][4];
		clear<PANEL_COLS>(sums);
		wgmma_fence();
		UNROLL for (int s = 0; s < PANEL_SLABS; s++) multiply<OP, PANEL_COLS>(sums, at_a + buffer * ROWS_BYTES + s * SLAB, at_b + s * COLS_BYTES);
		wgmma_commit();
		fetch(tile + tiles, buffer ^ 1);
		wgmma_wait<0>();
		group_barrier(group); // all four warps have multiplied: the rows' buffer is free
		warp_epilogue<PANEL_COLS>(a, 0, tile * 64, c0, sums, rows + buffer * ROWS_BYTES);
		copy_wait<0>();
		proxy_fence();
		group_barrier(group); // the next rows have arrived, and the epilogue's buffer is free
	}
}

// The template arguments are the warpgroups, the columns and the stages. With 384
// threads a block may use 168 registers per thread, of which the sums of 192 columns
// take 96; it fills an SM. The small tiles run two blocks per SM. wgmma_slim is for few
// rows, where narrow tiles are what gives every SM a block.
KERNEL(wgmma_panel_nn, GemmArgs, 384, 1) { panel<NN>(a); }
KERNEL(wgmma_panel_nt, GemmArgs, 384, 1) { panel<NT>(a); }
KERNEL(wgmma_wide_nn, GemmArgs, 384, 1) { pipelined<NN, 3, 192, 4>(a); }
KERNEL(wgmma_wide_nt, GemmArgs, 384, 1) { pipelined<NT, 3, 192, 4>(a); }
KERNEL(wgmma_wide_tn, GemmArgs, 384, 1) { pipelined<TN, 3, 192, 4>(a); }
KERNEL(wgmma_small_nn, GemmArgs, 128, 2) { pipelined<NN, 1, 64, 6>(a); }
KERNEL(wgmma_small_nt, GemmArgs, 128, 2) { pipelined<NT, 1, 64, 6>(a); }
KERNEL(wgmma_small_tn, GemmArgs, 128, 2) { pipelined<TN, 1, 64, 6>(a); }
KERNEL(wgmma_slim_nt, GemmArgs, 128, 2) { pipelined<NT, 1, 16, 8>(a); }
