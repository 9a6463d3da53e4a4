// k_peak.h: what the machine can do at best: a loop of independent multiply-adds
// in registers, the yardstick of the products.

enum { PEAK_ROUNDS = 1 << 17, PEAK_CHAINS = 12 };

static inline __attribute__((always_inline)) float peak_loop(const int native) {
	vf acc[PEAK_CHAINS], x = vset(0.999f), y = vset(1e-3f);
	for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = vset((float)i);
	for (i64 r = 0; r < PEAK_ROUNDS; r++) {
		__asm__ volatile("" ::: "memory"); // keeps the rounds apart
#pragma GCC unroll 12
		for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = native ? DOT(native, x, y, acc[i]) : vfma(acc[i], x, y);
	}
	vf sum = acc[0];
	for (int i = 1; i < PEAK_CHAINS; i++) sum += acc[i];
	return vsum(sum);
}

static void peak_task(const void *args, i64 i, Worker *w) {
	(void)i;
	const PeakArgs *a = args;
	int native = a->bf16 && VEC_BF16;
	volatile float keep = native ? peak_loop(1) : peak_loop(0);
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
