// flash.cuh: what attention on tensor cores is made of, for heads of 64 columns
// stored as bf16. One side of a product lies in registers, 16 rows a tile, the
// other in shared memory, up to CHUNK rows.
//
// Rows in shared memory are eight pieces of 16 bytes; piece p of row r is at place
// p ^ 5r%8, so that neither eight rows of one piece nor two of four share banks.
//
// A product along the columns may take them in any order that is the same on both
// sides. Here it is one in which a lane's share of a row is 16 bytes in one place:
// of steps 2i and 2i+1, lane 4g+t has columns 32i+8t to 32i+8t+7 of row g.
#ifndef FLASH_CUH
#define FLASH_CUH
#include "async.cuh"
#include "heads.cuh"
#include "mma.cuh"

enum {
	HEAD = 64, STEPS = HEAD / 16, PIECES = HEAD / 8, // a row: inner steps of a product, 16-byte pieces
	TEAM = 4,                                       // warps of a block
	CHUNK = 272,                                    // rows that shared memory holds: the 257 of an image
	BLOCK_ROWS = 32 * TEAM,                         // rows that a block's warps have in registers
};

#define LOG2E 1.44269504089f
#define TO_BASE_2 (LOG2E / 8) // scores: divided by the root of 64, and to base 2

// first_of_warp is the first of the warp's rows. Who gets what is left over at the
// end of a sequence is another warp, and so another part of the multiprocessor, in every block.
DEVICE int first_of_warp() { return 32 * ((warp() + blockIdx.x) % TEAM); }

// Strip is one head's columns of a sequence's rows.
struct Strip {
	u16 *p;
	int pitch, rows; // numbers from a row to the next
	bool vec;        // rows may be read 16 bytes at a time
};

DEVICE Strip strip_of(const Mat &m, i64 first, const Head &h, const AttentionArgs &a, i64 rows) {
	Strip s = {(u16 *)m.p + first * m.stride + h.col, (int)(h.step * m.stride), (int)rows, a.vec != 0};
	return s;
}

// eight is eight numbers of a row.
DEVICE uint4 eight(const Strip &s, int r, int c) {
	const u16 *p = s.p + (i64)r * s.pitch + c;
	if (s.vec) return *(const uint4 *)p;
	uint4 v = {p[0] | (u32)p[1] << 16, p[2] | (u32)p[3] << 16, p[4] | (u32)p[5] << 16, p[6] | (u32)p[7] << 16};
	return v;
}

// seen_by is how many keys a query sees; the last one's where there is no such query.
DEVICE int seen_by(const AttentionArgs &a, int query) {
	int len = (int)a.len, queries = (int)a.queries, block = (int)a.block;
	return block == 0 ? len : lesser(len, ((lesser(query, queries - 1) + len - queries) / block + 1) * block);
}

// chunk_rows is how many rows a chunk has where so many are left.
DEVICE int chunk_rows(int left) { return (lesser(left, CHUNK) + 15) / 16 * 16; }

// stats_rows is how many queries a head's stats have room for: a whole step's.
DEVICE int stats_rows(const AttentionArgs &a) { return ((int)a.queries + 15) / 16 * 16; }

// place is where piece p of row r lies, in pieces.
DEVICE int place(int r, int p) { return r * PIECES + (p ^ (r * 5 & 7)); }

// stage starts copies of rows [r0, r0+n) to shared memory, n whole 16s; zeros beyond the strip.
DEVICE void stage(uint4 *to, const Strip &s, int r0, int n) {
	int r = threadIdx.x / PIECES, p = threadIdx.x % PIECES, at = place(r, p);
	for (; r < n; r += TEAM * WARP / PIECES, at += TEAM * WARP) {
		bool there = r0 + r < s.rows;
		int from = there ? r0 + r : s.rows - 1;
		uint4 zeros = {0, 0, 0, 0};
		if (s.vec) copy16(shared_address(to + at), s.p + (i64)from * s.pitch + 8 * p, there ? 16 : 0);
		else to[at] = there ? eight(s, from, 8 * p) : zeros;
	}
}

