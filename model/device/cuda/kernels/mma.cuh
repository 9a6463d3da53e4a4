// mma.cuh: the tensor cores' matrix multiplication by one warp, c += a b with a 16 x 16
// and b 16 x 8, both bf16, and c 16 x 8 in float32 (PTX's mma.m16n8k16, Ampere and
// later).
//
// Each lane holds a fragment of each matrix. With g = lane/4 and t = lane%4 the
// registers hold:
//    a[0..3]: rows g, g+8, g, g+8; k 2t, 2t, 2t+8, 2t+8 (and k+1 in the high half)
//    b[0..1]: column g; k 2t, 2t+8 (and k+1 in the high half)
//    c[0..3]: rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1
//
// So the accumulators of two horizontally adjacent products, rounded to bf16, have the
// layout of a left operand: attention feeds its scores to the next product without
// leaving registers.
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
