// k_peak.h: what the machine can do at best, the yardstick of the kernels: loops of independent
// multiply-adds in registers, and of reads from the cache that cores share.

enum { PEAK_ROUNDS = 1 << 16, PEAK_CHAINS = 12, READ_BYTES = 8 << 20 };

#define CHAIN(r, V) vf c##r = vset((float)r);
#define LINK_0(r, V) c##r = vfma(c##r, x, y);
#define LINK_1(r, V) c##r = vdot(x, y, c##r);
#define TOTAL(r, V) sum += c##r;

#define PEAK_LOOP(native) \
	static float peak_loop_##native(void) { \
		vf x = vset(0.999f), y = vset(1e-3f), sum = vset(0.0f); \
		ROWS12(CHAIN, 0) \
		for (i64 i = 0; i < PEAK_ROUNDS; i++) { ROWS12(LINK_##native, 0) } \
		ROWS12(TOTAL, 0) \
		return vsum(sum); \
	}

PEAK_LOOP(0)
#if VEC_BF16
PEAK_LOOP(1)
#else
#define peak_loop_1 peak_loop_0
#endif

#if TILES
// peak_tiles multiplies four pairs of tiles again and again.
static void peak_tiles(void) {
	tiles_begin();
	tile_zero(0);
	tile_zero(1);
	tile_zero(2);
	tile_zero(3);
	tile_zero(4);
	tile_zero(5);
	tile_zero(6);
	tile_zero(7);
	for (i64 i = 0; i < PEAK_ROUNDS / 16; i++) {
		tile_dot(0, 4, 6);
		tile_dot(1, 4, 7);
		tile_dot(2, 5, 6);
		tile_dot(3, 5, 7);
	}
	tiles_end();
}
#endif

// read_all reads memory that is larger than a core's own cache, line by line.
static float read_all(const float *p, i64 n) {
	vf sum[4] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)};
	for (i64 i = 0; i < n; i += 4 * VL) {
		for (int j = 0; j < 4; j++) sum[j] += vload(p + i + j * VL);
	}
	return vsum(sum[0] + sum[1] + sum[2] + sum[3]);
}

static void peak_task(const void *args, i64 i, Worker *w) {
	const PeakArgs *a = args;
	volatile float keep = 0;
	(void)i;
	switch (a->what) {
	case PEAK_READ: keep = read_all((const float *)w->scratch, READ_BYTES / 4); break;
	case PEAK_FMA: keep = peak_loop_0(); break;
#if TILES
	case PEAK_PAIRS: peak_tiles(); break;
#else
	case PEAK_PAIRS: keep = peak_loop_1(); break;
#endif
	}
	(void)keep;
}

// peak has every thread run one loop; work becomes what all did together.
static int peak(Pool *pool, const void *args) {
	PeakArgs *a = (PeakArgs *)args;
	int threads = pool_threads(pool);
	double loops = 2.0 * VL * PEAK_CHAINS * PEAK_ROUNDS;
	switch (a->what) {
	case PEAK_READ: a->work = READ_BYTES; break;
	case PEAK_FMA: a->work = loops; break;
	case PEAK_PAIRS: a->work = TILES ? 4 * 2.0 * 16 * 16 * 32 * (PEAK_ROUNDS / 16) : VEC_BF16 ? 2 * loops : loops; break;
	}
	a->work *= threads;
	if (a->what == PEAK_READ && pool_reserve(pool, READ_BYTES, 0)) return NO_MEMORY;
	pool_run(pool, peak_task, a, threads);
	return OK;
}
