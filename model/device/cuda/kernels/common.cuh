// common.cuh: definitions that all kernels share.
//
// Every kernel takes one structure by value (args.cuh) and runs on a one-dimensional
// grid. A block always consists of full warps, so warp-wide exchanges may use the full
// mask. No kernel uses atomics: the order of every summation depends on the shapes
// alone, so results are bit-identical from run to run.
//
// Each .cu file is compiled twice: by NVRTC to PTX, and by g++ for the emulator, which
// defines EMULATOR and supplies its own versions of the macros and functions below
// (emu/host). Kernels may therefore use only the CUDA built-ins that
// emu/host/emulator.h implements.
#ifndef COMMON_CUH
#define COMMON_CUH

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#ifndef EMULATOR
// KERNEL(name, Args, THREADS[, BLOCKS]) defines a kernel. THREADS is the largest block
// size. The optional BLOCKS is the number of blocks that should be resident per SM; it
// caps the registers per thread.
//
// On Hopper the host launches kernels with programmatic dependent launch, so a kernel
// may start before its predecessor in the stream has finished. The entry point waits
// for the predecessor before it runs any code of the body: the body may then read its
// results. Where launches do not overlap, the wait costs nothing.
//
// No kernel triggers its dependents early (griddepcontrol.launch_dependents), so the
// next kernel's blocks start when the last block of this one exits. With an early
// trigger the waiting blocks occupy SMs unevenly and take resources from blocks that
// still compute: planning on an H100 became 17 % slower.
#define KERNEL(name, Args, ...) \
	DEVICE void name##_body(const Args &a); \
	extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const Args a) { \
		wait_for_previous_kernel(); \
		name##_body(a); \
	} \
	DEVICE void name##_body(const Args &a)
#define DEVICE static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define SHARED(T, name) extern __shared__ float4 name##_raw[]; T *name = (T *)name##_raw
#define INFINITE __int_as_float(0x7f800000)

#endif

// wait_for_previous_kernel blocks until all blocks of the previous kernel have finished
// and their writes to device memory are visible. It does nothing where the launch has
// no programmatic dependency, or on GPUs before Hopper.
#ifndef EMULATOR
DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif

#ifndef EMULATOR
// pack_bf16 rounds two floats to bf16, to nearest with ties to even, and packs them
// into one word with lo in the low half. The PTX instruction takes the high half first.
DEVICE u32 pack_bf16(float lo, float hi) {
	u32 v;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
	return v;
}

