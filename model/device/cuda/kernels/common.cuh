// common.cuh: what all kernels share. Every kernel takes one structure by value
// (args.cuh), runs on a one-dimensional grid of blocks of whole warps, and adds
// in an order that depends on shapes only: no atomics.
//
// The files are compiled twice: by NVRTC to PTX, and by a C++ compiler for the
// emulator (emu/emulator.h), which is where EMULATOR is defined. So they use
// nothing but the built-ins named there.
#ifndef COMMON_CUH
#define COMMON_CUH

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#ifndef EMULATOR
// KERNEL(name, Args, threads of a block, and, where registers should be spared, blocks of a multiprocessor).
// A kernel waits for the one before, so that no code in a body runs too early; where launches
// do not overlap, that is nothing. It does not let the next one start before it ends: on an H100
// blocks that come early lie unevenly, wherever there is room, and a plan took 55.7 ms instead of 47.8.
#define KERNEL(name, Args, ...) \
	DEVICE void name##_body(const Args &a); \
	extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const Args a) { \
		overlap(); \
		name##_body(a); \
	} \
	DEVICE void name##_body(const Args &a)
#define DEVICE static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define SHARED(T, name) extern __shared__ float4 name##_raw[]; T *name = (T *)name##_raw
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)
#endif

#ifndef EMULATOR
DEVICE void overlap() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif

// pack_bf16 rounds to the nearest, ties to even: lo in the low half.
#ifndef EMULATOR
DEVICE u32 pack_bf16(float lo, float hi) {
	u32 v;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
	return v;
}

// 2^x and 1/x to about a unit of the last place, by the special function unit.
DEVICE float quick_exp2(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
DEVICE float quick_inverse(float x) {
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

#define FULL 0xffffffffu
enum { WARP = 32, THREADS = 256, WARPS = THREADS / WARP };

// Mat is a view of floats, or of bf16 where that is set.
struct Mat {
	float *p;
	i64 rows, cols, stride, bf16;
};

DEVICE float *row(const Mat &m, i64 r) { return m.p + r * m.stride; }
DEVICE float &at(const Mat &m, i64 r, i64 c) { return m.p[r * m.stride + c]; }

DEVICE float widen(u32 bf16) { return __int_as_float((int)(bf16 << 16)); }

// get and set know of bf16; at is for matrices that are always floats.
DEVICE float get(const Mat &m, i64 r, i64 c) {
	i64 i = r * m.stride + c;
	return m.bf16 ? widen(((const u16 *)m.p)[i]) : m.p[i];
}

DEVICE void set(const Mat &m, i64 r, i64 c, float v) {
	i64 i = r * m.stride + c;
	if (m.bf16) ((u16 *)m.p)[i] = (u16)pack_bf16(v, 0);
	else m.p[i] = v;
}

DEVICE i64 least(i64 a, i64 b) { return a < b ? a : b; }
DEVICE int lesser(int a, int b) { return a < b ? a : b; }

DEVICE int lane() { return threadIdx.x % WARP; }
DEVICE int warp() { return threadIdx.x / WARP; }
// The warp's number in the grid.
DEVICE i64 grid_warp() { return (i64)blockIdx.x * (blockDim.x / WARP) + warp(); }

template <class T> DEVICE T warp_sum(T v) {
	for (int m = WARP / 2; m; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
	return v;
}

DEVICE float warp_max(float v) {
	for (int m = WARP / 2; m; m >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, m));
	return v;
}

// block_sum is the same on all threads; the block has at most 32 warps.
DEVICE double block_sum(double v) {
	__shared__ double sums[WARP];
	v = warp_sum(v);
	__syncthreads(); // an earlier call's readers are done
	if (lane() == 0) sums[warp()] = v;
	__syncthreads();
	double total = 0;
	for (int i = 0; i < (int)blockDim.x / WARP; i++) total += sums[i];
	return total;
}

// tiles calls f(r, c) for the elements of the block's piece of a rows x cols
// matrix: pieces are TILE columns of one row.
enum { TILE = 1024 };
template <class F> DEVICE void tiles(i64 cols, F f) {
	u32 pieces = (u32)((cols + TILE - 1) / TILE);
	i64 r = blockIdx.x / pieces, c0 = blockIdx.x % pieces * TILE;
	i64 end = least(cols, c0 + TILE);
	for (i64 c = c0 + threadIdx.x; c < end; c += THREADS) f(r, c);
}

// Philox4x32-10 (dataset/rng): key words lo, hi; counter words lo, hi, 0, 0.
struct Words {
	u32 w[4];
};

DEVICE Words philox(u64 key, u64 block) {
	u32 k0 = (u32)key, k1 = (u32)(key >> 32), c0 = (u32)block, c1 = (u32)(block >> 32), c2 = 0, c3 = 0;
	for (int i = 0; i < 10; i++) {
		u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
		c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
		c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
		c1 = (u32)p1;
		c3 = (u32)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	Words x = {{c0, c1, c2, c3}};
	return x;
}

// kept is what dropout multiplies an element by whose random word this is.
DEVICE float kept(float p, u32 word) { return (float)(word >> 8) * 0x1p-24f < p ? 0.0f : 1 / (1 - p); }

// keep is that of element i.
DEVICE float keep(float p, u64 key, u64 i) {
	if (p == 0) return 1;
	Words x = philox(key, i / 4);
	u32 odd = i % 4 < 2 ? x.w[1] : x.w[3], even = i % 4 < 2 ? x.w[0] : x.w[2];
	return kept(p, i % 2 ? odd : even);
}

// Acts, in the contract's order.
enum { IDENTITY, GELU, SILU, RELU };

// Tails is exp(-x^2/2), and what is beyond |x| of a normal distribution: exp(-x^2/2)
// times a polynomial of 1/(1 + 0.275|x|), to 1e-8. With the errors of float32 and of
// the special function unit GELU is off by at most 1.5e-7 and its derivative by 3.5e-7.
struct Tails {
	float bell, beyond;
};

DEVICE Tails tails(float x) {
	float z = fabsf(x), t = quick_inverse(fmaf(0.275f, z, 1)), p = -0.11416539f;
	p = fmaf(p, t, 0.44916393f);
	p = fmaf(p, t, -0.3263877f);
	p = fmaf(p, t, 0.33021874f);
	p = fmaf(p, t, 0.043596934f);
	p = fmaf(p, t, 0.1175735f);
	Tails q;
	q.bell = quick_exp2(x * -0.72134752f * x);
	q.beyond = q.bell * (p * t);
	return q;
}

DEVICE float gelu(float x) { return fmaf(-fabsf(x), tails(x).beyond, fmaxf(x, 0)); }
DEVICE float gelu_grad(float x) {
	Tails q = tails(x);
	return fmaf(x * 0.39894228f, q.bell, x < 0 ? q.beyond : 1 - q.beyond);
}
DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

DEVICE float activate(i64 act, float x) {
	switch (act) {
	case GELU: return gelu(x);
	case SILU: return x * sigmoid(x);
	case RELU: return x < 0 ? 0 : x;
	}
	return x;
}

// act_grad is the derivative of activate at x.
DEVICE float act_grad(i64 act, float x) {
	switch (act) {
	case GELU: return gelu_grad(x);
	case SILU: {
		float s = sigmoid(x);
		return s * (1 + x * (1 - s));
	}
	case RELU: return x <= 0 ? 0 : 1;
	}
	return 1;
}

#endif
