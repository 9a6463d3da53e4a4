// emulator.cpp: runs a kernel's blocks on one thread of an x86-64 processor, the
// block's threads as fibers.
//
// A fiber runs until it waits: for its warp (an exchange), its warpgroup, or its block.
// The scheduler runs all lanes of a warp up to an exchange, hands out the exchanged
// words, and continues until all lanes wait for a barrier; then it runs the next warp.
// When all warps wait, it releases the barrier. A barrier or exchange that only some
// threads reach is an error, since on a GPU it hangs or is undefined.
//
// The order in which lanes and warps run is a parameter. A kernel with a data race
// gives different results in different orders, unless the race has no effect in any of
// the three.
//
// What the emulator cannot find: races between blocks, which run one after another;
// missing memory fences, other than the proxy fence for copies; a kernel that reads its
// predecessor's results too early, since launches do not overlap; and everything about
// speed (bank conflicts, coalescing, occupancy, register spills).
#include "emulator.h"
#include "async.h"
#include "hopper.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

Index threadIdx, blockIdx, blockDim, gridDim;
WarpProduct emu_products[1024 / 32];
char *emu_dynamic, *emu_dynamic_end;
const char *emu_fault;
enum { MAX_SHARED = 232448 }; // bytes of shared memory that a Hopper block may have (227 KiB)
int emu_unfenced[MAX_SHARED / 16];

// The linker defines these at the ends of the section of static shared memory. Weak: no
// kernel may have any.
extern char __start_emushared[] __attribute__((weak)), __stop_emushared[] __attribute__((weak));

namespace {

enum { MAX_THREADS = 1024 }; // of a block
enum { STACK = (64 << 10) + 320 }; // bytes of a fiber's stack; at a power of two, all stacks would share cache sets
enum State { READY, AT_WARP, AT_GROUP, AT_BLOCK, DONE };

enum { GROUP = 128 };          // threads of a warpgroup

void *stacks, *saved[MAX_THREADS], *scheduler; // saved stack pointers of the fibers and of the scheduler
State state[MAX_THREADS];
LaneWords contributed[MAX_THREADS]; // to the exchange that a warp waits for
LaneWords exchanged[MAX_THREADS / 32][32]; // the words of each warp's last exchange
int lane_order[32]; // the lanes of a warp in the chosen order
int current, order; // the running thread; 1 forwards, 2 backwards, 3 mixed
int at_warp[MAX_THREADS / 32], at_group[MAX_THREADS / GROUP], at_block; // threads that wait there
int blocks;         // blocks that have started, to recognize state of an earlier one
void (*kernel)(const void *);
const void *kernel_args;

// fiber_switch(&from, to) pushes the registers that a call preserves, stores the stack
// pointer in from, and resumes the fiber whose stack pointer is to.
extern "C" void fiber_switch(void **from, void *to);
asm(R"(
	.globl fiber_switch
	.type fiber_switch, @function
fiber_switch:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
)");

// fiber_main is what a fiber runs. It never returns: there is no frame to return to.
void fiber_main() {
	kernel(kernel_args);
	state[current] = DONE;
	fiber_switch(&saved[current], scheduler);
	abort();
}

// suspend counts the running thread among those that wait in state s and returns to the
// scheduler.
void suspend(State s, int *count) {
	int me = current;
	state[me] = s;
	++*count;
	fiber_switch(&saved[me], scheduler);
}

// Copy is an issued cp.async; Copies are those of one thread that no wait has
// completed, by group.
struct Copy {
	uint32_t to;
	const void *from;
	int bytes, group;
};
struct Copies {
	std::vector<Copy> pending;
	std::vector<int> landed; // 16-byte units that its copies wrote since its last proxy fence
	int group;
} copies[MAX_THREADS];

// complete performs a copy. It is called while the thread that issued it runs.
void complete(const Copy &c) {
	char *to = emu_shared(c.to, 16);
	int at = (to - emu_dynamic) / 16;
	emu_unfenced[at] = current + 1;
	copies[current].landed.push_back(at);
	memset(to, 0, 16);
	if (c.bytes) memcpy(to, c.from, c.bytes);
}

// start prepares fiber i: its stack looks as if fiber_main had called fiber_switch.
void start(int i) {
	copies[i].pending.clear();
	copies[i].landed.clear();
	copies[i].group = 0;
	void **sp = (void **)((char *)stacks + (size_t)(i + 1) * STACK) - 2; // the ABI: at a function's entry the stack is 8 bytes off a multiple of 16
	*sp = (void *)fiber_main;
	sp -= 6;
	saved[i] = sp;
	state[i] = READY;
}

void resume(int i) {
	current = i;
	threadIdx.x = i;
	fiber_switch(&scheduler, saved[i]);
}

// permuted returns the i-th of n in the chosen order: forwards, backwards, or in steps
// of 5 (or 3, if n is a multiple of 5), a permutation.
int permuted(int i, int n) {
	if (order == 2) return n - 1 - i;
	if (order == 3) return n % 5 ? (i * 5 + 3) % n : (i * 3 + 1) % n;
	return i;
}

// run_warp runs the lanes until all of them wait for a barrier or are done.
void run_warp(int first, const char **error) {
	for (int *waiting = &at_warp[first / 32];;) {
		*waiting = 0;
		for (int i = 0; i < 32; i++) {
			int t = first + lane_order[i];
			if (state[t] == READY) resume(t);
		}
		if (*waiting == 0) return;
		if (*waiting != 32) {
			*error = "an exchange within a warp that some lanes do not reach";
			return;
		}
		memcpy(exchanged[first / 32], contributed + first, sizeof exchanged[0]);
		emu_products[first / 32].done = false;
		for (int i = first; i < first + 32; i++) state[i] = READY;
	}
}

// release_groups resumes the warpgroups all of whose threads wait at their barrier. It
// reports whether there were any.
bool release_groups(int threads, const char **error) {
	bool any = false;
	for (int g = 0; g * GROUP < threads; g++) {
		if (at_group[g] == 0) continue;
		if (at_group[g] != GROUP) *error = "a warpgroup's barrier that some threads do not reach";
		for (int i = g * GROUP; i < threads && i < (g + 1) * GROUP; i++) state[i] = READY;
		at_group[g] = 0;
		any = true;
	}
	return any;
}

// run_block runs a block and returns what went wrong, or NULL. Shared memory starts as
// NaN.
const char *run_block(int threads) {
	memset(__start_emushared, 0xff, __stop_emushared - __start_emushared);
	memset(emu_dynamic, 0xff, emu_dynamic_end - emu_dynamic);
	memset(emu_unfenced, 0, (emu_dynamic_end - emu_dynamic) / 16 * sizeof *emu_unfenced);
	memset(at_group, 0, sizeof at_group);
	emu_fault = NULL;
	at_block = 0;
	blocks++;
	for (int i = 0; i < threads; i++) start(i);
	for (const char *error = NULL;;) {
		for (int w = 0; w < threads / 32 && !error; w++) run_warp(permuted(w, threads / 32) * 32, &error);
		if (!error) error = emu_fault;
		bool released = !error && release_groups(threads, &error);
		if (error) return error;
		if (released) continue;
		if (at_block == 0) return NULL;
		if (at_block != threads) return "a barrier that some threads do not reach";
		at_block = 0;
		for (int i = 0; i < threads; i++) state[i] = READY;
	}
}

} // namespace

