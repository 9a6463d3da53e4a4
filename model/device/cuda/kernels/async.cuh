// async.cuh: what brings tiles to tensor cores: copies to shared memory that run
// beside the computation (cp.async), and loads of fragments from there
// (ldmatrix). Shared memory is named by its 32-bit address, which both want.
//
// A thread's copies belong to the group that its next copy_commit closes;
// copy_wait<N> waits until all but the N newest groups have arrived. Other threads
// see them after a barrier that follows the wait.
#ifndef ASYNC_CUH
#define ASYNC_CUH
#include "common.cuh"

#ifndef EMULATOR
DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// copy16 brings 16 bytes to `to`: the first `bytes` from `from`, then zeros. Both
// addresses are multiples of 16; with 0 bytes nothing is read. A count that is seen to be
// 0 or 16 takes a predicate, any other five instructions.
DEVICE void copy16(u32 to, const void *from, int bytes) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}
DEVICE void copy16(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ldmatrix4 loads four 8 x 8 matrices of 16-bit numbers; lane l gives the address
// of row l%8 of matrix l/8 (16 bytes). Word i of lane l holds, of matrix i, row
// l/4, columns 2(l%4) and the next; turned: rows 2(l%4) and the next of column l/4.
DEVICE void ldmatrix4(u32 *r, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix4_turned(u32 *r, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
#endif

#endif