// fast_exp2 returns 2^x and fast_reciprocal 1/x, both to about one unit in the last
// place, from the special function unit. Denormals are flushed to zero.
DEVICE float fast_exp2(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
DEVICE float fast_reciprocal(float x) {
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

#define FULL 0xffffffffu // mask of all lanes of a warp

// Threads per warp; threads and warps of a block, for kernels that do not choose their
// own.
enum { WARP = 32, THREADS = 256, WARPS = THREADS / WARP };

// Mat is a view of a row-major matrix: rows x cols elements whose rows begin stride
// elements apart. The elements are float32, or bf16 if bf16 is not 0; p is then the
// address of bf16 numbers in spite of its type. A stride of 0 repeats one row. p is
// NULL for a matrix that the caller did not give. Go lays out the same structure (mat
// in args_gen.go).
struct Mat {
	float *p;
	i64 rows, cols, stride, bf16;
};

// row and at address float32 matrices only; get and set below also handle bf16.
DEVICE float *row(const Mat &m, i64 r) { return m.p + r * m.stride; }
DEVICE float &at(const Mat &m, i64 r, i64 c) { return m.p[r * m.stride + c]; }

// widen returns the float32 value of a bf16 number in the low half of a word. bf16 is
// the upper half of a float32, so this is a shift. The value in the high half needs
// only a mask.
DEVICE float widen(u32 bf16) { return __int_as_float((int)(bf16 << 16)); }

// get and set read and write element (r, c) of a float32 or bf16 matrix. set rounds to
// nearest.
DEVICE float get(const Mat &m, i64 r, i64 c) {
	i64 i = r * m.stride + c;
	return m.bf16 ? widen(((const u16 *)m.p)[i]) : m.p[i];
}

DEVICE void set(const Mat &m, i64 r, i64 c, float v) {
	i64 i = r * m.stride + c;
	if (m.bf16) ((u16 *)m.p)[i] = (u16)pack_bf16(v, 0);
	else m.p[i] = v;
}

DEVICE i64 min64(i64 a, i64 b) { return a < b ? a : b; }
DEVICE int min32(int a, int b) { return a < b ? a : b; }

DEVICE int lane() { return threadIdx.x % WARP; }
DEVICE int warp() { return threadIdx.x / WARP; }
// grid_warp returns the warp's index in the grid, for kernels that assign one item to
// each warp.
DEVICE i64 grid_warp() { return (i64)blockIdx.x * (blockDim.x / WARP) + warp(); }

// warp_sum adds v over the lanes of a warp and returns the sum to every lane. The XOR
// butterfly adds the same pairs on both sides of each exchange, and addition commutes,
// so all lanes get the same bits.
template <class T> DEVICE T warp_sum(T v) {
	for (int m = WARP / 2; m; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
	return v;
}

DEVICE float warp_max(float v) {
	for (int m = WARP / 2; m; m >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, m));
	return v;
}

// block_sum adds v over the threads of a block, of at most 32 warps, and returns the
// sum to every thread. All threads must call it. Each thread adds the warps' sums in
// the same order, so the result is the same on all of them.
DEVICE double block_sum(double v) {
	__shared__ double sums[WARP];
	v = warp_sum(v);
	__syncthreads(); // sums may still be read by an earlier call
	if (lane() == 0) sums[warp()] = v;
	__syncthreads();
	double total = 0;
	for (int i = 0; i < (int)blockDim.x / WARP; i++) total += sums[i];
	return total;
}

// for_tile calls f(r, c) for the elements of this block's share of a matrix with cols
// columns. A share is TILE consecutive columns of one row; the grid has one block per
// share (tiles in pointwise.go). Neighboring threads get neighboring columns, so
// accesses coalesce.
enum { TILE = 1024 };
template <class F> DEVICE void for_tile(i64 cols, F f) {
	u32 pieces = (u32)((cols + TILE - 1) / TILE);
	i64 r = blockIdx.x / pieces, c0 = blockIdx.x % pieces * TILE;
	i64 end = min64(cols, c0 + TILE);
	for (i64 c = c0 + threadIdx.x; c < end; c += THREADS) f(r, c);
}

// Philox4x32-10, the counter-based random number generator of dataset/rng: the key
// consists of the words (lo, hi) of key, the counter of (lo, hi, 0, 0) of block. The
// numbers equal those of the host, so a mask or a noise value does not depend on the
// device. One block yields four words.
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

// dropout_factor returns the factor by which dropout with probability p multiplies an
// element whose random word is given: 0, or 1/(1-p). The upper 24 bits of the word form
// a uniform number in [0, 1).
DEVICE float dropout_factor(float p, u32 word) { return (float)(word >> 8) * 0x1p-24f < p ? 0.0f : 1 / (1 - p); }

// dropout_at returns the dropout factor of element i. Elements 4b to 4b+3 share Philox
// block b. The mask depends on (key, i) only, so the backward pass recomputes it
// instead of storing it.
DEVICE float dropout_at(float p, u64 key, u64 i) {
	if (p == 0) return 1;
	Words x = philox(key, i / 4);
	u32 odd = i % 4 < 2 ? x.w[1] : x.w[3], even = i % 4 < 2 ? x.w[0] : x.w[2];
	return dropout_factor(p, i % 2 ? odd : even);
}

// Activations, in the order of device.Act.
enum { IDENTITY, GELU, SILU, RELU };

// NormalTail holds gauss = exp(-x^2/2) and upper, the probability that a standard
// normal variable exceeds |x|. Exact GELU is x times the normal distribution function.
// Instead of by erff, the tail is computed as gauss times a polynomial in 1/(1 +
// 0.275|x|), fitted to 1e-8: two instructions of the special function unit and six
// multiply-adds. With the rounding of float32 and of that unit, gelu is off by at most
// 1.5e-7 and gelu_grad by 3.5e-7.
struct NormalTail {
	float gauss, upper;
};

DEVICE NormalTail normal_tail(float x) {
	float z = fabsf(x), t = fast_reciprocal(fmaf(0.275f, z, 1)), p = -0.11416539f;
	p = fmaf(p, t, 0.44916393f);
	p = fmaf(p, t, -0.3263877f);
	p = fmaf(p, t, 0.33021874f);
	p = fmaf(p, t, 0.043596934f);
	p = fmaf(p, t, 0.1175735f);
	NormalTail q;
	// exp(-x^2/2) = 2^(-x^2 log2(e)/2).
	q.gauss = fast_exp2(x * -0.72134752f * x);
	q.upper = q.gauss * (p * t);
	return q;
}

// gelu is x * cdf(x), written as max(x, 0) - |x| * upper(|x|) so that neither branch
// subtracts nearly equal numbers. gelu_grad is cdf(x) + x * pdf(x), with 0.39894228 =
// 1/sqrt(2 pi).
DEVICE float gelu(float x) { return fmaf(-fabsf(x), normal_tail(x).upper, fmaxf(x, 0)); }
DEVICE float gelu_grad(float x) {
	NormalTail q = normal_tail(x);
	return fmaf(x * 0.39894228f, q.gauss, x < 0 ? q.upper : 1 - q.upper);
}
DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// activate applies a device.Act to x.
DEVICE float activate(i64 act, float x) {
	switch (act) {
	case GELU: return gelu(x);
	case SILU: return x * sigmoid(x);
	case RELU: return x < 0 ? 0 : x;
	}
	return x;
}

// act_grad returns the derivative of activate at x.
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
