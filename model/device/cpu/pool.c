// pool.c: a pool of threads that runs the tasks of one kernel at a time, and memory.
//
// Kernels last microseconds, while waking a sleeping thread can take a hundred,
// especially on a virtual machine. Workers therefore spin for a while before they
// sleep. The calling thread works too, as worker 0.
//
// Each thread starts with its own contiguous share of the tasks, which is the same in
// every job of the same size: what a kernel leaves in a core's cache is what the next
// kernel reads there. A thread that has finished its share takes tasks from the
// shares of others. Tasks are claimed a few at a time, a quarter of those left in a
// share, so that neighbouring tasks stay together, and a thread that is descheduled
// delays only the tasks that it has claimed.
//
// Protocol. pool_run publishes a job by writing its fields and then one ticket per
// thread. A thread claims tasks by a compare-and-swap on a ticket, and adds the
// number of tasks done to `done`; pool_run returns when all are done. A ticket
// contains the job's number, so that a thread which read the fields of one job and is
// delayed until the next cannot claim tasks of it: its compare-and-swap fails.
// Tickets, `done` and `sleepers` are accessed with sequential consistency, which also
// orders the results of tasks before the return of pool_run.
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
// The bits FTZ and DAZ of MXCSR. Denormals cost hundreds of cycles each and are too
// small to matter here. All threads flush them, since results must not depend on which
// thread runs a task.
#define FLUSH_DENORMALS 0x8040
static unsigned mode_get(void) { return _mm_getcsr(); }
static void mode_set(unsigned m) { _mm_setcsr(m); }
#else
#define PAUSE() ((void)0)
#define FLUSH_DENORMALS 0
static unsigned mode_get(void) { return 0; }
static void mode_set(unsigned m) { (void)m; }
#endif

// SPIN_NS: nanoseconds that a worker spins before it sleeps, longer than the usual
// gap between kernels. HUGE: the size of a huge page.
enum { SPIN_NS = 200000, MAX_THREADS = 256, HUGE = 2 << 20 };

