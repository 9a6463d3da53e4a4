// k_peak.h: what the machine can do at best: a loop of independent multiply-adds
// in registers, the yardstick of the products.

enum { PEAK_ROUNDS = 1 << 17, PEAK_CHAINS = 12 };

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

static void peak_task(const void *args, i64 i, Worker *w) {
	(void)i;
	const PeakArgs *a = args;
	int native = a->bf16 && VEC_BF16;
	volatile float keep = native ? peak_loop_1() : peak_loop_0();
	(void)keep;
	(void)w;
}

// peak has every thread run one loop; flops becomes what all did together.
static int peak(Pool *pool, const void *args) {
	PeakArgs *a = (PeakArgs *)args;
	int threads = pool_threads(pool), pairs = a->bf16 && VEC_BF16 ? 2 : 1;
	a->flops = 2.0 * VL * PEAK_CHAINS * PEAK_ROUNDS * pairs * threads;
	pool_run(pool, peak_task, a, threads);
	return OK;
}
