// wgmma.cuh: Hopper's products of a warpgroup: 64 rows of a by n columns of b, 16
// inner indices, both factors from shared memory, sums in registers. Of the sums
// warp w of the group has rows 16w+g and 16w+g+8, and of each 8 columns 2t and
// the next: d[column/8][2*(row/8%2) + column%2], as mma.m16n8k16 has.
//
// Factors lie in slabs of 64 numbers, 128 bytes, a row, with 128-byte swizzle: 16-byte
// piece j of row r is at place j ^ r%8 of its row. A slab begins at a multiple of 1024
// bytes. Rows are the factor's rows of the product and run along the inner
// index, or, turned, are inner indices.
//
// Order of things: copies to a slab arrive (copy_wait), each thread that copied
// passes proxy_fence, a barrier, wgmma_fence, any number of wgmma, wgmma_commit,
// wgmma_wait. Until then the sums may not be touched.
#ifndef WGMMA_CUH
#define WGMMA_CUH
#include "async.cuh"

enum { SLAB = 8192, ROW = 128, GROUP = 128 }; // bytes of a slab of 64 rows and of a row; threads of a warpgroup

// warpgroup is the thread's, by an exchange that shows the compiler that a warp agrees on it.
DEVICE int warpgroup() { return __shfl_sync(FULL, (int)threadIdx.x / GROUP, 0); }

// descriptor says where a factor begins; the slabs of a turned one follow each other. Eight
// rows are 1024 bytes; 1 is 128-byte swizzle.
template <bool TURNED> DEVICE u64 descriptor(u32 at) {
	return (u64)(at & 0x3ffff) >> 4 | (u64)(TURNED ? SLAB >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// swizzled is the offset of 16-byte piece j of row r of a slab.
DEVICE u32 swizzled(int r, int j) { return r * ROW + ((j ^ r % 8) << 4); }

#ifndef EMULATOR
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

// proxy_fence shows the tensor cores what this thread wrote to shared memory.
DEVICE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// group_barrier is one of a warpgroup, counted from 0 in its block.
DEVICE void group_barrier(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

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

// wgmma adds a product to d. TA, TB: the factor is turned.
template <int N, int TA, int TB> DEVICE void wgmma(float (*d)[4], u64 a, u64 b) { Wgmma<N, TA, TB>::run(d, a, b); }
#endif

#endif
