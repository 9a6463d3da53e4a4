// flash.cuh: building blocks of attention on tensor cores ("flash attention"), for
// heads of 64 bf16 columns.
//
// A warp holds rows of one operand of a product in registers, in tiles of 16; the rows
// of the other operand are in shared memory, up to CHUNK of them, shared by the block's
// warps.
//
// Shared-memory layout. A row consists of eight 16-byte pieces; piece p of row r is
// stored at place p ^ (5r mod 8). There are two access patterns: ldmatrix reads one
// piece of eight successive rows, and dot_rows reads four pieces of two rows per
// quarter-warp. Neither has bank conflicts with this swizzle.
//
// Order along the columns. A product that sums over the head's columns may visit them
// in any order that is the same for both operands. The order here makes a lane's share
// of a row 16 contiguous bytes: in steps 2i and 2i+1, lane 4g+t supplies columns 32i+8t
// to 32i+8t+7 of row g. Both operands can then be loaded by 16 bytes at a time, without
// ldmatrix.
#ifndef FLASH_CUH
#define FLASH_CUH
#include "async.cuh"
#include "heads.cuh"
#include "mma.cuh"

enum {
	HEAD = 64,                     // columns of a head
	STEPS = HEAD / 16,             // k steps of a product along the columns
	PIECES = HEAD / 8,             // 16-byte pieces of a row
	BLOCK_WARPS = 4,               // warps of a block
	CHUNK = 272,                   // rows in shared memory: the 257 tokens of an image, rounded up to 16s
	BLOCK_ROWS = 32 * BLOCK_WARPS, // rows that a block's warps have in registers
};

// TO_BASE_2 scales scores by 1/sqrt(64) and converts them to base 2, so that exp
// becomes one instruction, ex2.
#define LOG2E 1.44269504089f
#define TO_BASE_2 (LOG2E / 8)

// first_of_warp returns the first of the warp's 32 rows. A sequence rarely fills the
// last rows of BLOCK_ROWS, and the warp that gets the remainder has less work. Rotating
// the assignment by the block index spreads those warps over the four schedulers of an
// SM, each of which serves a fixed warp index.
DEVICE int first_of_warp() { return 32 * ((warp() + blockIdx.x) % BLOCK_WARPS); }

// Strip is one head's columns of the rows of one sequence in a bf16 matrix.
struct Strip {
	u16 *p;
	int pitch, rows; // pitch: elements from a row to the next
	bool vec;        // rows may be read 16 bytes at a time
};

// strip_of returns the strip of m for head h, whose first row is `first`.
DEVICE Strip strip_of(const Mat &m, i64 first, const Head &h, const AttentionArgs &a, i64 rows) {
	Strip s = {(u16 *)m.p + first * m.stride + h.col, (int)(h.step * m.stride), (int)rows, a.vec != 0};
	return s;
}

// eight returns elements c to c+7 of row r.
DEVICE uint4 eight(const Strip &s, int r, int c) {
	const u16 *p = s.p + (i64)r * s.pitch + c;
	if (s.vec) return *(const uint4 *)p;
	uint4 v = {p[0] | (u32)p[1] << 16, p[2] | (u32)p[3] << 16, p[4] | (u32)p[5] << 16, p[6] | (u32)p[7] << 16};
	return v;
}

// seen_by returns the number of keys that a query sees. Queries beyond the last one,
// which fill up a tile, see as many as the last.
DEVICE int seen_by(const AttentionArgs &a, int query) {
	int len = (int)a.len, queries = (int)a.queries, block = (int)a.block;
	return block == 0 ? len : min32(len, ((min32(query, queries - 1) + len - queries) / block + 1) * block);
}

// chunk_rows returns the rows of a chunk, rounded up to 16, when `left` rows of the
// sequence remain.
DEVICE int chunk_rows(int left) { return (min32(left, CHUNK) + 15) / 16 * 16; }

