// hopper.h: Hopper's warpgroup instructions (wgmma), under the names of
// kernels/wgmma.cuh.
//
// They are asynchronous. From wgmma until the wait that requires it, the accumulators
// are NaN, so that a kernel that reads them too early is found. Shared memory is read
// at the latest moment, in the wait, or, if a block's threads run backwards, at the
// earliest, when the instruction is issued.
#ifndef HOPPER_H
#define HOPPER_H
#include "async.h"

#include <vector>

extern "C" void emu_group_barrier(); // of the 128 threads of a warpgroup
extern "C" int emu_early();
extern "C" int emu_block();
extern "C" void emu_fence();

// emu_fenced returns the element at a shared address, for wgmma to read.
static inline char *emu_fenced(uint32_t at) {
	char *p = emu_shared(at, 2);
	if (emu_unfenced[(p - emu_dynamic) / 16]) emu_fault = "tensor cores read what a thread copied without fence.proxy.async";
	return p;
}

// PendingWgmma is an issued m64 x n x k16 instruction of one thread.
struct PendingWgmma {
	float *d;          // the thread's n/2 accumulators
	float start[128];  // their values when the instruction was issued
	float sums[128];   // what it adds to them
	uint64_t a, b;     // matrix descriptors
	int n;             // columns
	int mn_major;      // bit 0: of a, bit 1: of b
	int group, block;
	bool chained;      // an earlier pending instruction has the same accumulators
};

// WgmmaQueue is the pending instructions of a thread. fenced says that it called
// wgmma_fence, which must precede the first of them.
struct WgmmaQueue {
	std::vector<PendingWgmma> pending;
	int group, block;
	bool fenced;
};

// emu_wgmma_queue returns the calling thread's queue, emptied at the start of a block.
static inline WgmmaQueue &emu_wgmma_queue() {
	static WgmmaQueue all[1024];
	WgmmaQueue &mine = all[threadIdx.x];
	if (mine.block != emu_block()) mine.pending.clear(), mine.group = 0, mine.fenced = false, mine.block = emu_block();
	return mine;
}

// emu_operand_line reads the 16 inner indices of row i of a (0 to 63), or of column i
// of b, of the operand that a matrix descriptor describes.
//
// It follows PTX's canonical layouts with 128-byte swizzle: eight rows of 128 bytes
// form an atom, whose 16-byte pieces are permuted by XOR with bits 7 to 9 of the
// address. K-major: rows are i, and atoms follow each other at the stride byte offset.
// MN-major: rows are k; atoms of larger k follow at the stride byte offset, those of
// the next 64 i at the leading byte offset.
static inline void emu_operand_line(float *line, uint64_t descriptor, bool mn_major, int i) {
	uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
	if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) emu_fault = "a descriptor of another layout than 128-byte swizzle, base 0";
	uint16_t v[16];
	int run = mn_major ? 1 : 8; // elements that are contiguous
	for (int k = 0; k < 16; k += run) {
		uint32_t at = mn_major ? start + i % 64 * 2 + i / 64 * leading + k % 8 * 128 + k / 8 * stride : start + i % 8 * 128 + i / 8 * stride + k * 2;
		memcpy(v + k, emu_fenced(at ^ (at >> 7 & 7) << 4), mn_major ? 2 : 16);
	}
	for (int k = 0; k < 16; k++) line[k] = emu_widen(v[k], 0);
}

// emu_dots returns the dot products (row 0, column 0), (0, 1), (1, 0) and (1, 1) of 16
// elements, each summed in float32 in order.
typedef float emu_four __attribute__((vector_size(16)));
static inline emu_four emu_dots(const float (*row)[16], const float (*column)[16]) {
	emu_four sum = {};
	for (int k = 0; k < 16; k++) {
		emu_four x = {row[0][k], row[0][k], row[1][k], row[1][k]}, y = {column[0][k], column[1][k], column[0][k], column[1][k]};
		sum += x * y;
	}
	return sum;
}

// emu_multiply computes this thread's part of the product: rows g and g+8 of its warp's
// 16, columns 2t and 2t+1 of each 8.
static inline void emu_multiply(PendingWgmma &p) {
	int warp = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
	float row[2][16], column[2][16];
	for (int h = 0; h < 2; h++) emu_operand_line(row[h], p.a, p.mn_major & 1, 16 * warp + g + 8 * h);
	for (int c = 0; c < p.n / 8; c++) {
		for (int h = 0; h < 2; h++) emu_operand_line(column[h], p.b, p.mn_major & 2, 8 * c + 2 * t + h);
		emu_four sum = emu_dots(row, column);
		memcpy(p.sums + 4 * c, &sum, sizeof sum);
	}
}

// wgmma checks that all lanes issue the same instruction after a fence, and queues it.
template <int N, int TA, int TB> static inline void wgmma(float (*d)[4], uint64_t a, uint64_t b) {
	WgmmaQueue &mine = emu_wgmma_queue();
	const LaneWords *first = emu_exchange(a, b);
	if (a != first->word[0] || b != first->word[1]) emu_fault = "a warpgroup's product on which lanes disagree";
	if (!mine.fenced) emu_fault = "a warpgroup's product without wgmma.fence";
	PendingWgmma p = {&d[0][0], {}, {}, a, b, N, TA | TB << 1, mine.group, 0, false};
	for (const PendingWgmma &q : mine.pending) p.chained |= q.d == p.d;
	memcpy(p.start, p.d, N / 2 * sizeof(float));
	memset(p.d, 0xff, N / 2 * sizeof(float));
	if (emu_early()) emu_multiply(p);
	mine.pending.push_back(p);
}

static inline void wgmma_fence() { emu_wgmma_queue().fenced = true; }
static inline void wgmma_commit() { emu_wgmma_queue().group++; }

// wgmma_wait completes all but the LEFT newest groups. Accumulators of instructions
// that stay pending become NaN again: reading them is an error even if earlier
// instructions on them have completed.
template <int LEFT> static inline void wgmma_wait() {
	WgmmaQueue &mine = emu_wgmma_queue();
	size_t n = 0;
	for (; n < mine.pending.size() && mine.pending[n].group < mine.group - LEFT; n++) {
		PendingWgmma &p = mine.pending[n];
		if (!emu_early()) emu_multiply(p);
		for (int i = 0; i < p.n / 2; i++) p.d[i] = (p.chained ? p.d[i] : p.start[i]) + p.sums[i];
	}
	for (size_t i = n; i < mine.pending.size(); i++) {
		PendingWgmma &p = mine.pending[i];
		bool before = false;
		for (size_t j = n; j < i; j++) before |= mine.pending[j].d == p.d;
		if (before) continue;
		if (p.chained) memcpy(p.start, p.d, p.n / 2 * sizeof(float));
		p.chained = false;
		memset(p.d, 0xff, p.n / 2 * sizeof(float));
	}
	mine.pending.erase(mine.pending.begin(), mine.pending.begin() + n);
	if (mine.pending.empty()) mine.fenced = false;
}

static inline void proxy_fence() { emu_fence(); }
static inline void group_barrier(int) { emu_group_barrier(); }

#endif
