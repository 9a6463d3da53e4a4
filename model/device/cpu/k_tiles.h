// k_tiles.h: the micro-kernel of GEMM (k_gemm.h) by AMX tiles. 32 x 32 sums are in tiles 0
// to 3; tiles 4 and 5 hold rows of A, tiles 6 and 7 columns of B. Without TILES_HARDWARE
// the instructions are emulated in vectors, as Intel's manual defines them, so that this
// code runs and is tested on machines without AMX.
//
// The tile unit takes 16 cycles for a product of two tiles, in which the core can issue
// some 60 other instructions. It seems to look only a few tile instructions ahead, though,
// so that other work is spread evenly between them: the epilogue of the previous block, and
// the stores of its sums.

// Rows of a tile, and 4-byte words of a row.
enum { TILE = 16 };

#if TILES_HARDWARE

// tiles_begin configures all tiles to their full size, 16 rows of 64 bytes. The tiles
// belong to the thread until tiles_end releases them.
static inline void tiles_begin(void) {
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.bytes[i] = 4 * TILE;
		config.rows[i] = TILE;
	}
	// gcc 12's intrinsic declares only the first 8 bytes as input, so that the compiler
	// may move the other stores behind it.
	__asm__ volatile("ldtilecfg %0" ::"m"(config));
}
static inline void tiles_end(void) { _tile_release(); }
// tiles_ready is a compiler barrier between writing memory and loading it into tiles:
// gcc 12 does not know that tile loads read memory.
static inline void tiles_ready(void) { __asm__ volatile("" ::: "memory"); }
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, words) _tile_loadd(t, p, 4 * (words))
#define tile_store(t, p, words) _tile_stored(t, p, 4 * (words))
#define tile_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#else

// The emulated tiles, allocated between tiles_begin and tiles_end: a library that is
// loaded at run time, as by Python, has little room for thread-local variables.
static _Thread_local vf (*tiles)[TILE];

static inline void tiles_begin(void) { tiles = aligned_alloc(sizeof(vf), 8 * sizeof *tiles); }
static inline void tiles_end(void) { free(tiles); }
static inline void tiles_ready(void) {}
static inline void tile_zero(int t) { memset(tiles[t], 0, sizeof *tiles); }
static inline void tile_load(int t, const void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) tiles[t][r] = vload((const float *)p + r * words);
}
static inline void tile_store(int t, void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) vstore((float *)p + r * words, tiles[t][r]);
}

// tile_dot is TDPBF16PS: it sums the products of the lower and of the upper numbers
// of the pairs separately, each by a chain of multiply-adds from zero, adds the two
// sums, and then adds the result to the tile. The instruction flushes denormals; here
// the thread's mode does (pool.c).
static inline void tile_dot(int c, int a, int b) {
	vi upper = viset((int32_t)0xffff0000);
	for (i64 r = 0; r < TILE; r++) {
		vf first = vset(0.0f), second = vset(0.0f);
		for (i64 k = 0; k < TILE; k++) {
			vi x = (vi)vset(tiles[a][r][k]), y = (vi)tiles[b][k];
			first = vfma((vf)(x << 16), (vf)(y << 16), first);
			second = vfma((vf)(x & upper), (vf)(y & upper), second);
		}
		tiles[c][r] += first + second;
	}
}

#endif

// A TileJob is up to 32 x 32 sums: rows of A, and a packed panel of B, `width` words a
// step.
typedef struct {
	LeftFactor a;
	const uint32_t *b;
	i64 steps, width;
	Sums to;
} TileJob;

// at_tile returns where the sums of tile t go.
static inline float *at_tile(Sums to, int t) { return to.p + t / 2 * TILE * to.stride + t % 2 * TILE; }

// store_tiles stores the sums that are still in tiles.
static void store_tiles(Backlog *l) {
	Sums to = l->in_tiles;
	l->in_tiles.p = NULL;
	if (!to.p) return;
	tile_store(0, at_tile(to, 0), to.stride);
	tile_store(1, at_tile(to, 1), to.stride);
	tile_store(2, at_tile(to, 2), to.stride);
	tile_store(3, at_tile(to, 3), to.stride);
}

