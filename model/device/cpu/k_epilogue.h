// k_epilogue.h: what happens to the sums of a GEMM (k_gemm.h) before they are written to
// dst: scale, bias, activation or its gradient, dropout, gate, addition.

enum {
	// A block is what the epilogue processes at a time: with tiles 32 x 32 sums, else four
	// vectors of columns, and rows that are a multiple of the micro-kernels' rows. Two
	// blocks of sums, at most 16 KiB, leave most of the L1 cache to the factors.
	BLOCK_ROWS = TILES ? 32 : VL < 16 ? 12 : 24,
	BLOCK_COLS = TILES ? PANEL : 4 * VL,
	// Rows that the epilogue processes in one sweep, four vectors in all.
	SWEEP = 4 * VL / BLOCK_COLS
};

// A Block is the sums of rows x cols elements of dst from (r, c) on, in rows of
// BLOCK_COLS, for whose first `done` rows the epilogue has run. It is pending while
// the next block is multiplied: with tiles, whose unit works at the same time, the
// epilogue runs meanwhile; else its memory has time to arrive.
typedef struct { const GemmArgs *g; const float *sums; i64 r, c, rows, cols, done; } Block;

// The operations of an epilogue that may be missing, besides the activation.
enum {
	OP_SCALE = 1, OP_BIAS = 2, OP_PRE = 4, OP_GRAD = 8, OP_DROP = 16, OP_UNGATED = 32, OP_GATE = 64, OP_ADD = 128,
	OP_ALL = 255
};

// epilogue_vectors runs the epilogue for `vecs` vectors of each of `rows` rows of dst from
// (r, c) on, whose sums and dropout factors are consecutive. Each step is done for all
// vectors before the next step, so that each condition is tested once and no vector waits
// for the previous one. act, may, rows and vecs are compile-time constants. may is the
// operations that the epilogue may have, so that only these are tested for; it has
// OP_GRAD exactly if the epilogue has.
INLINED void epilogue_vectors(
	const int act, const int may, const int rows, const int vecs, const GemmArgs *g, const float *sums, const float *keep, i64 r, i64 c) {
	vf v[SWEEP * BLOCK_COLS / VL], x[SWEEP * BLOCK_COLS / VL];
#define FOR_VECS for (int j = 0; j < rows * vecs; j++)
#define FOR_ROWS for (int i = 0; i < rows; i++)
	FOR_VECS v[j] = vload(sums + j * VL);
	if (may & OP_SCALE && g->scale.p) {
		mloads(x, vecs, g->scale, 0, c);
		FOR_VECS v[j] *= x[j % vecs];
	}
	if (may & OP_BIAS && g->bias.p) {
		mloads(x, vecs, g->bias, 0, c);
		FOR_VECS v[j] += x[j % vecs];
	}
	if (may & OP_PRE && g->pre.p) FOR_ROWS mstores(g->pre, r + i, c, vecs, v + i * vecs);
	if (may & OP_GRAD) {
		FOR_ROWS mloads(x + i * vecs, vecs, g->grad, r + i, c);
		FOR_VECS v[j] *= vact_grad(act, x[j]);
	} else {
		FOR_VECS v[j] = vact(act, v[j]);
	}
	if (may & OP_DROP && g->drop_p > 0) FOR_VECS v[j] *= vload(keep + j * VL);
	if (may & OP_UNGATED && g->ungated.p) FOR_ROWS mstores(g->ungated, r + i, c, vecs, v + i * vecs);
	if (may & OP_GATE && g->gate.p) {
		FOR_ROWS mloads(x + i * vecs, vecs, g->gate, r + i, c);
		FOR_VECS v[j] *= x[j];
	}
	if (may & OP_ADD && g->add) {
		FOR_ROWS mloads(x + i * vecs, vecs, g->dst, r + i, c);
		FOR_VECS v[j] += x[j];
	}
	FOR_ROWS mstores(g->dst, r + i, c, vecs, v + i * vecs);
#undef FOR_ROWS
#undef FOR_VECS
}

