// async.cuh: the instructions that feed tensor cores, on Ampere and later: asynchronous
// copies from device memory to shared memory (cp.async), and loads of matrix fragments
// from shared memory to registers (ldmatrix). Both address shared memory by 32-bit
// addresses in the shared window.
//
// Copies complete in groups. A thread's copies belong to the group that its next
// copy_commit closes. copy_wait<N> blocks until all but the N newest groups of the
// calling thread have arrived, which is how a pipeline keeps N stages in flight. It
// says nothing about copies of other threads: those are visible only after a barrier
// that follows their wait.
#ifndef ASYNC_CUH
#define ASYNC_CUH
#include "common.cuh"

#ifndef EMULATOR
// shared_address returns the 32-bit address of a pointer to shared memory.
DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// copy16 starts a copy of 16 bytes to shared memory: the first `bytes` come from
// `from`, the others are zeros. Both addresses must be multiples of 16. With 0 bytes
// the source is not read. The copy bypasses L1 (.cg), since it is shared memory that
// holds the data for reuse.
//
// If the compiler can see that `bytes` is either 0 or 16, it emits one predicated
// instruction; any other value takes five.
DEVICE void copy16(u32 to, const void *from, int bytes) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}
DEVICE void copy16(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ldmatrix4 loads four 8 x 8 matrices of 16-bit elements. Lane l supplies the address
// of row l%8 of matrix l/8, which is 16 bytes long. Register r[i] of lane l then holds
// columns 2(l%4) and 2(l%4)+1 of row l/4 of matrix i: the layout of the operands of
// mma.m16n8k16. ldmatrix4_trans transposes each matrix: r[i] holds rows 2(l%4) and
// 2(l%4)+1 of column l/4.
//
// An access is free of bank conflicts if the eight rows of a matrix lie in different
// groups of four banks. Callers pad or swizzle their rows to that end.
DEVICE void ldmatrix4(u32 *r, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix4_trans(u32 *r, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
#endif

#endif
