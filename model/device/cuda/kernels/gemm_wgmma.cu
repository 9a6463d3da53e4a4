// gemm_wgmma.cu: products of bf16 by Hopper's own instructions (wgmma), dst = epilogue(A B). As for
// gemm_mma.cu factors are stored as bf16 in rows that begin at multiples of 16 bytes, and an element's sum is made
// of pieces of the inner dimension: each begins at zero and grows by 16 inner indices at a time, and pieces are
// added in order. So all tiles give the same bits.
//
// Idea: a warpgroup multiplies 64 rows by up to 192 columns straight from shared memory, with the sums in
// registers. Either both factors stream through shared memory by 64 inner indices, or, for up to 192 of
// them, 192 columns of B stay there while rows of A pass.
// Memory traffic: A is read once for every tile's width of columns; B once for every tile's height of rows, or,
// where it stays, once by each block; dst and what the epilogue takes once. Pieces of several blocks go through part,
// as in gemm.cu.
//
// Factors come by each thread's own asynchronous copies, of which a thread starts 4 while a warpgroup multiplies for
// 400 cycles: the tensor copy engine would save few instructions. It might save latency where rows are few.
#include "epilogue.cuh"
#include "wgmma.cuh"

enum { NN, NT, TN };
enum { DEEP = 64, STEP = 16 }; // inner indices of a slab, and of one instruction

// slabs is where the block's shared memory begins, as slabs want it.
DEVICE char *slabs() {
	SHARED(char, shared);
	return shared + (1024 - shared_address(shared) % 1024) % 1024;
}

// Feed copies a factor's ROWS rows of the product by 64 inner indices, with zeros
// where the matrix ends. TURNED: its lines run along the product's rows, not along the inner index.
template <int ROWS, int TEAM, bool TURNED> struct Feed {
	enum { PIECES = TURNED ? ROWS / 8 : 8, AT_ONCE = TEAM / PIECES, TIMES = 8 * ROWS / TEAM }; // 16-byte pieces of a line; lines at once
	static_assert(AT_ONCE * PIECES == TEAM && TIMES * TEAM == 8 * ROWS && AT_ONCE % 8 == 0, "a slab is shared out evenly");
	const u16 *from;
	i64 stride;
	int line, along, rows; // of this thread; rows of the product from the first on
	u32 place;

	DEVICE_METHOD void start(const Mat &m, int r0, int end, int thread) {
		int piece = thread % PIECES;
		line = thread / PIECES, along = 8 * piece, rows = end - r0, stride = m.stride;
		from = (const u16 *)m.p + (TURNED ? line * stride + r0 : (r0 + line) * stride) + along;
		place = piece / 8 * SLAB + swizzled(line, piece % 8);
	}

	// copy asks for inner indices from k on, of which `inner` are left.
	DEVICE_METHOD void copy(u32 to, i64 k, int inner) {
		int lines = (TURNED ? inner : rows) - line, left = (TURNED ? rows : inner) - along;
		int bytes = left >= 8 ? 16 : left > 0 ? 2 * left : 0;
		const u16 *at = from + (TURNED ? k * stride : k);
		UNROLL for (int i = 0; i < TIMES; i++) copy16(to + place + i * AT_ONCE * ROW, at + i * AT_ONCE * stride, i * AT_ONCE < lines ? bytes : 0);
	}
};

// multiply asks for the product of one slab of each factor.
template <int OP, int BN> DEVICE void multiply(float (*sums)[4], u32 a, u32 b) {
	UNROLL for (int k = 0; k < DEEP; k += STEP)
		wgmma<BN, OP == TN, OP != NT>(sums, descriptor<OP == TN>(a + k * (OP == TN ? ROW : 2)), descriptor<OP != NT>(b + k * (OP == NT ? 2 : ROW)));
}

// clear begins sums at zero.
template <int BN> DEVICE void clear(float (*sums)[4]) {
	UNROLL for (int j = 0; j < BN / 8; j++) {
		UNROLL for (int e = 0; e < 4; e++) sums[j][e] = 0;
	}
}