// epilogue_rows runs the epilogue for `rows` rows of a block from row i on: in one sweep
// if the block has its full width, else vector by vector with checks for the end of the
// row.
INLINED void epilogue_rows(const int act, const int may, const int rows, const Block *b, i64 i) {
	const GemmArgs *g = b->g;
	const float *sums = b->sums + i * BLOCK_COLS;
	float keep[SWEEP * BLOCK_COLS];
	for (int k = 0; may & OP_DROP && g->drop_p > 0 && k < rows; k++) {
		keep_factors(keep + k * BLOCK_COLS, b->cols, g->drop_p, g->drop_key, (uint64_t)((b->r + i + k) * g->dst.cols + b->c));
	}
	if (b->cols == BLOCK_COLS) {
		epilogue_vectors(act, may, rows, BLOCK_COLS / VL, g, sums, keep, b->r + i, b->c);
		return;
	}
	for (i64 k = 0; k < rows; k++) {
		for (i64 j = 0; j < b->cols; j += VL) {
			epilogue_vectors(act, may, 1, 1, g, sums + k * BLOCK_COLS + j, keep + k * BLOCK_COLS + j, b->r + i + k, b->c + j);
		}
	}
}

// One function for each activation and direction, so that the loops contain no
// branches on them.
#define EPILOGUE(act, grad) \
	static void epilogue_##act##_##grad(const Block *b, i64 from, i64 to) { \
		for (; from + SWEEP <= to; from += SWEEP) epilogue_rows(act, OP_ALL - !grad * OP_GRAD, SWEEP, b, from); \
		for (; from < to; from++) epilogue_rows(act, OP_ALL - !grad * OP_GRAD, 1, b, from); \
	}
EPILOGUE(IDENTITY, 0) EPILOGUE(GELU, 0) EPILOGUE(SILU, 0) EPILOGUE(RELU, 0) EPILOGUE(GELU_BF16, 0)
EPILOGUE(IDENTITY, 1) EPILOGUE(GELU, 1) EPILOGUE(SILU, 1) EPILOGUE(RELU, 1) EPILOGUE(GELU_BF16, 1)
#undef EPILOGUE

// act_of returns the activation of an epilogue. A result that is rounded to bf16 does not
// need the exact GELU.
static inline int act_of(const GemmArgs *g) { return g->act == GELU && g->dst.bf16 ? GELU_BF16 : g->act; }

// run_epilogue runs the epilogue for the rows of a block that are left.
static void run_epilogue(Block *b) {
	typedef void (*Epilogue)(const Block *, i64, i64);
	static const Epilogue kinds[2][ACTS] = {
		{epilogue_IDENTITY_0, epilogue_GELU_0, epilogue_SILU_0, epilogue_RELU_0, epilogue_GELU_BF16_0},
		{epilogue_IDENTITY_1, epilogue_GELU_1, epilogue_SILU_1, epilogue_RELU_1, epilogue_GELU_BF16_1},
	};
	if (b->done < b->rows) kinds[b->g->grad.p != NULL][act_of(b->g)](b, b->done, b->rows);
	b->done = b->rows;
}

// An Ahead is a matrix that will be read soon, from byte `byte` of row r on.
typedef struct { Mat m; i64 r, byte; } Ahead;

// prefetch_line prefetches the next cache line, if any is left.
PREFETCH_FN prefetch_line(Ahead *a) {
	if (a->r >= a->m.rows) return;
	__builtin_prefetch((const char *)mat_at(a->m, a->r, 0) + a->byte, 0, 2);
	a->byte += 64;
	if (a->byte < row_bytes(a->m)) return;
	a->byte = 0;
	a->r++;
}

// A Backlog is what is left to do for the blocks multiplied so far: the epilogue of the
// pending one, and with tiles the store of the sums that are still in them (p is NULL if
// none are). Also for tiles: fused is the kind of epilogue that runs between their
// instructions (k_tiles.h), and after each step `lines` cache lines of `ahead` are
// prefetched.
typedef struct {
	Block pending;
	Sums in_tiles;
	int fused;
	Ahead ahead;
	i64 lines;
} Backlog;
