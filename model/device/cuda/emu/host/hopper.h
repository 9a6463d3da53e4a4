// hopper.h: products of a warpgroup (wgmma), as kernels/wgmma.cuh names them. They
// are asynchronous: until a wait demands one its registers are NaN. What it reads
// of shared memory it reads then, at the latest moment; with a block's threads run
// backwards when it is asked for, the earliest.
#ifndef HOPPER_H
#define HOPPER_H
#include "async.h"

#include <vector>

extern "C" void emu_group_barrier(); // of the 128 threads of a warpgroup
extern "C" void emu_fault(const char *what);
extern "C" int emu_early();
extern "C" int emu_block();
extern "C" void emu_fence();
extern "C" char *emu_fenced(uint32_t at);

// A product that was asked for: m64, n columns, k16.
struct Product {
	float *d, start[128], sums[128]; // this thread's n/2 numbers, and what it adds
	uint64_t a, b;
	int n, turned, group, block;
	bool follows; // d comes from the product before
};

// Products of a thread that nobody waited for yet, and whether it told that its
// registers are ready for them.
struct Products {
	std::vector<Product> pending;
	int group, block;
	bool armed;
};

static inline Products &emu_products() {
	static Products all[1024];
	Products &mine = all[threadIdx.x];
	if (mine.block != emu_block()) mine.pending.clear(), mine.group = 0, mine.armed = false, mine.block = emu_block();
	return mine;
}

// emu_line is row i of 64, or column i of n, of the matrix that a descriptor describes: its 16
// inner indices. As PTX's canonical layouts with 128-byte swizzle say, eight rows of
// 128 bytes are an atom, whose 16-byte pieces are exchanged by bits 7 to 9 of the
// address. Along k: rows are i, atoms follow at the stride offset. Turned: rows
// are k, atoms of more k follow at the stride offset, those of 64 more i at the leading one.
static inline void emu_line(float *line, uint64_t descriptor, bool turned, int i) {
	uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
	if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) emu_fault("a descriptor of another layout than 128-byte swizzle, base 0");
	uint16_t v[16];
	int together = turned ? 1 : 8; // numbers that lie side by side
	for (int k = 0; k < 16; k += together) {
		uint32_t at = turned ? start + i % 64 * 2 + i / 64 * leading + k % 8 * 128 + k / 8 * stride : start + i % 8 * 128 + i / 8 * stride + k * 2;
		memcpy(v + k, emu_fenced(at ^ (at >> 7 & 7) << 4), turned ? 2 : 16);
	}
	for (int k = 0; k < 16; k++) line[k] = emu_half(v[k], 0);
}

// emu_multiply computes this thread's part: rows g and g+8 of its warp's 16, columns 2t and the next of each 8.
static inline void emu_multiply(Product &p) {
	int warp = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
	float a[2][16], b[16];
	for (int h = 0; h < 2; h++) emu_line(a[h], p.a, p.turned & 1, 16 * warp + g + 8 * h);
	for (int c = 0; c < p.n / 4; c++) {
		emu_line(b, p.b, p.turned & 2, c / 2 * 8 + 2 * t + c % 2);
		float sum[2] = {};
		for (int k = 0; k < 16; k++) sum[0] += a[0][k] * b[k], sum[1] += a[1][k] * b[k];
		p.sums[c / 2 * 4 + c % 2] = sum[0], p.sums[c / 2 * 4 + 2 + c % 2] = sum[1];
	}
}

// All lanes of a warp ask for the same product.
template <int N, int TA, int TB> static inline void wgmma(float (*d)[4], uint64_t a, uint64_t b) {
	Products &mine = emu_products();
	const Given *first = emu_exchange(a, b);
	if (a != first->word[0] || b != first->word[1]) emu_fault("a warpgroup's product on which lanes disagree");
	if (!mine.armed) emu_fault("a warpgroup's product without wgmma.fence");
	Product p = {&d[0][0], {}, {}, a, b, N, TA | TB << 1, mine.group, 0, false};
	for (const Product &q : mine.pending) p.follows |= q.d == p.d;
	memcpy(p.start, p.d, N / 2 * sizeof(float));
	memset(p.d, 0xff, N / 2 * sizeof(float));
	if (emu_early()) emu_multiply(p);
	mine.pending.push_back(p);
}

static inline void wgmma_fence() { emu_products().armed = true; }
static inline void wgmma_commit() { emu_products().group++; }

template <int LEFT> static inline void wgmma_wait() {
	Products &mine = emu_products();
	size_t n = 0;
	for (; n < mine.pending.size() && mine.pending[n].group < mine.group - LEFT; n++) {
		Product &p = mine.pending[n];
		if (!emu_early()) emu_multiply(p);
		for (int i = 0; i < p.n / 2; i++) p.d[i] = (p.follows ? p.d[i] : p.start[i]) + p.sums[i];
	}
	for (size_t i = n; i < mine.pending.size(); i++) { // registers of those that go on stay unknown
		Product &p = mine.pending[i];
		bool before = false;
		for (size_t j = n; j < i; j++) before |= mine.pending[j].d == p.d;
		if (before) continue;
		if (p.follows) memcpy(p.start, p.d, p.n / 2 * sizeof(float));
		p.follows = false;
		memset(p.d, 0xff, p.n / 2 * sizeof(float));
	}
	mine.pending.erase(mine.pending.begin(), mine.pending.begin() + n);
	if (mine.pending.empty()) mine.armed = false;
}

static inline void proxy_fence() { emu_fence(); }
static inline void group_barrier(int) { emu_group_barrier(); }

#endif
