// wgmma.cuh: Hopper's asynchronous matrix multiplication by a warpgroup (128 threads):
// d += a b with a 64 x 16 and b 16 x n, both bf16 in shared memory, and d in the
// registers of the warpgroup, in float32.
//
// Warp w of the group has rows 16w to 16w+15. The layout within them is that of
// mma.m16n8k16 (mma.cuh): with g = lane/4 and t = lane%4, a lane has rows g and g+8
// and, of every eight columns, 2t and 2t+1, in d[column/8][2*(row/8%2) + column%2].
//
// Operands are stored in slabs: rows of 64 elements (128 bytes), with the 128-byte
// swizzle, in which 16-byte piece j of row r is stored at place j ^ r%8 of its row.
// Accesses down a column of pieces then touch all banks. A slab begins at a multiple of
// 1024 bytes. Its rows are the operand's rows of the result and run along the inner
// index (K-major); or, if MN_MAJOR, they are inner indices.
//
// Tensor cores read shared memory through the async proxy, and wgmma reads registers
// asynchronously. The required order is therefore:
//
//    1. the copies to a slab arrive (copy_wait);
//    2. each thread that copied calls proxy_fence, which makes its copies visible to
//       the async proxy;
//    3. a barrier, after which all threads' copies are visible;
//    4. wgmma_fence, which orders earlier accesses to the accumulators;
//    5. any number of wgmma, then wgmma_commit, which closes the group;
//    6. wgmma_wait. Until then the accumulators must not be touched and the slabs not
//       overwritten.
#ifndef WGMMA_CUH
#define WGMMA_CUH
#include "async.cuh"

// Bytes of a slab of 64 rows and of one of its rows; threads of a warpgroup.
enum { SLAB = 8192, ROW = 128, GROUP = 128 };

// warpgroup returns the index of the thread's warpgroup in its block. The shuffle, of a
// value that all lanes share, shows the compiler that the result is uniform in the
// warp.
DEVICE int warpgroup() { return __shfl_sync(FULL, (int)threadIdx.x / GROUP, 0); }

// descriptor returns the matrix descriptor of an operand at a shared address (PTX,
// "matrix descriptor"). It holds, each divided by 16: the address; the leading byte
// offset, which is the distance of two slabs along the rows of an MN-major operand and
// unused (1 by convention) for a K-major one; and the stride byte offset, 1024 for
// eight rows of 128 bytes. The top bits select the 128-byte swizzle.
template <bool MN_MAJOR> DEVICE u64 descriptor(u32 at) {
	return (u64)(at & 0x3ffff) >> 4 | (u64)(MN_MAJOR ? SLAB >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// swizzled returns the offset in bytes of 16-byte piece j of row r of a slab.
DEVICE u32 swizzled(int r, int j) { return r * ROW + ((j ^ r % 8) << 4); }

#ifndef EMULATOR
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

// proxy_fence makes what this thread wrote to shared memory, directly or by cp.async,
// visible to wgmma.
DEVICE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// group_barrier synchronizes the threads of one warpgroup of the block. Barrier 0 is
// __syncthreads.
DEVICE void group_barrier(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Wgmma wraps one instruction for each number of columns N, since the number of
// register operands is part of the instruction. TA and TB are 1 for MN-major operands.
// The constants 1, 1, 1 mean: add to d, do not negate a, do not negate b.
#define SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
template <int N, int TA, int TB> struct Wgmma;
template <int TA, int TB> struct Wgmma<192, TA, TB> {
	static DEVICE_METHOD void run(float (*d)[4], u64 a, u64 b) {
		asm volatile(
		    "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
		    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
		    "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
		    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,"
		    "%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
		    "}, %96, %97, 1, 1, 1, %98, %99;"
		    :
		      SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7), SUMS(8), SUMS(9), SUMS(10), SUMS(11), SUMS(12), SUMS(13),
		      SUMS(14), SUMS(15), SUMS(16), SUMS(17), SUMS(18), SUMS(19), SUMS(20), SUMS(21), SUMS(22), SUMS(23)
		    : "l"(a), "l"(b), "n"(TA), "n"(TB));
	}
};

template <int TA, int TB> struct Wgmma<64, TA, TB> {
	static DEVICE_METHOD void run(float (*d)[4], u64 a, u64 b) {
		asm volatile(
		    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
		    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
		    "%24,%25,%26,%27,%28,%29,%30,%31"
		    "}, %32, %33, 1, 1, 1, %34, %35;"
		    :
		      SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7)
		    : "l"(a), "l"(b), "n"(TA), "n"(TB));
	}
};

template <int TA, int TB> struct Wgmma<16, TA, TB> {
	static DEVICE_METHOD void run(float (*d)[4], u64 a, u64 b) {
		asm volatile(
		    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
		    "%0,%1,%2,%3,%4,%5,%6,%7"
		    "}, %8, %9, 1, 1, 1, %10, %11;"
		    :
		      SUMS(0), SUMS(1)
		    : "l"(a), "l"(b), "n"(TA), "n"(TB));
	}
};

template <int TA, int TB> struct Wgmma<8, TA, TB> {
	static DEVICE_METHOD void run(float (*d)[4], u64 a, u64 b) {
		asm volatile(
		    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
		    "%0,%1,%2,%3"
		    "}, %4, %5, 1, 1, 1, %6, %7;"
		    :
		      SUMS(0)
		    : "l"(a), "l"(b), "n"(TA), "n"(TB));
	}
};
#undef SUMS

// wgmma issues d += a b for the operands that the descriptors a and b describe.
template <int N, int TA, int TB> DEVICE void wgmma(float (*d)[4], u64 a, u64 b) { Wgmma<N, TA, TB>::run(d, a, b); }
#endif

#endif