struct Pool {
	int threads;
	Worker workers[MAX_THREADS];
	pthread_t ids[MAX_THREADS];
	char *shared;
	size_t shared_size;
	// A thread's ticket: the job's number in the upper half, and the first unclaimed
	// task of the thread's share in the lower half. Each has its own cache line,
	// against false sharing.
	struct { _Alignas(64) _Atomic uint64_t ticket; } own[MAX_THREADS];
	// The job's fields: written only while all tickets are closed.
	_Atomic(Task) task;
	_Atomic(const void *) args;
	_Atomic i64 count, done; // number of tasks; number of those that are done
	_Atomic int sleepers, closing;
	// For workers that sleep.
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

typedef struct { Pool *pool; int index; } Start;

// first_task returns the first task of a thread's share. Its share ends at that of
// the next thread.
static i64 first_task(i64 count, int thread, int threads) { return count * thread / threads; }

// unclaimed returns how many tasks of a thread's share nobody has claimed, according
// to its ticket. It is negative for a closed ticket.
static i64 unclaimed(Pool *p, int thread, uint64_t ticket) {
	i64 count = atomic_load_explicit(&p->count, memory_order_relaxed);
	return first_task(count, thread + 1, p->threads) - (i64)(uint32_t)ticket;
}

// run_tasks claims and runs tasks of the current job until none is left, first of the
// thread's own share, then of the next threads'. It returns whether it found any.
static int run_tasks(Pool *p, int self) {
	int found = 0;
	for (int i = 0; i < p->threads;) {
		int owner = (self + i) % p->threads;
		uint64_t t = atomic_load(&p->own[owner].ticket);
		Task task = atomic_load_explicit(&p->task, memory_order_relaxed);
		const void *args = atomic_load_explicit(&p->args, memory_order_relaxed);
		i64 n = unclaimed(p, owner, t);
		if (n <= 0) {
			i++;
			continue;
		}
		n = (n + 3) / 4;
		// The fields were read after the ticket and before this exchange. If the
		// ticket is unchanged, the fields belong to its job.
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

// A Spin records since when a thread has been spinning (0: the clock has not been
// read).
typedef struct { i64 since, turns; } Spin;

// keep_spinning pauses briefly and reports whether to look for work again. It reads
// the clock only every 32 turns.
static int keep_spinning(Spin *w) {
	PAUSE();
	if (w->turns++ % 32) return 1;
	i64 now = nanoseconds();
	if (!w->since) w->since = now;
	return now - w->since < SPIN_NS;
}

// no_work reports whether a worker may sleep: there is nothing to claim, and the pool
// is not closing.
static int no_work(Pool *p) {
	for (int i = 0; i < p->threads; i++) {
		if (unclaimed(p, i, atomic_load(&p->own[i].ticket)) > 0) return 0;
	}
	return !atomic_load(&p->closing);
}

// worker_main is the body of a worker thread.
static void *worker_main(void *arg) {
	Start s = *(Start *)arg;
	free(arg);
	Pool *p = s.pool;
	mode_set(mode_get() | FLUSH_DENORMALS);
	for (Spin idle = {0}; !atomic_load(&p->closing);) {
		if (run_tasks(p, s.index)) idle = (Spin){0};
		if (keep_spinning(&idle)) continue;
		pthread_mutex_lock(&p->lock);
		// Announce the sleep, then look once more: pool_run publishes first and reads
		// sleepers afterwards, so that either it sees this sleeper, or this thread sees
		// the job.
		atomic_fetch_add(&p->sleepers, 1);
		while (no_work(p)) pthread_cond_wait(&p->wake, &p->lock);
		atomic_fetch_sub(&p->sleepers, 1);
		pthread_mutex_unlock(&p->lock);
		idle = (Spin){0};
	}
	return NULL;
}

// wake_all wakes the workers that sleep. The lock makes sure that none of them is
// between its last look and its wait.
static void wake_all(Pool *p) {
	if (!atomic_load(&p->sleepers)) return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

// p->threads counts the threads that exist, so that pool_free is correct after a
// failure.
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
		if (!s || pthread_create(&p->ids[p->threads], NULL, worker_main, s)) {
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
	// The caller's mode is restored afterwards, since Go code runs on this thread.
	unsigned mode = mode_get();
	mode_set(mode | FLUSH_DENORMALS);
	if (n <= 1 || p->threads == 1) {
		for (i64 i = 0; i < n; i++) task(args, i, &p->workers[0]);
		mode_set(mode);
		return;
	}
	// Close all tickets before the fields change, so that nobody can claim meanwhile.
	uint64_t job = (atomic_load(&p->own[0].ticket) >> 32) + 1;
	for (int i = 0; i < p->threads; i++) atomic_store(&p->own[i].ticket, job << 32 | UINT32_MAX);
	atomic_store(&p->task, task);
	atomic_store(&p->args, args);
	atomic_store(&p->done, 0);
	atomic_store(&p->count, n);
	// Publish: from here on workers claim tasks.
	for (int i = 0; i < p->threads; i++) atomic_store(&p->own[i].ticket, (job + 1) << 32 | (uint64_t)first_task(n, i, p->threads));
	wake_all(p);
	run_tasks(p, 0);
	// Nothing is left to claim; wait for the workers that still run tasks.
	for (Spin last = {0}; atomic_load(&p->done) < n;) {
		if (!keep_spinning(&last)) sched_yield();
	}
	mode_set(mode);
}

// grow replaces a block that is too small. Its contents are lost.
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

// engine_alloc zeroes the memory after madvise, so that it is touched first when huge
// pages may be used.
void *engine_alloc(size_t bytes) {
	size_t unit = bytes > HUGE / 8 ? HUGE : 4096, size = (bytes + unit - 1) & ~(unit - 1);
	if (size == 0) size = 4096;
	void *p = NULL;
	if (posix_memalign(&p, size >= HUGE ? HUGE : 4096, size)) return NULL;
	if (size >= HUGE) madvise(p, size, MADV_HUGEPAGE); // a hint: kernels are 4 to 13 % faster where it is granted
	memset(p, 0, size);
	return p;
}

void engine_free(void *p) { free(p); }