// TILE_BEGIN prepares tile t for the sums of job j, after storing those of the job before,
// if the tile still holds them.
#define TILE_BEGIN(t) \
	if (before.p) tile_store(t, at_tile(before, t), before.stride); \
	if (j->to.accumulate) tile_load(t, at_tile(j->to, t), j->to.stride); \
	else tile_zero(t);

// prefetch_next_block prefetches what the epilogue of the next block, which is BLOCK_COLS
// columns further, will read or write in SWEEP rows from row r on. may is that of
// epilogue_rows.
PREFETCH_FN prefetch_next_block(const int may, const GemmArgs *g, i64 r, i64 c) {
#define NEXT(m) part(m, r, c + BLOCK_COLS, SWEEP, BLOCK_COLS)
	if (may & OP_GRAD) prefetch_rows(NEXT(g->grad));
	if (may & OP_PRE && g->pre.p) prefetch_rows_write(NEXT(g->pre));
	prefetch_rows_write(NEXT(g->dst));
#undef NEXT
}

// NOTHING says that there is no epilogue.
enum { NOTHING = -1 };

// full_block computes a job of 32 x 32 sums, which stay in the tiles. In its first step
// of K it stores the sums of the previous block, each tile just before it is used again.
// In each further step it runs four sweeps of the pending block's epilogue. act and may
// are those of epilogue_rows.
INLINED void full_block(const int act, const int may, const TileJob *j, Backlog *l) {
	const Sums before = l->in_tiles;
	const Block block = l->pending;
	const uint32_t *a = j->a.p, *b = j->b;
	i64 done = block.done;
#define SWEEP_ONCE \
	if (may != NOTHING && done + SWEEP <= block.rows) { \
		prefetch_next_block(may, block.g, block.r + done, block.c); \
		epilogue_rows(act, may, SWEEP, &block, done); \
		done += SWEEP; \
	}
	tile_load(4, a, j->a.pitch);
	tile_load(6, b, j->width);
	TILE_BEGIN(0)
	tile_dot(0, 4, 6);
	tile_load(7, b + TILE, j->width);
	TILE_BEGIN(1)
	tile_dot(1, 4, 7);
	tile_load(5, a + TILE * j->a.row_step, j->a.pitch);
	TILE_BEGIN(2)
	tile_dot(2, 5, 6);
	TILE_BEGIN(3)
	tile_dot(3, 5, 7);
	for (i64 s = TILE; s < j->steps; s += TILE) {
		a += TILE * j->a.step;
		b += TILE * j->width;
		tile_load(4, a, j->a.pitch);
		tile_load(6, b, j->width);
		tile_dot(0, 4, 6);
		SWEEP_ONCE
		tile_load(7, b + TILE, j->width);
		tile_dot(1, 4, 7);
		SWEEP_ONCE
		tile_load(5, a + TILE * j->a.row_step, j->a.pitch);
		tile_dot(2, 5, 6);
		SWEEP_ONCE
		tile_dot(3, 5, 7);
		for (i64 i = 0; i < l->lines; i++) prefetch_line(&l->ahead);
		SWEEP_ONCE
	}
#undef SWEEP_ONCE
	l->in_tiles = j->to;
	l->pending.done = done;
}

// fused_blocks are the kinds of epilogue that run between tile instructions: the frequent
// ones with few operations, and any other without an activation. Each has its own code.
#define FUSED(KIND) \
	KIND(0, IDENTITY, OP_BIAS) \
	KIND(1, GELU_BF16, OP_BIAS + OP_PRE + OP_DROP) \
	KIND(2, GELU_BF16, OP_GRAD + OP_DROP) \
	KIND(3, IDENTITY, OP_ALL - OP_GRAD)
