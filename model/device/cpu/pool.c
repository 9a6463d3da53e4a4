// pool.c: a few threads that wait for work. Kernels last microseconds, and to
// wake a thread of a virtual machine can take a hundred, so that a worker looks
// for the next job a while before it sleeps. The caller works too. Each thread
// begins with tasks of its own, the same part of every job, so that what a kernel
// leaves in a core's cache is what the next one reads there; who has done his
// takes some of another's. Tasks are claimed from a counter, a few at a time: a
// thread that is held up delays those, not its share of the job.
#define _GNU_SOURCE
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#define PAUSE() _mm_pause()
// Denormals cost hundreds of cycles each and carry nothing here: flush them, on every thread alike.
#define FLUSH_DENORMALS 0x8040
static unsigned mode_get(void) { return _mm_getcsr(); }
static void mode_set(unsigned m) { _mm_setcsr(m); }
#else
#define PAUSE() ((void)0)
#define FLUSH_DENORMALS 0
static unsigned mode_get(void) { return 0; }
static void mode_set(unsigned m) { (void)m; }
#endif

enum { PATIENCE = 200000, MAX_THREADS = 256, HUGE = 2 << 20 }; // nanoseconds that a thread looks for work

struct Pool {
	int threads;
	Worker workers[MAX_THREADS];
	pthread_t ids[MAX_THREADS];
	char *shared;
	size_t shared_size;
	// The job. A thread's ticket is the job's number (upper half) and the next free of its tasks: one that
	// read an older job's fields fails to claim, since the number differs.
	struct { _Alignas(64) _Atomic uint64_t ticket; } own[MAX_THREADS];
	_Atomic(Task) task;
	_Atomic(const void *) args;
	_Atomic i64 count, done;
	_Atomic int sleepers, closing;
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

typedef struct { Pool *pool; int index; } Start;

// first is the first of a thread's own tasks.
static i64 first(i64 count, int thread, int threads) { return count * thread / threads; }

// left is how many of a thread's own tasks nobody has claimed, of the job that its ticket belongs to.
static i64 left(Pool *p, int thread, uint64_t ticket) {
	i64 count = atomic_load_explicit(&p->count, memory_order_relaxed);
	return first(count, thread + 1, p->threads) - (i64)(uint32_t)ticket;
}

// claim does tasks of the current job until none is left; it says whether it found any. Neighbours are taken
// together, since they read and write neighbouring memory, the fewer the fewer are left.
static int claim(Pool *p, int self) {
	int found = 0;
	for (int i = 0; i < p->threads;) {
		int owner = (self + i) % p->threads;
		uint64_t t = atomic_load(&p->own[owner].ticket);
		Task task = atomic_load_explicit(&p->task, memory_order_relaxed);
		const void *args = atomic_load_explicit(&p->args, memory_order_relaxed);
		i64 n = left(p, owner, t);
		if (n <= 0) {
			i++;
			continue;
		}
		n = (n + 3) / 4;
		if (!atomic_compare_exchange_weak(&p->own[owner].ticket, &t, t + n)) continue;
		for (i64 k = (uint32_t)t, end = k + n; k < end; k++) task(args, k, &p->workers[self]);
		atomic_fetch_add(&p->done, n);
		found = 1;
	}
	return found;
}

static i64 nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (i64)1000000000 + t.tv_nsec;
}

// A Wait is how long a thread has looked for work: not at all while `since` is 0.
typedef struct { i64 since, turns; } Wait;

// patient says whether to look again, after a pause.
static int patient(Wait *w) {
	PAUSE();
	if (w->turns++ % 32) return 1;
	i64 now = nanoseconds();
	if (!w->since) w->since = now;
	return now - w->since < PATIENCE;
}

static int waiting(Pool *p) {
	for (int i = 0; i < p->threads; i++) {
		if (left(p, i, atomic_load(&p->own[i].ticket)) > 0) return 0;
	}
	return !atomic_load(&p->closing);
}