// The row of a tile's element that is the lane's r-th (0 or 1) of tile m, and the column e%2 of piece n.
DEVICE int row_of(int r0, int m, int r) { return r0 + 16 * m + 8 * r + lane() / 4; }
DEVICE int col_of(int t, int n, int e) { return t + 8 * n + lane() % 4 * 2 + e % 2; }

// Tiles are 16 M rows in registers, the left factor of products.
template <int M> struct Tiles {
	u32 f[M][STEPS][4];

	// Rows that there are not are read as the last one, and only then made zeros:
	// a choice of each word lets it go to a register beside the words of the other
	// row, where products want it, instead of being moved there for each of them.
	DEVICE_METHOD void load(const Strip &s, int r0) {
		UNROLL for (int m = 0; m < M; m++) {
			UNROLL for (int r = 0; r < 2; r++) {
				int row = row_of(r0, m, r);
				bool there = row < s.rows;
				UNROLL for (int i = 0; i < STEPS; i += 2) {
					uint4 v = eight(s, there ? row : s.rows - 1, 16 * i + lane() % 4 * 8);
					f[m][i][r] = there ? v.x : 0, f[m][i][r + 2] = there ? v.y : 0;
					f[m][i + 1][r] = there ? v.z : 0, f[m][i + 1][r + 2] = there ? v.w : 0;
				}
			}
		}
	}
};

// Results are sums of 16 M rows by 64 columns, Scores 16 M rows by 8 N of the rows in shared memory.
template <int M> struct Results {
	float v[M][HEAD / 8][4];
};
template <int M, int N> struct Scores {
	float v[M][N][4];

	// left is scores 16i.. of tile m as bf16: the left factor of a product along them.
	DEVICE_METHOD void left(u32 *a, int m, int i) const {
		UNROLL for (int e = 0; e < 4; e++) a[e] = pack_bf16(v[m][2 * i + e / 2][e % 2 * 2], v[m][2 * i + e / 2][e % 2 * 2 + 1]);
	}
};

// times is the products of rows in registers and 8 N rows of shared memory.
template <int M, int N> DEVICE void times(Scores<M, N> &s, const Tiles<M> &rows, const uint4 *chunk, int t) {
	int at = t * PIECES + place(lane() / 4, lane() % 4);
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

// gather: sum += scores, rounded to bf16, times the 8 N rows of shared memory that they are for.
template <int M, int N> DEVICE void gather(Results<M> &sum, const Scores<M, N> &s, const uint4 *chunk, int t) {
	int at = t * PIECES + place(lane() % 16, lane() / 16);
	UNROLL for (int j = 0; j < HEAD / 8; j += 2) {
		u32 mine = shared_address(chunk + (at ^ j));
		UNROLL for (int i = 0; i < N / 2; i++) {
			u32 a[4], b[4];
			ldmatrix4_turned(b, mine + i * 16 * 16 * PIECES);
			UNROLL for (int m = 0; m < M; m++) {
				s.left(a, m, i);
				mma(sum.v[m][j], a, b);
				mma(sum.v[m][j + 1], a, b + 2);
			}
		}
	}
}

// swap exchanges, with the lane `mask` away, b of the lane without that bit for a of the one with it.
DEVICE void swap(u32 &a, u32 &b, int mask) {
	bool upper = lane() & mask;
	u32 other = __shfl_xor_sync(FULL, upper ? a : b, mask);
	if (upper) a = other;
	else b = other;
}

// eight numbers of a row, where there is one.
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

// store writes results, each row times its scale. A lane has two numbers of each
// of eight pieces of a row; its quad turns them to whole pieces.
template <int M> DEVICE void store(const Strip &to, int r0, const Results<M> &x, const float (*scale)[2]) {
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
