// gemm_mma.cu: products of bf16 by tensor cores (mma.sync), dst = epilogue(A B), for all GPUs from Ampere on.
// Factors are stored as bf16 in rows that begin at multiples of 16 bytes; the engine sees to it.
//
// Idea: a block's sums stay in registers (128 x 192 of them where there are many rows, 64 x 64 or 32 x 32 where
// there are few). Factors come to shared memory by asynchronous copies, some steps ahead of the multiplication;
// ldmatrix makes fragments of them, turned where the inner index runs along a matrix's rows.
// Memory traffic: A is read once for every tile's width of columns, B once for every tile's height of rows, two
// bytes a number; dst and what the epilogue takes once. For NN and NT all pieces of a sum are added within a
// block; TN (gradients of weights) has a block for each and gemm_add reads their sums from memory.
//
// An element's sum is made of pieces of the inner dimension, `span` long: each begins at zero and grows by
// 16 inner indices at a time, and pieces are added in order. So all shapes of tiles give the same bits, and the
// engine may choose by the number of rows.
#include "async.cuh"
#include "epilogue.cuh"
#include "mma.cuh"

enum { NN, NT, TN };

// Panel is a factor's ROWS rows of the result by DEPTH inner indices in shared memory.
// DEEP: its lines run along the inner index, else along the rows of the result. Lines
// are 16 bytes longer than they need be, so that the eight that an ldmatrix reads lie in
// different banks. TEAM threads fill it.
template <int ROWS, int DEPTH, int TEAM, bool DEEP> struct Panel {
	enum {
		LINES = DEEP ? ROWS : DEPTH, ALONG = DEEP ? DEPTH : ROWS, // lines, and numbers of a line
		PITCH = 2 * ALONG + 16, BYTES = LINES * PITCH,
		SIDE = ALONG / 8 % 8 == 0 ? 8 : 4,                 // threads of a line, 16 bytes each
		AT_ONCE = TEAM / SIDE, TIMES = (LINES + AT_ONCE - 1) / AT_ONCE, HOPS = ALONG / 8 / SIDE,
		STEP_R = 16 * (DEEP ? PITCH : 2), STEP_K = 16 * (DEEP ? 2 : PITCH), // from a fragment to the next
	};
	static_assert(ALONG / 8 % SIDE == 0, "a line is shared out evenly");
	const u16 *from; // the thread's first number of the next step

	// What the thread copies first.
	static DEVICE_METHOD int thread() { return TEAM == WARP ? lane() : threadIdx.x; }
	static DEVICE_METHOD int line() { return thread() / SIDE; }
	static DEVICE_METHOD int along() { return thread() % SIDE * 8; }

	DEVICE_METHOD void start(const Mat &m, int r0, i64 k0) {
		from = (const u16 *)m.p + (DEEP ? (r0 + line()) * m.stride + k0 : (k0 + line()) * m.stride + r0) + along();
	}

	// copy asks for the next step's numbers, of which `rows` by `inner` are within the matrix. Inner indices
	// beyond are zeros, but for the rest of 16 bytes: see finish. What stands for rows beyond goes into sums
	// that nobody reads.
	DEVICE_METHOD void copy(u32 to, const Mat &m, int rows, int inner) {
		int lines = (DEEP ? rows : inner) - line(), numbers = (DEEP ? inner : rows) - along();
		i64 down = m.stride * AT_ONCE;
		const u16 *at = from;
		to += line() * PITCH + 2 * along();
		UNROLL for (int i = 0; i < TIMES; i++, at += down) {
			if (LINES % AT_ONCE != 0 && line() + i * AT_ONCE >= LINES) break;
			UNROLL for (int j = 0; j < HOPS; j++)
				copy16(to + i * AT_ONCE * PITCH + j * SIDE * 16, at + j * SIDE * 8, i * AT_ONCE < lines && j * SIDE * 8 < numbers ? 16 : 0);
		}
		from += DEEP ? DEPTH : DEPTH * m.stride;
	}

	// finish makes zeros of what came after the last inner index.
	static DEVICE_METHOD void finish(char *panel, int inner) {
		ROLLED for (int l = DEEP ? thread() : LINES; l < LINES; l += TEAM) {
			ROLLED for (int k = inner; k % 8 != 0; k++) *(u16 *)(panel + l * PITCH + 2 * k) = 0;
		}
	}

	// A lane's address for ldmatrix4: the first 16 rows as a left factor, and as a right one.
	static DEVICE_METHOD u32 as_a(u32 panel, int r) { return lane_of(panel, r, DEEP); }
	static DEVICE_METHOD u32 as_b(u32 panel, int r) { return lane_of(panel, r, !DEEP); }
	static DEVICE_METHOD u32 lane_of(u32 panel, int r, bool lines_first) {
		int l = lane(), first = l % 16, second = l / 16 * 8;
		if (!lines_first) first = l % 8 + l / 16 * 8, second = l / 8 % 2 * 8;
		return panel + r / 16 * STEP_R + first * PITCH + second * 2;
	}
	static DEVICE_METHOD void fragment(u32 *f, u32 at) {
		if (DEEP) ldmatrix4(f, at);
		else ldmatrix4_turned(f, at);
	}
};

