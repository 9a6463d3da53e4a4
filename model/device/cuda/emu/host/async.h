// async.h: Ampere's asynchronous copies and loads of fragments, as kernels/async.cuh
// names them. A copy happens as late as it may, at the wait that demands it; with a
// block's threads run backwards, as early as it may. A shared address is an
// offset in dynamic shared memory.
#ifndef ASYNC_H
#define ASYNC_H
#include "emulator.h"

extern "C" void emu_copy(uint32_t to, const void *from, int bytes);
extern "C" void emu_commit();
extern "C" void emu_wait(int groups);
// emu_shared is `bytes` bytes of shared memory at an address that is a multiple of them.
extern "C" char *emu_shared(uint32_t at, int bytes);

static inline uint32_t shared_address(const void *p) { return (uint32_t)((const char *)p - emu_dynamic); }
static inline void copy16(uint32_t to, const void *from, int bytes = 16) { emu_copy(to, from, bytes); }
static inline void copy_commit() { emu_commit(); }
template <int N> static inline void copy_wait() { emu_wait(N); }

static inline void emu_ldmatrix(uint32_t *r, uint32_t at, bool turned) {
	uint64_t row[2] = {};
	int lane = threadIdx.x % 32;
	memcpy(row, emu_shared(at, 16), 16);
	const Given *all = emu_exchange(row[0], row[1]);
	for (int i = 0; i < 4; i++) {
		auto number = [&](int row, int col) {
			return (uint32_t)(all[8 * i + row].word[col / 4] >> (16 * (col % 4)) & 0xffff);
		};
		int a = lane / 4, b = 2 * (lane % 4);
		r[i] = turned ? number(b, a) | number(b + 1, a) << 16 : number(a, b) | number(a, b + 1) << 16;
	}
}
static inline void ldmatrix4(uint32_t *r, uint32_t at) { emu_ldmatrix(r, at, false); }
static inline void ldmatrix4_trans(uint32_t *r, uint32_t at) { emu_ldmatrix(r, at, true); }

#endif
