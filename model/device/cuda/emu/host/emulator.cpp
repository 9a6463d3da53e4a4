// emulator.cpp: the blocks' threads as fibres on one processor (x86-64).
#include "emulator.h"
#include "async.h"
#include "hopper.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

Index threadIdx, blockIdx, blockDim, gridDim;
char *emu_dynamic;

// Weak: there may be none.
extern char __start_emushared[] __attribute__((weak)), __stop_emushared[] __attribute__((weak));

namespace {

enum { MOST = 1024, STACK = 64 << 10 };
enum State { READY, AT_WARP, AT_GROUP, AT_BLOCK, DONE };

enum { SHARED_MOST = 232448 }; // bytes that a Hopper block may have
enum { GROUP = 128 };          // threads of a warpgroup

char *dynamic_end;
void *stacks, *saved[MOST], *scheduler;
State state[MOST];
Given given[MOST], taken[MOST / 32][32];
int turns[32]; // the lanes of a warp in the chosen order
int current, order, at_warp[MOST / 32], at_group[MOST / GROUP], at_block, blocks;
const char *fault; // what a thread did that hardware would not do
void (*kernel)(const void *);
const void *kernel_args;

// fibre_switch(&from, to) saves the registers a call preserves, and goes on at to.
extern "C" void fibre_switch(void **from, void *to);
asm(R"(
	.globl fibre_switch
	.type fibre_switch, @function
fibre_switch:
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

void fibre_main() {
	kernel(kernel_args);
	state[current] = DONE;
	fibre_switch(&saved[current], scheduler);
	abort();
}

void wait(State s, int *count) {
	int me = current;
	state[me] = s;
	++*count;
	fibre_switch(&saved[me], scheduler);
}

// Copies of a thread that nobody waited for yet, by group.
struct Copy {
	uint32_t to;
	const void *from;
	int bytes, group;
};
struct Copies {
	std::vector<Copy> pending;
	std::vector<int> fresh; // where its copies arrived since its last fence, in 16 bytes
	int group;
} copies[MOST];

// For each 16 bytes of shared memory the thread, counted from 1, whose copy the
// tensor cores may not see yet: it did not pass a fence since.
int unfenced[SHARED_MOST / 16];

void arrive(const Copy &c) {
	char *to = emu_shared(c.to, 16);
	int at = (to - emu_dynamic) / 16;
	unfenced[at] = current + 1;
	copies[current].fresh.push_back(at);
	memset(to, 0, 16);
	if (c.bytes) memcpy(to, c.from, c.bytes);
}

void start(int i) {
	copies[i].pending.clear();
	copies[i].fresh.clear();
	copies[i].group = 0;
	void **sp = (void **)((char *)stacks + (size_t)(i + 1) * STACK) - 2; // as after a call: 8 off 16
	*sp = (void *)fibre_main;
	sp -= 6;
	saved[i] = sp;
	state[i] = READY;
}

void resume(int i) {
	current = i;
	threadIdx.x = i;
	fibre_switch(&scheduler, saved[i]);
}

// turn is the i-th of n in the chosen order: forwards, backwards, or odd steps.
int turn(int i, int n) {
	if (order == 2) return n - 1 - i;
	if (order == 3) return n % 5 ? (i * 5 + 3) % n : (i * 3 + 1) % n;
	return i;
}

// run_warp runs the lanes until all wait for the block or are done.
void run_warp(int first, const char **trouble) {
	for (int *waiting = &at_warp[first / 32];;) {
		*waiting = 0;
		for (int i = 0; i < 32; i++) {
			int t = first + turns[i];
			if (state[t] == READY) resume(t);
		}
		if (*waiting == 0) return;
		if (*waiting != 32) {
			*trouble = "an exchange within a warp that some lanes do not reach";
			return;
		}
		memcpy(taken[first / 32], given + first, sizeof taken[0]);
		for (int i = first; i < first + 32; i++) state[i] = READY;
	}
}

// release lets warpgroups go on of which all threads wait for each other.
bool release(int threads, const char **trouble) {
	bool any = false;
	for (int g = 0; g * GROUP < threads; g++) {
		if (at_group[g] == 0) continue;
		if (at_group[g] != GROUP) *trouble = "a warpgroup's barrier that some threads do not reach";
		for (int i = g * GROUP; i < threads && i < (g + 1) * GROUP; i++) state[i] = READY;
		at_group[g] = 0;
		any = true;
	}
	return any;
}

const char *run_block(int threads) {
	memset(__start_emushared, 0xff, __stop_emushared - __start_emushared);
	memset(emu_dynamic, 0xff, dynamic_end - emu_dynamic);
	memset(unfenced, 0, sizeof unfenced);
	memset(at_group, 0, sizeof at_group);
	fault = NULL;
	at_block = 0;
	blocks++;
	for (int i = 0; i < threads; i++) start(i);
	for (const char *trouble = NULL;;) {
		for (int w = 0; w < threads / 32 && !trouble; w++) run_warp(turn(w, threads / 32) * 32, &trouble);
		if (!trouble) trouble = fault;
		bool again = !trouble && release(threads, &trouble);
		if (trouble) return trouble;
		if (again) continue;
		if (at_block == 0) return NULL;
		if (at_block != threads) return "a barrier that some threads do not reach";
		at_block = 0;
		for (int i = 0; i < threads; i++) state[i] = READY;
	}
}

} // namespace

const Given *emu_exchange(uint64_t a, uint64_t b, uint64_t c) {
	given[current] = {{a, b, c}};
	wait(AT_WARP, &at_warp[current / 32]);
	return taken[current / 32];
}

extern "C" void __syncthreads_emu() { wait(AT_BLOCK, &at_block); }

extern "C" void emu_group_barrier() { wait(AT_GROUP, &at_group[current / GROUP]); }
extern "C" void emu_fault(const char *what) { fault = what; }
extern "C" int emu_early() { return order == 2; }
extern "C" int emu_block() { return blocks; }

extern "C" void emu_fence() {
	for (int at : copies[current].fresh)
		if (unfenced[at] == current + 1) unfenced[at] = 0;
	copies[current].fresh.clear();
}

extern "C" char *emu_fenced(uint32_t at) {
	char *p = emu_shared(at, 2);
	if (unfenced[(p - emu_dynamic) / 16]) fault = "tensor cores read what a thread copied without fence.proxy.async";
	return p;
}

extern "C" char *emu_shared(uint32_t at, int bytes) {
	if (at % bytes) fault = "an address in shared memory that is not a multiple of its width";
	if (at + (uint64_t)bytes > (uint64_t)(dynamic_end - emu_dynamic)) {
		fault = "an address outside the block's shared memory";
		return emu_dynamic;
	}
	return emu_dynamic + at;
}

extern "C" void emu_copy(uint32_t to, const void *from, int bytes) {
	if ((uintptr_t)from % 16) fault = "an asynchronous copy from an address that is not a multiple of 16";
	if (bytes < 0 || bytes > 16) fault = "an asynchronous copy of more than 16 bytes";
	Copy c = {to, from, bytes, copies[current].group};
	if (order == 2) arrive(c);
	else copies[current].pending.push_back(c);
}

extern "C" void emu_commit() { copies[current].group++; }

extern "C" void emu_wait(int groups) {
	Copies &mine = copies[current];
	size_t n = 0;
	while (n < mine.pending.size() && mine.pending[n].group < mine.group - groups) arrive(mine.pending[n++]);
	mine.pending.erase(mine.pending.begin(), mine.pending.begin() + n);
}

// guarded is memory that ends, but for up to 15 bytes, at a page that may not be
// touched, so that running over the end is seen.
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

// emu_launch runs a kernel; it returns what went wrong, or NULL.
extern "C" const char *emu_launch(void (*k)(const void *), const void *args, int grid, int threads, int shared, int how) {
	if (!stacks) {
		stacks = mmap(NULL, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		char *dynamic = guarded(SHARED_MOST);
		if (stacks == MAP_FAILED || !dynamic) return "no memory for stacks";
		dynamic_end = dynamic + SHARED_MOST;
	}
	if (shared > SHARED_MOST) return "more shared memory than a block may have";
	emu_dynamic = dynamic_end - (shared + 15) / 16 * 16;
	kernel = k;
	kernel_args = args;
	order = how;
	for (int i = 0; i < 32; i++) turns[i] = turn(i, 32);
	gridDim.x = grid;
	blockDim.x = threads;
	for (int b = 0; b < grid; b++) {
		blockIdx.x = how == 2 ? grid - 1 - b : b;
		const char *trouble = run_block(threads);
		if (trouble) return trouble;
	}
	return NULL;
}
