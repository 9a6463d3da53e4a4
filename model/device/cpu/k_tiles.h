// k_tiles.h: products by the tile registers of AMX, and a stand-in for them that
// does in vectors what Intel's manual says of each instruction, so that all of
// this runs and is tested where there are none.
//
// A block of 32 x 32 sums lives in tiles 0 to 3; 4 and 5 take rows of A, 6 and 7 columns of B.

enum { TILE = 16 }; // rows of a tile, and words of a row

#if TILES_HARDWARE

// tiles_begin gives all tiles their full size; they belong to the thread until tiles_end.
static inline void tiles_begin(void) {
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.bytes[i] = 4 * TILE;
		config.rows[i] = TILE;
	}
	// gcc 12's own function tells the compiler of the first 8 bytes only: the other stores may come too late.
	__asm__ volatile("ldtilecfg %0" ::"m"(config));
}
static inline void tiles_end(void) { _tile_release(); }
// gcc 12 does not know that loading a tile reads memory: what was written for it must be written by now.
static inline void tiles_ready(void) { __asm__ volatile("" ::: "memory"); }
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, words) _tile_loadd(t, p, 4 * (words))
#define tile_store(t, p, words) _tile_stored(t, p, 4 * (words))
#define tile_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#else

static _Thread_local vf tiles[8][TILE];

static inline void tiles_begin(void) {}
static inline void tiles_end(void) {}
static inline void tiles_ready(void) {}
static inline void tile_zero(int t) { memset(tiles[t], 0, sizeof tiles[t]); }
static inline void tile_load(int t, const void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) tiles[t][r] = vload((const float *)p + r * words);
}
static inline void tile_store(int t, void *p, i64 words) {
	for (i64 r = 0; r < TILE; r++) vstore((float *)p + r * words, tiles[t][r]);
}

// tile_dot is TDPBF16PS: the first and the second numbers of the pairs are summed apart, each by one
// chain of multiply-adds from zero, then together, then added. Denormals are flushed, which the pool
// sees to.
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

// A TileJob is one block: rows of A, words of K, a packed panel of B from the block's column on.
typedef struct {
	Rows a;
	const uint32_t *b;
	i64 steps, width; // width: words from one line of b to the next
	Sums to;
} TileJob;

static inline __attribute__((always_inline)) void tile_block(const int down, const int right, TileJob j, Block *before, i64 share) {
	float *lower = j.to.p + TILE * j.to.stride;
	const uint32_t *a = j.a.p, *b = j.b;
	if (j.to.carry) {
		tile_load(0, j.to.p, j.to.stride);
		if (right) tile_load(1, j.to.p + TILE, j.to.stride);
		if (down) tile_load(2, lower, j.to.stride);
		if (down && right) tile_load(3, lower + TILE, j.to.stride);
	} else {
		tile_zero(0);
		if (right) tile_zero(1);
		if (down) tile_zero(2);
		if (down && right) tile_zero(3);
	}
	for (i64 s = 0; s < j.steps; s += TILE, a += TILE, b += TILE * j.width) {
		tile_load(4, a, j.a.row_step);
		tile_load(6, b, j.width);
		tile_dot(0, 4, 6);
		if (right) tile_load(7, b + TILE, j.width);
		if (right) tile_dot(1, 4, 7);
		if (down) tile_load(5, a + TILE * j.a.row_step, j.a.row_step);
		if (down) tile_dot(2, 5, 6);
		if (down && right) tile_dot(3, 5, 7);
		finish(before, share);
	}
	tile_store(0, j.to.p, j.to.stride);
	if (right) tile_store(1, j.to.p + TILE, j.to.stride);
	if (down) tile_store(2, lower, j.to.stride);
	if (down && right) tile_store(3, lower + TILE, j.to.stride);
}

// multiply_tiles is multiply_block by tiles.
static void multiply_tiles(int vecs, i64 rows, i64 steps, Rows a, const uint32_t *panel, Sums to, Block *before) {
	i64 turns = steps / TILE * ((vecs + 1) / 2), share = turns ? (BLOCK_ROWS + turns - 1) / turns : 0;
	tiles_ready();
	for (int v = 0; v < vecs; v += 2) {
		TileJob j = {a, panel + v * VL, steps, vecs * VL, {to.p + v * VL, to.stride, to.carry}};
		int down = rows > TILE, right = vecs - v > 1;
		if (down && right) tile_block(1, 1, j, before, share);
		else if (down) tile_block(1, 0, j, before, share);
		else if (right) tile_block(0, 1, j, before, share);
		else tile_block(0, 0, j, before, share);
	}
}
