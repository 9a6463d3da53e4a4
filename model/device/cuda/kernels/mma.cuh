// mma.cuh: the tensor cores' product of bf16, 16 x 8 x 16 by a warp. How the
// fragments lie on the lanes is PTX's mma.m16n8k16 (g = lane/4, t = lane%4):
//   a: rows g, g+8, g, g+8; inner 2t, 2t, 2t+8, 2t+8 (and the next one)
//   b: column g; inner 2t, 2t+8 (and the next one)
//   c: rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1
#ifndef MMA_CUH
#define MMA_CUH
#include "common.cuh"

#ifndef EMULATOR
DEVICE void mma(float *c, const u32 *a, const u32 *b) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// The low, or high, halves of two words as a pair.
DEVICE u32 low(u32 a, u32 b) { return (a & 0xffff) | b << 16; }
DEVICE u32 high(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); }

// A fragment of 16 rows of pairs of bf16 at s, and one of 8.
DEVICE void mma_load_a(u32 *a, const u32 *s, int stride) {
	const u32 *at = s + lane() / 4 * stride + lane() % 4;
	a[0] = at[0];
	a[1] = at[8 * stride];
	a[2] = at[4];
	a[3] = at[8 * stride + 4];
}

DEVICE void mma_load_b(u32 *b, const u32 *s, int stride) {
	const u32 *at = s + lane() / 4 * stride + lane() % 4;
	b[0] = at[0];
	b[1] = at[4];
}

#endif