// leave is the epilogue of a warpgroup's 64 rows: each warp finishes its 16, eight at a
// time, by way of its part of `shared`. There, four columns lie at place q ^ row%8, so that
// neither writing nor reading meets in a bank.
enum { LINES = 8 };
template <int BN> DEVICE void leave(const GemmArgs &a, int piece, int r0, int c0, const float (*sums)[4], char *shared) {
	enum { MIX = BN % 32 == 0 ? 7 : 3 };
	int w = threadIdx.x % GROUP / WARP, g = lane() / 4, t = lane() % 4;
	float *mine = (float *)shared + w * LINES * BN;
	char *to[4]; // where this lane's numbers go in a row, for each of four neighbouring j
	UNROLL for (int j = 0; j < 4; j++) to[j] = (char *)(mine + g * BN) + (((2 * j + t / 2) ^ (g & MIX)) * 16 | t % 2 * 8);
	auto read = [&](int r, int c) { return *(float4 *)(mine + r * BN + ((c / 4) ^ (r & MIX)) * 4); };
	UNROLL for (int h = 0; h < 2; h++) {
		UNROLL for (int j = 0; j < BN / 8; j++) {
			float2 v = {sums[j][2 * h], sums[j][2 * h + 1]};
			*(float2 *)(to[j % 4] + j / 4 * 128) = v;
		}
		__syncwarp();
		finish_tile<LINES, BN, WARP>(a, piece, r0 + 16 * w + LINES * h, c0, read, lane());
		__syncwarp();
	}
}

// Ones are eight columns of ones by 64 inner indices: a product with them adds up
// the columns of A, for a bias gradient.
DEVICE void fill_ones(char *ones) {
	for (int i = threadIdx.x; i < 1024 / 4; i += blockDim.x) ((u32 *)ones)[i] = 0x3f803f80;
}

DEVICE void add_columns(float (*sums)[4], u32 a, u32 ones) {
	UNROLL for (int k = 0; k < DEEP; k += STEP) wgmma<8, 1, 0>(sums, descriptor<true>(a + k * ROW), descriptor<false>(ones));
}

// leave_columns leaves those sums: to the result, or of one piece of several to part.
DEVICE void leave_columns(const GemmArgs &a, int piece, int r0, const float *sums) {
	UNROLL for (int i = 0; i < 2; i++) {
		int r = r0 + warp() % (GROUP / WARP) * 16 + 8 * i + lane() / 4;
		if (lane() % 4 != 0 || r >= a.m) continue;
		if (a.splits == 1) at(a.sum_a, 0, r) += sums[2 * i];
		else a.part[a.splits * a.m * a.n + piece * a.m + r] = sums[2 * i];
	}
}

// Streams are blocks that compute a tile of one piece: each of GROUPS warpgroups 64 rows
// and all of BN columns. Slabs of both factors pass through STAGES places: while one is
// multiplied, those behind it arrive.
template <int OP, int GROUPS, int BN_, int STAGES_> struct Stream {
	enum { BM = 64 * GROUPS, BN = BN_, TEAM = GROUPS * GROUP, STAGES = STAGES_, BYTES_A = BM * ROW, BYTES = BYTES_A + BN * ROW, AHEAD = STAGES - 2 };
	int r0, c0, piece, inner, steps;
	i64 k0;
	u32 base, ones;
	Feed<BM, TEAM, OP == TN> from_a;
	Feed<BN, TEAM, OP != NT> from_b;

	DEVICE_METHOD void start(const GemmArgs &a, char *block) {
		int wide = ((int)a.n + BN - 1) / BN, high = ((int)a.m + BM - 1) / BM, tile = blockIdx.x % (wide * high);
		piece = blockIdx.x / (wide * high), r0 = tile / wide * BM, c0 = tile % wide * BN;
		k0 = piece * a.span, inner = (int)least(a.k - k0, a.span), steps = (inner + DEEP - 1) / DEEP;
		base = shared_address(block), ones = base + STAGES * BYTES;
		from_a.start(a.a, r0, (int)a.m, threadIdx.x);
		from_b.start(a.b, c0, (int)a.n, threadIdx.x);
		UNROLL for (int step = 0; step < AHEAD; step++) fetch(step);
	}

	DEVICE_METHOD void fetch(int step) {
		u32 to = base + step % STAGES * BYTES;
		if (step < steps) {
			from_a.copy(to, k0 + (i64)step * DEEP, inner - step * DEEP);
			from_b.copy(to + BYTES_A, k0 + (i64)step * DEEP, inner - step * DEEP);
		}
		copy_commit();
	}

	// run multiplies all steps. COLUMNS, which adds up A's, is another loop: a branch among
	// products would make each step wait for its own.
	template <bool COLUMNS> DEVICE_METHOD void run(float (*sums)[4], float (*columns)[4]) {
		ROLLED for (int step = 0; step < steps; step++) {
			copy_wait<AHEAD - 1>();
			proxy_fence();
			__syncthreads(); // the step is there, and the last but one has been multiplied
			u32 at = base + step % STAGES * BYTES, mine = at + threadIdx.x / GROUP * SLAB;
			wgmma_fence();
			multiply<OP, BN>(sums, mine, at + BYTES_A);
			if (COLUMNS) add_columns(columns, mine, ones);
			wgmma_commit();
			fetch(step + AHEAD);
			wgmma_wait<1>();
		}
		wgmma_wait<0>();
		copy_wait<0>();
	}
};

