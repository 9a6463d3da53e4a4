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

#endif