// stats_rows returns the number of queries for which shared memory holds statistics,
// rounded up to 16.
DEVICE int stats_rows(const AttentionArgs &a) { return ((int)a.queries + 15) / 16 * 16; }

// swizzled_piece returns the index, in uint4, of piece p of row r in shared memory.
DEVICE int swizzled_piece(int r, int p) { return r * PIECES + (p ^ (r * 5 & 7)); }

// stage starts the copies of rows [r0, r0+n) of s to shared memory, with zeros beyond
// the strip. n is a multiple of 16. Unaligned rows are copied through registers instead
// of asynchronously. Each thread's rows are 16 apart (128 threads, 8 pieces a row), so
// the swizzle is the same for all of them.
DEVICE void stage(uint4 *to, const Strip &s, int r0, int n) {
	int r = threadIdx.x / PIECES, p = threadIdx.x % PIECES, at = swizzled_piece(r, p);
	for (; r < n; r += BLOCK_WARPS * WARP / PIECES, at += BLOCK_WARPS * WARP) {
		bool valid = r0 + r < s.rows;
		int from = valid ? r0 + r : s.rows - 1;
		uint4 zeros = {0, 0, 0, 0};
		if (s.vec) copy16(shared_address(to + at), s.p + (i64)from * s.pitch + 8 * p, valid ? 16 : 0);
		else to[at] = valid ? eight(s, from, 8 * p) : zeros;
	}
}

// row_of and col_of return which element of the scores a lane's register holds: in tile
// m of the rows from r0 on, the lane's row r (0 or 1); and in the n-th group of eight
// columns from t on, element e.
DEVICE int row_of(int r0, int m, int r) { return r0 + 16 * m + 8 * r + lane() / 4; }
DEVICE int col_of(int t, int n, int e) { return t + 8 * n + lane() % 4 * 2 + e % 2; }

// RowTiles is M tiles of 16 rows in registers, as left operands of products along the
// columns.
template <int M> struct RowTiles {
	u32 f[M][STEPS][4];

	// load reads the rows from r0 on. Missing rows read the last row and are then
	// replaced by zeros word by word. Selecting each word separately lets the compiler
	// put it straight into the register next to the words of the other row, where mma
	// expects it, instead of moving it there before every product.
	DEVICE_METHOD void load(const Strip &s, int r0) {
		UNROLL for (int m = 0; m < M; m++) {
			UNROLL for (int r = 0; r < 2; r++) {
				int row = row_of(r0, m, r);
				bool valid = row < s.rows;
				UNROLL for (int i = 0; i < STEPS; i += 2) {
					uint4 v = eight(s, valid ? row : s.rows - 1, 16 * i + lane() % 4 * 8);
					f[m][i][r] = valid ? v.x : 0, f[m][i][r + 2] = valid ? v.y : 0;
					f[m][i + 1][r] = valid ? v.z : 0, f[m][i + 1][r + 2] = valid ? v.w : 0;
				}
			}
		}
	}
};

// RowSums is the accumulators of 16 M rows by the head's 64 columns, Scores those of 16
// M rows by 8 N rows in shared memory.
template <int M> struct RowSums {
	float v[M][HEAD / 8][4];
};
template <int M, int N> struct Scores {
	float v[M][N][4];

	// left_fragment rounds scores 16i to 16i+15 of tile m to bf16, as the left operand
	// of a product along the keys. Accumulators and left operands have the same layout
	// (mma.cuh), so this needs no exchange.
	DEVICE_METHOD void left_fragment(u32 *a, int m, int i) const {
		UNROLL for (int e = 0; e < 4; e++) a[e] = pack_bf16(v[m][2 * i + e / 2][e % 2 * 2], v[m][2 * i + e / 2][e % 2 * 2 + 1]);
	}
};