template <int OP, int GROUPS, int BN, int STAGES> DEVICE void stream(const GemmArgs &a) {
	typedef Stream<OP, GROUPS, BN, STAGES> S;
	char *block = slabs();
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
	leave<BN>(a, s.piece, s.r0 + 64 * group, s.c0, sums, block + group * GROUP / WARP * LINES * BN * 4);
	if (adds) leave_columns(a, s.piece, s.r0 + 64 * group, columns[0]);
}

// A panel is a block that keeps 192 columns of b, all their inner indices, while each
// of its warpgroups by itself takes 64 rows of a after the other: when one multiplies,
// others finish. A warpgroup has two places for rows: the next ones arrive in one,
// and the other serves its epilogue.
enum { PANEL_COLS = 192, PANEL_GROUPS = 3, PANEL_DEEP = 3 };
template <int OP> DEVICE void panel(const GemmArgs &a) {
	enum { TEAM = PANEL_GROUPS * GROUP, ROWS_BYTES = PANEL_DEEP * SLAB, COLS_BYTES = PANEL_COLS * ROW };
	int wide = ((int)a.n + PANEL_COLS - 1) / PANEL_COLS, high = ((int)a.m + 63) / 64, c0 = blockIdx.x % wide * PANEL_COLS;
	int group = warpgroup(), tile = blockIdx.x / wide * PANEL_GROUPS + group, tiles = gridDim.x / wide * PANEL_GROUPS;
	char *block = slabs(), *rows = block + PANEL_DEEP * COLS_BYTES + 2 * group * ROWS_BYTES;
	u32 at_b = shared_address(block), at_a = shared_address(rows);
	auto fetch = [&](int tile, int place) {
		if (tile < high) {
			Feed<64, GROUP, false> from;
			from.start(a.a, tile * 64, (int)a.m, threadIdx.x % GROUP);
			UNROLL for (int s = 0; s < PANEL_DEEP; s++) from.copy(at_a + place * ROWS_BYTES + s * SLAB, s * DEEP, (int)a.k - s * DEEP);
		}
		copy_commit();
	};
	Feed<PANEL_COLS, TEAM, OP != NT> from;
	from.start(a.b, c0, (int)a.n, threadIdx.x);
	UNROLL for (int s = 0; s < PANEL_DEEP; s++) from.copy(at_b + s * COLS_BYTES, s * DEEP, (int)a.k - s * DEEP);
	fetch(tile, 0);
	copy_wait<0>();
	proxy_fence();
	__syncthreads();
	ROLLED for (int place = 0; tile < high; tile += tiles, place ^= 1) {
		float sums[PANEL_COLS / 8][4];
		clear<PANEL_COLS>(sums);
		wgmma_fence();
		UNROLL for (int s = 0; s < PANEL_DEEP; s++) multiply<OP, PANEL_COLS>(sums, at_a + place * ROWS_BYTES + s * SLAB, at_b + s * COLS_BYTES);
		wgmma_commit();
		fetch(tile + tiles, place ^ 1);
		wgmma_wait<0>();
		group_barrier(group); // all have multiplied: the rows' place is free
		leave<PANEL_COLS>(a, 0, tile * 64, c0, sums, rows + place * ROWS_BYTES);
		copy_wait<0>();
		proxy_fence();
		group_barrier(group); // the next rows are there, and the epilogue's place is free
	}
}

KERNEL(wgmma_panel_nn, GemmArgs, 384, 1) { panel<NN>(a); }
KERNEL(wgmma_panel_nt, GemmArgs, 384, 1) { panel<NT>(a); }
KERNEL(wgmma_wide_nn, GemmArgs, 384, 1) { stream<NN, 3, 192, 4>(a); }
KERNEL(wgmma_wide_nt, GemmArgs, 384, 1) { stream<NT, 3, 192, 4>(a); }
KERNEL(wgmma_wide_tn, GemmArgs, 384, 1) { stream<TN, 3, 192, 4>(a); }
KERNEL(wgmma_small_nn, GemmArgs, 128, 2) { stream<NN, 1, 64, 6>(a); }
KERNEL(wgmma_small_nt, GemmArgs, 128, 2) { stream<NT, 1, 64, 6>(a); }
KERNEL(wgmma_small_tn, GemmArgs, 128, 2) { stream<TN, 1, 64, 6>(a); }
KERNEL(wgmma_slim_nt, GemmArgs, 128, 2) { stream<NT, 1, 16, 8>(a); }