const LaneWords *emu_exchange(uint64_t a, uint64_t b, uint64_t c) {
	contributed[current] = {{a, b, c}};
	suspend(AT_WARP, &at_warp[current / 32]);
	return exchanged[current / 32];
}

extern "C" void __syncthreads_emu() { suspend(AT_BLOCK, &at_block); }

extern "C" void emu_group_barrier() { suspend(AT_GROUP, &at_group[current / GROUP]); }
extern "C" int emu_early() { return order == 2; }
extern "C" int emu_block() { return blocks; }

// emu_fence is the proxy fence: it makes the calling thread's copies visible to wgmma.
extern "C" void emu_fence() {
	for (int at : copies[current].landed)
		if (emu_unfenced[at] == current + 1) emu_unfenced[at] = 0;
	copies[current].landed.clear();
}

extern "C" void emu_copy(uint32_t to, const void *from, int bytes) {
	if ((uintptr_t)from % 16) emu_fault = "an asynchronous copy from an address that is not a multiple of 16";
	if (bytes < 0 || bytes > 16) emu_fault = "an asynchronous copy of more than 16 bytes";
	Copy c = {to, from, bytes, copies[current].group};
	if (order == 2) complete(c);
	else copies[current].pending.push_back(c);
}

extern "C" void emu_commit() { copies[current].group++; }

extern "C" void emu_wait(int groups) {
	Copies &mine = copies[current];
	size_t n = 0;
	while (n < mine.pending.size() && mine.pending[n].group < mine.group - groups) complete(mine.pending[n++]);
	mine.pending.erase(mine.pending.begin(), mine.pending.begin() + n);
}

// guarded allocates memory whose end, up to alignment to 16 bytes, coincides with the
// start of an inaccessible page: an access beyond the end faults.
static char *guarded(size_t bytes) {
	size_t page = 4096, body = (bytes + page - 1) / page * page;
	char *p = (char *)mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + body, page, PROT_NONE)) return NULL;
	return p + (body - bytes) / 16 * 16;
}

extern "C" void *emu_alloc(size_t bytes) { return guarded(bytes); }

extern "C" void emu_free(void *p, size_t bytes) {
	size_t page = 4096, body = (bytes + page - 1) / page * page;
	munmap((char *)((uintptr_t)p / page * page), body + page);
}

// emu_launch runs kernel k with `grid` blocks of `threads` threads and `shared` bytes
// of dynamic shared memory, in order `how`. It returns what went wrong, or NULL. It is
// not reentrant.
extern "C" const char *emu_launch(void (*k)(const void *), const void *args, int grid, int threads, int shared, int how) {
	if (!stacks) {
		stacks = mmap(NULL, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		char *dynamic = guarded(MAX_SHARED);
		if (stacks == MAP_FAILED || !dynamic) return "no memory for the fibers' stacks";
		emu_dynamic_end = dynamic + MAX_SHARED;
	}
	if (shared > MAX_SHARED) return "more shared memory than a block may have";
	emu_dynamic = emu_dynamic_end - (shared + 15) / 16 * 16; // so that the end is guarded for every size
	kernel = k;
	kernel_args = args;
	order = how;
	for (int i = 0; i < 32; i++) lane_order[i] = permuted(i, 32);
	gridDim.x = grid;
	blockDim.x = threads;
	for (int b = 0; b < grid; b++) {
		blockIdx.x = how == 2 ? grid - 1 - b : b;
		const char *error = run_block(threads);
		if (error) return error;
	}
	return NULL;
}
