// async.h: Ampere's asynchronous copies and fragment loads, under the names of
// kernels/async.cuh.
//
// A copy is performed as late as the hardware may: at the wait that requires it. If a
// block's threads run backwards (order 2), it is performed as early as possible, when
// it is issued. A kernel that reads too early, or overwrites the source or a stage too
// early, differs from the reference in one of the two.
//
// An address in shared memory is an offset in the block's dynamic shared memory.
#ifndef ASYNC_H
#define ASYNC_H
#include "emulator.h"

extern "C" void emu_copy(uint32_t to, const void *from, int bytes);
extern "C" void emu_commit();
extern "C" void emu_wait(int groups);

extern char *emu_dynamic_end; // end of dynamic shared memory
extern const char *emu_fault; // what a thread did that hardware does not allow

// emu_unfenced has, for each 16 bytes of dynamic shared memory, 1 + the thread whose copy
// is not yet visible to wgmma, because that thread has not executed a proxy fence since;
// or 0. Direct stores are not tracked.
extern int emu_unfenced[];

// emu_shared returns `bytes` bytes of shared memory at an address that must be a
// multiple of `bytes`.
static inline char *emu_shared(uint32_t at, int bytes) {
	if (at % bytes) emu_fault = "an address in shared memory that is not a multiple of its width";
	if (at + (uint64_t)bytes > (uint64_t)(emu_dynamic_end - emu_dynamic)) {
		emu_fault = "an address outside the block's shared memory";
		return emu_dynamic;
	}
	return emu_dynamic + at;
}

static inline uint32_t shared_address(const void *p) { return (uint32_t)((const char *)p - emu_dynamic); }
static inline void copy16(uint32_t to, const void *from, int bytes = 16) { emu_copy(to, from, bytes); }
static inline void copy_commit() { emu_commit(); }
template <int N> static inline void copy_wait() { emu_wait(N); }

// Every lane contributes the 16-byte row at its address; lane 8i+r has row r of matrix i.
static inline void emu_ldmatrix(uint32_t *r, uint32_t at, bool turned) {
	uint64_t row[2] = {};
	int lane = threadIdx.x % 32;
	memcpy(row, emu_shared(at, 16), 16);
	const LaneWords *all = emu_exchange(row[0], row[1]);
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