// in_tile is the place of an element in a tile of sums in shared memory. Groups of eight columns
// change places from row to row, so that the rows that a warp writes at once lie in different banks.
template <int COLS> DEVICE int in_tile(int r, int c) { return r * COLS + (c ^ r % 4 * 8); }

// Warp is a warp's sums, of 16*HIGH rows and 16*WIDE columns.
template <int HIGH, int WIDE> struct Warp {
	float acc[HIGH][2 * WIDE][4];

	DEVICE_METHOD void clear() {
		UNROLL for (int i = 0; i < HIGH; i++) {
			UNROLL for (int j = 0; j < 2 * WIDE; j++) {
				UNROLL for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
			}
		}
	}

	// multiply adds the product of one step's panels, at a lane's addresses.
	template <class A, class B, int DEPTH> DEVICE_METHOD void multiply(u32 a, u32 b) {
		UNROLL for (int k = 0; k < DEPTH / 16; k++) {
			u32 fa[HIGH][4];
			UNROLL for (int i = 0; i < HIGH; i++) A::fragment(fa[i], a + i * A::STEP_R + k * A::STEP_K);
			UNROLL for (int j = 0; j < WIDE; j++) {
				u32 fb[4];
				B::fragment(fb, b + j * B::STEP_R + k * B::STEP_K);
				UNROLL for (int i = 0; i < HIGH; i++) {
					mma(acc[i][2 * j], fa[i], fb);
					mma(acc[i][2 * j + 1], fa[i], fb + 2);
				}
			}
		}
	}

	DEVICE_METHOD void add(const Warp &w) {
		UNROLL for (int i = 0; i < HIGH; i++) {
			UNROLL for (int j = 0; j < 2 * WIDE; j++) {
				UNROLL for (int e = 0; e < 4; e++) acc[i][j][e] += w.acc[i][j][e];
			}
		}
	}

	// leave writes the sums to shared memory, a tile of COLS columns; (r, c) is the warp's place in it.
	template <int COLS> DEVICE_METHOD void leave(float *s, int r, int c) const {
		UNROLL for (int j = 0; j < 2 * WIDE; j++) {
			float *to = s + in_tile<COLS>(r + lane() / 4, c + 8 * j) + lane() % 4 * 2;
			UNROLL for (int i = 0; i < HIGH; i++) {
				float2 top = {acc[i][j][0], acc[i][j][1]}, bottom = {acc[i][j][2], acc[i][j][3]};
				*(float2 *)(to + 16 * i * COLS) = top;
				*(float2 *)(to + (16 * i + 8) * COLS) = bottom;
			}
		}
	}
};

// Shape of a block's tile: HIGH and WIDE are those of a warp, DEPTH is a step's inner
// indices, of which STAGES are on their way or being multiplied.
template <int ROWS_, int COLS_, int HIGH_, int WIDE_, int DEPTH_, int STAGES_> struct Shape {
	enum {
		ROWS = ROWS_, COLS = COLS_, HIGH = HIGH_, WIDE = WIDE_, DEPTH = DEPTH_, STAGES = STAGES_,
		ACROSS = COLS / (16 * WIDE), TEAM = ROWS / (16 * HIGH) * ACROSS * WARP, // warps beside each other; threads
	};
};

// Where a block's tile and piece begin.
struct Place {
	int r0, c0, piece, inner; // inner indices of the piece
	i64 k0;
};