static void *work(void *arg) {
	Start s = *(Start *)arg;
	free(arg);
	Pool *p = s.pool;
	mode_set(mode_get() | FLUSH_DENORMALS);
	for (Wait idle = {0}; !atomic_load(&p->closing);) {
		if (claim(p, s.index)) idle = (Wait){0};
		if (patient(&idle)) continue;
		pthread_mutex_lock(&p->lock);
		atomic_fetch_add(&p->sleepers, 1);
		while (waiting(p)) pthread_cond_wait(&p->wake, &p->lock);
		atomic_fetch_sub(&p->sleepers, 1);
		pthread_mutex_unlock(&p->lock);
		idle = (Wait){0};
	}
	return NULL;
}

static void wake_all(Pool *p) {
	if (!atomic_load(&p->sleepers)) return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

Pool *pool_new(int threads) {
	Pool *p = aligned_alloc(_Alignof(Pool), sizeof *p);
	if (!p) return NULL;
	memset(p, 0, sizeof *p);
	if (threads > MAX_THREADS) threads = MAX_THREADS;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	for (p->threads = 1; p->threads < threads; p->threads++) {
		Start *s = malloc(sizeof *s);
		if (s) *s = (Start){p, p->threads};
		if (!s || pthread_create(&p->ids[p->threads], NULL, work, s)) {
			free(s);
			pool_free(p);
			return NULL;
		}
	}
	return p;
}

void pool_free(Pool *p) {
	atomic_store(&p->closing, 1);
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (int i = 1; i < p->threads; i++) pthread_join(p->ids[i], NULL);
	for (int i = 0; i < p->threads; i++) engine_free(p->workers[i].scratch);
	engine_free(p->shared);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	free(p);
}

int pool_threads(const Pool *p) { return p->threads; }
void *pool_shared(Pool *p) { return p->shared; }

void pool_run(Pool *p, Task task, const void *args, i64 n) {
	unsigned mode = mode_get();
	mode_set(mode | FLUSH_DENORMALS);
	if (n <= 1 || p->threads == 1) {
		for (i64 i = 0; i < n; i++) task(args, i, &p->workers[0]);
		mode_set(mode);
		return;
	}
	// Close the old job before its fields change: nobody may claim meanwhile.
	uint64_t job = (atomic_load(&p->own[0].ticket) >> 32) + 1;
	for (int i = 0; i < p->threads; i++) atomic_store(&p->own[i].ticket, job << 32 | UINT32_MAX);
	atomic_store(&p->task, task);
	atomic_store(&p->args, args);
	atomic_store(&p->done, 0);
	atomic_store(&p->count, n);
	for (int i = 0; i < p->threads; i++) atomic_store(&p->own[i].ticket, (job + 1) << 32 | (uint64_t)first(n, i, p->threads));
	wake_all(p);
	claim(p, 0);
	for (Wait last = {0}; atomic_load(&p->done) < n;) {
		if (!patient(&last)) sched_yield();
	}
	mode_set(mode);
}

// grow replaces a block that is too small; its contents are not kept.
static int grow(char **block, size_t *size, size_t need) {
	if (*size >= need) return 0;
	engine_free(*block);
	*size = 0;
	*block = engine_alloc(need);
	if (!*block) return 1;
	*size = need;
	return 0;
}

int pool_reserve(Pool *p, size_t each, size_t shared) {
	for (int i = 0; i < p->threads; i++) {
		if (grow(&p->workers[i].scratch, &p->workers[i].size, each)) return NO_MEMORY;
	}
	return grow(&p->shared, &p->shared_size, shared) ? NO_MEMORY : OK;
}

void *engine_alloc(size_t bytes) {
	size_t size = (bytes + 4095) & ~(size_t)4095;
	if (size == 0) size = 4096;
	void *p = NULL;
	if (posix_memalign(&p, size >= HUGE ? HUGE : 4096, size)) return NULL;
	if (size >= HUGE) madvise(p, size, MADV_HUGEPAGE); // a wish: 4 to 13 % where granted
	memset(p, 0, size);
	return p;
}

void engine_free(void *p) { free(p); }
