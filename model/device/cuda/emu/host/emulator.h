// emulator.h: the part of CUDA C that the kernels use, for a processor.
//
// Blocks run one after another. The threads of a block are fibers that switch at
// barriers and at exchanges within a warp (shuffles, ballots, ldmatrix, mma), so a
// thread runs alone from one such point to the next. The generated file all.cpp
// includes this header and then all kernels.
//
// Exchanges ignore their masks: all 32 lanes must take part, as the kernels' common.cuh
// demands.
#ifndef EMULATOR_H
#define EMULATOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATOR 1
#define DEVICE static inline
#define DEVICE_METHOD inline
#define UNROLL
#define ROLLED
#define INFINITE __builtin_inff()


// Static shared memory is a separate section, which the emulator fills with NaN before
// every block: reading what no thread of the block has written then shows in the
// result.
#define __shared__ static __attribute__((section("emushared")))
#define SHARED(T, name) T *name = (T *)emu_dynamic

// emu_first returns the first argument of KERNEL after the structure, the largest block
// size.
static constexpr int emu_first(int threads, int = 0) { return threads; }

// A kernel NAME becomes three symbols: NAME, a function of the address of its
// arguments; NAME_size, their size; and NAME_threads, the largest block size. The last
// two let callers check a launch.
#define KERNEL(name, Args, ...) \
	static void name##_body(const Args &a); \
	extern "C" void name(const void *args) { name##_body(*(const Args *)args); } \
	extern "C" long name##_size() { return sizeof(Args); } \
	extern "C" int name##_threads() { return emu_first(__VA_ARGS__); } \
	static void name##_body(const Args &a)

struct Index {
	unsigned x;
};
extern Index threadIdx, blockIdx, blockDim, gridDim;
extern char *emu_dynamic;

struct alignas(8) uint2 {
	unsigned x, y;
};
struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
struct alignas(16) float4 {
	float x, y, z, w;
};

// LaneWords is what one lane contributes to an exchange. emu_exchange suspends the
// calling thread until all lanes of its warp have called it, and returns the words of
// all 32 lanes. They stay valid until the next exchange.
struct LaneWords {
	uint64_t word[3];
};
const LaneWords *emu_exchange(uint64_t a, uint64_t b = 0, uint64_t c = 0);
extern "C" void __syncthreads_emu();
#define __syncthreads __syncthreads_emu
static inline void __syncwarp() { emu_exchange(0); }

template <class T> static inline T emu_shuffle(T v, unsigned lane) {
	uint64_t bits = 0;
	memcpy(&bits, &v, sizeof v);
	bits = emu_exchange(bits)[lane % 32].word[0];
	memcpy(&v, &bits, sizeof v);
	return v;
}

template <class T> static inline T __shfl_sync(unsigned, T v, int from) { return emu_shuffle(v, from); }
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask) { return emu_shuffle(v, threadIdx.x ^ mask); }

static inline unsigned __ballot_sync(unsigned, int v) {
	const LaneWords *all = emu_exchange(v != 0);
	unsigned bits = 0;
	for (int i = 0; i < 32; i++) bits |= (unsigned)all[i].word[0] << i;
	return bits;
}

static inline float __int_as_float(int i) {
	float f;
	memcpy(&f, &i, 4);
	return f;
}
static inline int __float_as_int(float f) {
	int i;
	memcpy(&i, &f, 4);
	return i;
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline int __ffs(unsigned v) { return __builtin_ffs(v); }

static inline void sincospi(double x, double *s, double *c) { sincos(M_PI * x, s, c); }

// More precise than the special function unit; tests must allow for the difference.
static inline float fast_exp2(float x) { return exp2f(x); }
static inline float fast_reciprocal(float x) { return 1 / x; }

// emu_round rounds to bf16, to nearest with ties to even. NaN becomes the canonical NaN
// of cvt.rn.bf16x2.
static inline uint32_t emu_round(float v) {
	uint32_t u;
	memcpy(&u, &v, 4);
	return v != v ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
static inline uint32_t pack_bf16(float lo, float hi) { return emu_round(lo) | emu_round(hi) << 16; }

// emu_widen returns the bf16 number in the low or high half of a word.
static inline float emu_widen(uint32_t pair, int high) {
	uint32_t u = high ? pair & 0xffff0000u : pair << 16;
	float v;
	memcpy(&v, &u, 4);
	return v;
}

// WarpProduct is the product of the operands that the lanes of a warp exchanged last. The
// first lane computes it for all.
struct WarpProduct {
	bool done;
	float d[16][8];
};
extern WarpProduct emu_products[];

// mma computes what PTX specifies for mma.m16n8k16: lane 4g+t holds rows g and g+8,
// inner indices from 2t on, of a, and column g of b. It sums 16 products in float32 in
// order. Tensor cores sum in another order and truncate intermediate sums, so the bits
// differ from those of a GPU.
static inline void mma(float *c, const uint32_t *a, const uint32_t *b) {
	const LaneWords *all = emu_exchange(a[0] | (uint64_t)a[1] << 32, a[2] | (uint64_t)a[3] << 32, b[0] | (uint64_t)b[1] << 32);
	WarpProduct &p = emu_products[threadIdx.x / 32];
	if (!p.done) {
		float row[16][16], column[16][8]; // column[k] has element k of all columns
		for (int lane = 0; lane < 32; lane++) {
			int g = lane / 4, t = lane % 4;
			for (int i = 0; i < 8; i++) { // i: bit 0 the number of a pair, bit 1 the word's half, bit 2 the word
				int k = i / 4 * 8 + 2 * t + i % 2, half = i / 2 % 2;
				row[g + 8 * half][k] = emu_widen((uint32_t)(all[lane].word[i / 4] >> (32 * half)), i % 2);
				if (half == 0) column[k][g] = emu_widen((uint32_t)(all[lane].word[2] >> (32 * (i / 4))), i % 2);
			}
		}
		for (int r = 0; r < 16; r++) {
			float sum[8] = {};
			for (int k = 0; k < 16; k++)
				for (int j = 0; j < 8; j++) sum[j] += row[r][k] * column[k][j];
			memcpy(p.d[r], sum, sizeof sum);
		}
		p.done = true;
	}
	int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
	for (int e = 0; e < 4; e++) c[e] += p.d[g + e / 2 * 8][2 * t + e % 2];
}

#endif