template <class S> DEVICE Place place(const GemmArgs &a) {
	int wide = ((int)a.n + S::COLS - 1) / S::COLS, high = ((int)a.m + S::ROWS - 1) / S::ROWS, tile = blockIdx.x % (wide * high);
	int piece = blockIdx.x / (wide * high);
	i64 k0 = piece * a.span;
	Place p = {tile / wide * S::ROWS, tile % wide * S::COLS, piece, (int)(a.splits == 1 ? a.k : least(a.k - k0, a.span)), k0};
	return p;
}

// add_columns adds the sums over inner indices of 16 of the panel's rows of the result.
template <class A, int DEPTH> DEVICE void add_columns(float *sums, u32 a) {
	const u32 ones[2] = {0x3f803f80, 0x3f803f80};
	UNROLL for (int k = 0; k < DEPTH / 16; k++) {
		u32 f[4];
		A::fragment(f, a + k * A::STEP_K);
		mma(sums, f, ones);
	}
}

// leave_columns writes them: to the result, or of one piece of several to part.
DEVICE void leave_columns(const GemmArgs &a, int piece, int r0, const float *sums) {
	UNROLL for (int i = 0; i < 2; i++) {
		int r = r0 + 8 * i + lane() / 4;
		if (lane() % 4 != 0 || r >= a.m) continue;
		if (a.splits == 1) at(a.sum_a, 0, r) += sums[2 * i];
		else a.part[a.splits * a.m * a.n + piece * a.m + r] = sums[2 * i];
	}
}

// A block computes a tile of one piece (TN), of a product of one piece, or, PIECES, of
// however many pieces one after another.
template <int OP, class S, bool PIECES> DEVICE void gemm_tile(const GemmArgs &a) {
	typedef Panel<S::ROWS, S::DEPTH, S::TEAM, OP != TN> A;
	typedef Panel<S::COLS, S::DEPTH, S::TEAM, OP == NT> B;
	enum { STAGE = A::BYTES + B::BYTES };
	SHARED(float, shared);
	Place p = place<S>(a);
	u32 base = shared_address(shared);
	int wm = warp() / S::ACROSS * 16 * S::HIGH, wn = warp() % S::ACROSS * 16 * S::WIDE, steps = (p.inner + S::DEPTH - 1) / S::DEPTH;
	u32 at_a = A::as_a(base, wm), at_b = B::as_b(base + A::BYTES, wn);
	bool columns = OP == TN && a.sum_a.p && p.c0 == 0 && warp() < S::ROWS / 16; // a warp has 16 of them
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
	Warp<S::HIGH, S::WIDE> sum, total;
	float sums[4] = {};
	sum.clear();
	if (PIECES) total.clear();
	ROLLED for (int step = 0; step < steps; step++) {
		int slot = step % S::STAGES * STAGE;
		copy_wait<S::STAGES - 2>();
		__syncthreads(); // the step is there, and the one before has been read
		fetch(step + S::STAGES - 1);
		if (p.inner % 8 != 0 && step == steps - 1) {
			A::finish((char *)shared + slot, p.inner - step * S::DEPTH);
			B::finish((char *)shared + slot + A::BYTES, p.inner - step * S::DEPTH);
			__syncthreads();
		}
		sum.template multiply<A, B, S::DEPTH>(at_a + slot, at_b + slot);
		if (columns) add_columns<A, S::DEPTH>(sums, A::as_a(base, 16 * warp()) + slot);
		if (PIECES && (step + 1) * S::DEPTH % (int)a.span == 0) {
			total.add(sum);
			sum.clear();
		}
	}
	if (PIECES) total.add(sum);
	copy_wait<0>();
	__syncthreads(); // the last step has been read
	(PIECES ? total : sum).template leave<S::COLS>(shared, wm, wn);
	__syncthreads();
	if (columns) leave_columns(a, p.piece, p.r0 + 16 * warp(), sums);
	finish_tile<S::ROWS, S::COLS, S::TEAM>(a, p.piece, p.r0, p.c0, [&](int r, int c) { return *(float4 *)(shared + in_tile<S::COLS>(r, c)); });
}