#define FUSED_BLOCK(i, act, may) static void full_block_##i(const TileJob *j, Backlog *l) { full_block(act, may, j, l); }
#define FUSED_ROW(i, act, may) {act, may, full_block_##i},
FUSED(FUSED_BLOCK)
static const struct { int act, may; void (*run)(const TileJob *, Backlog *); } fused_blocks[] = {FUSED(FUSED_ROW)};
enum { FUSED_KINDS = sizeof fused_blocks / sizeof *fused_blocks };
static void full_block_alone(const TileJob *j, Backlog *l) { full_block(IDENTITY, NOTHING, j, l); }

// fused_kind returns the index in fused_blocks of the epilogue of g, or FUSED_KINDS.
static int fused_kind(const GemmArgs *g) {
	int ops = (g->scale.p ? OP_SCALE : 0) + (g->bias.p ? OP_BIAS : 0) + (g->pre.p ? OP_PRE : 0) + (g->grad.p ? OP_GRAD : 0) +
		(g->drop_p > 0 ? OP_DROP : 0) + (g->ungated.p ? OP_UNGATED : 0) + (g->gate.p ? OP_GATE : 0) + (g->add ? OP_ADD : 0), i = 0;
	while (i < FUSED_KINDS && (act_of(g) != fused_blocks[i].act || ops & ~fused_blocks[i].may || (ops ^ fused_blocks[i].may) & OP_GRAD)) i++;
	return i;
}

// partial_block computes and stores a job that lacks rows, columns or steps. down and right,
// compile-time constants, say whether it has more than 16 rows and more than 16 columns.
// Tiles always load 16 rows of A: past the last row they read scratch, whose sums nobody
// stores to dst.
INLINED void partial_block(const int down, const int right, const TileJob *j) {
	const Sums before = {0};
	const uint32_t *a = j->a.p, *b = j->b;
	TILE_BEGIN(0)
	if (right) { TILE_BEGIN(1) }
	if (down) { TILE_BEGIN(2) }
	if (down && right) { TILE_BEGIN(3) }
	for (i64 s = 0; s < j->steps; s += TILE, a += TILE * j->a.step, b += TILE * j->width) {
		tile_load(4, a, j->a.pitch);
		tile_load(6, b, j->width);
		tile_dot(0, 4, 6);
		if (right) tile_load(7, b + TILE, j->width);
		if (right) tile_dot(1, 4, 7);
		if (down) tile_load(5, a + TILE * j->a.row_step, j->a.pitch);
		if (down) tile_dot(2, 5, 6);
		if (down && right) tile_dot(3, 5, 7);
	}
	tile_store(0, at_tile(j->to, 0), j->to.stride);
	if (right) tile_store(1, at_tile(j->to, 1), j->to.stride);
	if (down) tile_store(2, at_tile(j->to, 2), j->to.stride);
	if (down && right) tile_store(3, at_tile(j->to, 3), j->to.stride);
}

// multiply_tiles is multiply by tiles, for at most BLOCK_ROWS rows and one panel. The
// sums of a full block stay in the tiles until the next one, or until store_tiles. The
// epilogue of the pending block may run meanwhile, or a part of it.
static void multiply_tiles(int vecs, i64 rows, i64 steps, LeftFactor a, const uint32_t *panel, Sums to, Backlog *l) {
	TileJob j = {a, panel, steps, vecs * VL, to};
	int full = rows > TILE && vecs == 2 && steps > 0, fused = l->fused < FUSED_KINDS && l->pending.cols == BLOCK_COLS;
	tiles_ready();
	if (!full || (!fused && l->pending.done < l->pending.rows)) {
		store_tiles(l);
		run_epilogue(&l->pending);
	}
	if (full && l->pending.done == l->pending.rows) full_block_alone(&j, l);
	else if (full) fused_blocks[l->fused].run(&j, l);
	else if (rows > TILE) vecs == 2 ? partial_block(1, 1, &j) : partial_block(1, 0, &j);
	else vecs == 2 ? partial_block(0, 1, &j) : partial_block(0, 0, &j);
}