// dot_rows computes the dot products of the rows in registers with the 8 N rows of
// shared memory from t on. A lane reads two pieces, which hold its columns of all four
// steps.
template <int M, int N> DEVICE void dot_rows(Scores<M, N> &s, const RowTiles<M> &rows, const uint4 *chunk, int t) {
	int at = t * PIECES + swizzled_piece(lane() / 4, lane() % 4);
	UNROLL for (int n = 0; n < N; n++) {
		uint4 x = chunk[8 * PIECES * n + at], y = chunk[8 * PIECES * n + (at ^ 4)];
		u32 b[STEPS][2] = {{x.x, x.y}, {x.z, x.w}, {y.x, y.y}, {y.z, y.w}};
		UNROLL for (int m = 0; m < M; m++) {
			UNROLL for (int e = 0; e < 4; e++) s.v[m][n][e] = 0;
		}
		UNROLL for (int i = 0; i < STEPS; i++) {
			UNROLL for (int m = 0; m < M; m++) mma(s.v[m][n], rows.f[m][i], b[i]);
		}
	}
}

// accumulate adds to sum the scores, rounded to bf16, times the 8 N rows of shared
// memory that they belong to. Here the sum runs along the rows in shared memory, so
// ldmatrix transposes them.
template <int M, int N> DEVICE void accumulate(RowSums<M> &sum, const Scores<M, N> &s, const uint4 *chunk, int t) {
	int at = t * PIECES + swizzled_piece(lane() % 16, lane() / 16);
	UNROLL for (int j = 0; j < HEAD / 8; j += 2) {
		u32 mine = shared_address(chunk + (at ^ j));
		UNROLL for (int i = 0; i < N / 2; i++) {
			u32 a[4], b[4];
			ldmatrix4_trans(b, mine + i * 16 * 16 * PIECES);
			UNROLL for (int m = 0; m < M; m++) {
				s.left_fragment(a, m, i);
				mma(sum.v[m][j], a, b);
				mma(sum.v[m][j + 1], a, b + 2);
			}
		}
	}
}

// swap exchanges registers with the lane at XOR distance `mask`: b of the lower lane
// for a of the upper.
DEVICE void swap(u32 &a, u32 &b, int mask) {
	bool upper = lane() & mask;
	u32 other = __shfl_xor_sync(FULL, upper ? a : b, mask);
	if (upper) a = other;
	else b = other;
}

// set_eight writes elements c to c+7 of row r, unless r is beyond the strip.
DEVICE void set_eight(const Strip &s, int r, int c, uint4 v) {
	if (r >= s.rows) return;
	u16 *p = s.p + (i64)r * s.pitch + c;
	if (s.vec) {
		*(uint4 *)p = v;
		return;
	}
	u32 w[4] = {v.x, v.y, v.z, v.w};
	UNROLL for (int i = 0; i < 8; i++) p[i] = (u16)(w[i / 2] >> 16 * (i % 2));
}

// store writes sums, each row times its scale. A lane holds two elements of each of
// eight pieces; two rounds of swaps transpose them within the quad, so that each lane
// writes two full 16-byte pieces.
template <int M> DEVICE void store(const Strip &to, int r0, const RowSums<M> &x, const float (*scale)[2]) {
	UNROLL for (int m = 0; m < M; m++) {
		UNROLL for (int r = 0; r < 2; r++) {
			UNROLL for (int j = 0; j < PIECES; j += 4) {
				u32 w[4];
				UNROLL for (int i = 0; i < 4; i++)
					w[i] = pack_bf16(x.v[m][j + i][2 * r] * scale[m][r], x.v[m][j + i][2 * r + 1] * scale[m][r]);
				swap(w[0], w[1], 1), swap(w[2], w[3], 1);
				swap(w[0], w[2], 2), swap(w[1], w[3], 2);
				uint4 v = {w[0], w[1], w[2], w[3]};
				set_eight(to, r0 + 16 * m + 8 * r + lane() / 4, 8 * (j + lane() % 4), v);
			}
		}
	}
}

#endif