// Few rows and many inner indices: each of a block's warps has a piece of the inner
// dimension of one small tile, and steps of its own; then the next SLIM pieces.
enum { SLIM = 4, SLIM_TILE = 32, SLIM_DEPTH = 32, SLIM_STAGES = 4 };
template <int OP> DEVICE void gemm_slim(const GemmArgs &a) {
	typedef Panel<SLIM_TILE, SLIM_DEPTH, WARP, true> A;
	typedef Panel<SLIM_TILE, SLIM_DEPTH, WARP, OP == NT> B;
	enum { STAGE = A::BYTES + B::BYTES, OWN = SLIM_STAGES * STAGE, MINE = SLIM_TILE * SLIM_TILE / 4 / (SLIM * WARP) };
	SHARED(float, shared);
	int wide = ((int)a.n + SLIM_TILE - 1) / SLIM_TILE, r0 = blockIdx.x / wide * SLIM_TILE, c0 = blockIdx.x % wide * SLIM_TILE;
	u32 base = shared_address(shared) + warp() * OWN, at_a = A::as_a(base, 0), at_b = B::as_b(base + A::BYTES, 0);
	float4 total[MINE] = {};
	for (i64 first = 0; first < a.k; first += SLIM * a.span) {
		i64 k0 = first + warp() * a.span;
		int inner = (int)least(a.k - k0, a.span), steps = (inner + SLIM_DEPTH - 1) / SLIM_DEPTH; // none: at most 0
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
		Warp<SLIM_TILE / 16, SLIM_TILE / 16> sum;
		sum.clear();
		ROLLED for (int step = 0; step < steps; step++) {
			int slot = step % SLIM_STAGES * STAGE;
			copy_wait<SLIM_STAGES - 2>();
			__syncwarp();
			fetch(step + SLIM_STAGES - 1);
			if (inner % 8 != 0 && step == steps - 1) {
				A::finish((char *)shared + warp() * OWN + slot, inner - step * SLIM_DEPTH);
				B::finish((char *)shared + warp() * OWN + slot + A::BYTES, inner - step * SLIM_DEPTH);
				__syncwarp();
			}
			sum.template multiply<A, B, SLIM_DEPTH>(at_a + slot, at_b + slot);
		}
		copy_wait<0>();
		__syncwarp();
		sum.template leave<SLIM_TILE>(shared + warp() * OWN / 4, 0, 0);
		__syncthreads();
		UNROLL for (int w = 0; w < SLIM; w++) {
			UNROLL for (int u = 0; u < MINE; u++) {
				int q = threadIdx.x + u * SLIM * WARP;
				float4 v = *(float4 *)(shared + w * OWN / 4 + 4 * q);
				total[u].x += v.x, total[u].y += v.y, total[u].z += v.z, total[u].w += v.w;
			}
		}
		__syncthreads();
	}
	UNROLL for (int u = 0; u < MINE; u++) *(float4 *)(shared + 4 * (threadIdx.x + u * SLIM * WARP)) = total[u];
	__syncthreads();
	finish_tile<SLIM_TILE, SLIM_TILE, SLIM * WARP>(a, 0, r0, c0, [&](int r, int c) { return *(float4 *)(shared + in_tile<SLIM_TILE>(r, c)); });
}

// The tiles of many rows, of few, and of the sums over rows that weights' gradients are. None takes more
// than 99 kB of shared memory, which is what a block may have on the smallest GPUs; two blocks share a large one.
typedef Shape<128, 192, 4, 3, 32, 3> Wide;
typedef Shape<64, 64, 2, 2, 64, 3> Narrow;
typedef Shape<96, 192, 3, 3, 32, 4> Turned;

KERNEL(gemm_wide_nn, GemmArgs, Wide::TEAM, 2) { gemm_tile<NN, Wide, false>(a); }
KERNEL(gemm_wide_nt, GemmArgs, Wide::TEAM, 2) { gemm_tile<NT, Wide, false>(a); }
KERNEL(gemm_pieces_nn, GemmArgs, Wide::TEAM, 1) { gemm_tile<NN, Wide, true>(a); }
KERNEL(gemm_pieces_nt, GemmArgs, Wide::TEAM, 1) { gemm_tile<NT, Wide, true>(a); }
KERNEL(gemm_narrow_nn, GemmArgs, Narrow::TEAM, 4) { gemm_tile<NN, Narrow, true>(a); }
KERNEL(gemm_narrow_nt, GemmArgs, Narrow::TEAM, 4) { gemm_tile<NT, Narrow, true>(a); }
KERNEL(gemm_slim_nn, GemmArgs, SLIM *WARP) { gemm_slim<NN>(a); }
KERNEL(gemm_slim_nt, GemmArgs, SLIM *WARP) { gemm_slim<NT>(a); }
KERNEL(gemm_tn, GemmArgs, Turned::TEAM, 2) { gemm_tile<TN, Turned, false>(a); }
