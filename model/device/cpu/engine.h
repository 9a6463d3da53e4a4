// engine.h: what Go and the kernels share: the pool of threads, memory, and the
// kernels' numbers and arguments. Kernels are written once (k_*.h) and compiled once
// for each instruction set (isa_*.c). Their meaning is that of the methods of
// device.Device of similar name; kernels.go fills in the arguments. Arguments have
// been validated (device.Checked).
#ifndef SCALEWM_ENGINE_H
#define SCALEWM_ENGINE_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t i64;

// A Mat is a matrix view: row r begins at p + r*stride. p is NULL if the matrix is
// not given, and points to bf16 numbers (uint16_t) if bf16 is set; stride is in
// numbers.
typedef struct { float *p; i64 rows, cols, stride; int bf16; } Mat;

// --- Threads (pool.c) -----------------------------------------------------

typedef struct Pool Pool;
// A Worker is a thread's scratch memory.
typedef struct { char *scratch; size_t size; } Worker;
// A Task runs task i of a kernel.
typedef void (*Task)(const void *args, i64 i, Worker *w);

// pool_new starts a pool of `threads` threads, including the caller. It returns NULL if
// the system refuses threads or memory.
Pool *pool_new(int threads);
void pool_free(Pool *p);
int pool_threads(const Pool *p);
// pool_run runs task(args, i, w) for i = 0 ... n-1 on all threads and returns when
// all are done. Which thread runs which task is undefined, so a task's result must
// depend on i alone.
void pool_run(Pool *p, Task task, const void *args, i64 n);
// pool_reserve ensures `each` bytes of scratch for every worker and `shared` bytes
// for all. Blocks may move, and lose their contents. It returns OK or NO_MEMORY.
int pool_reserve(Pool *p, size_t each, size_t shared);
void *pool_shared(Pool *p);

// SLAB is the smallest slab from which buffers are cut (memory.go). With a sanitizer each
// has its own memory, so that accesses past its end are found.
#ifdef __SANITIZE_ADDRESS__
enum { SLAB = 0 };
#else
enum { SLAB = 2 << 20 };
#endif

// engine_alloc returns zeroed memory, page-aligned, on huge pages if it is large; NULL
// if there is none.
void *engine_alloc(size_t bytes);
void engine_free(void *p);

// --- Kernels --------------------------------------------------------------

enum { NN, NT, TN };
enum { IDENTITY, GELU, SILU, RELU };

// A GEMM and its epilogue (device.Epilogue).
typedef struct {
	Mat dst, a, b, scale, bias, pre, grad, gate, ungated, sum_a;
	const char *packed; // B as packed by K_PACK, or NULL
	int op, act, add, bf16; // bf16: round the factors to bf16
	float drop_p;
	uint64_t drop_key;
} GemmArgs;

// PackArgs packs B of the product g (NN, NT) into dst, for GemmArgs.packed. The
// kernel sets size, the number of bytes it takes; if dst is NULL it does nothing
// else.
typedef struct { GemmArgs g; char *dst; size_t size; } PackArgs;

// Element-wise kernels: up to three outputs and five inputs, in the order of the
// kernel's formula in k_pointwise.h. alpha, p, key and act are its parameters; add: the
// formula uses the old output.
typedef struct {
	Mat out[3], in[5];
	float alpha, p;
	uint64_t key;
	int act, add;
} EachArgs;

typedef struct { Mat dst, src; i64 dst_block, src_block, rows, blocks; int add; } BlocksArgs;
typedef struct { Mat table, src; } TableArgs;
typedef struct { Mat dst, x; } PairArgs; // one output, one input

typedef struct { Mat y, xhat, rstd, x, gamma, beta; double eps; } NormArgs;
typedef struct { Mat y, x, scale, shift, gamma, beta, outer, outer_inv, inner, inner_inv; double outer_eps, inner_eps; } AdaLNArgs;
typedef struct { Mat dx, dgamma, dbeta, dy, xhat, rstd, gamma; int add; } NormGradArgs;
typedef struct { Mat y, xhat, rstd, x, gamma, beta, mean, var; double momentum, eps; } BatchArgs;

typedef struct {
	Mat out, lse, q, k, v, dq, dk, dv, dout;
	i64 seqs, len, heads, dim, block, queries; // queries: of each sequence
	int by_token;
	float p;
	uint64_t key;
} AttentionArgs;

// px holds `frames` frames. list selects some of them; NULL: the first ones in order.
// A number is byte*scale + shift for each channel.
typedef struct { Mat dst; const uint8_t *px; const int32_t *list; i64 frames, size, patch; float scale[3], shift[3]; } PatchArgs;

typedef struct { Mat loss, dpred, dtarget, pred, target; double weight; } MSEArgs;
typedef struct { Mat loss, du, u; i64 frames; double weight; } SIGRegArgs;
typedef struct { Mat dst, ddist, z; const int32_t *pairs; i64 count; } DistanceArgs;
typedef struct { Mat result, dx, x, y; int paper; double weight; } CorrelationArgs;
typedef struct { Mat dst, pred, goal; int mean; } CostArgs;

typedef struct {
	Mat p, g, m, v, sumsq;
	double lr, beta1, beta2, eps, decay, max_norm, correct1, correct2;
} AdamArgs;

typedef struct { Mat dst; const uint64_t *keys; i64 groups; uint64_t offset; } NormalArgs;
typedef struct { Mat mean, std, cand; int32_t *idx; i64 k; } EliteArgs;
// Kernels on the k chosen candidates of each episode: idx holds their indices.
typedef struct {
	Mat dst, cand, costs, weights;
	const int32_t *idx;
	i64 episodes, k;
	float temperature;
} ChosenArgs;
enum { PEAK_FMA, PEAK_PAIRS, PEAK_READ };
typedef struct { double work; int what; } PeakArgs; // work is a result: operations or bytes of all threads

// Kernel numbers: indices into an instruction set's table.
enum {
	K_FILL, K_COPY, K_BLOCKS, K_GEMM, K_PACK,
	K_ACTIVATE, K_ACTIVATE_GRAD, K_AXPY, K_GATE_GRAD, K_MODULATE_GRAD,
	K_DROPOUT, K_ADD_REPEATED, K_SUM_TABLE, K_NORMALIZE_COLUMNS,
	K_LAYERNORM, K_ADALN, K_LAYERNORM_GRAD, K_BATCHNORM, K_BATCHNORM_EVAL, K_BATCHNORM_GRAD,
	K_ATTENTION, K_ATTENTION_GRAD, K_PATCHES,
	K_MSE, K_SIGREG, K_DISTANCE, K_DISTANCE_GRAD, K_CORRELATION, K_COST,
	K_SUM_SQUARES, K_ADAMW, K_NORMAL, K_CANDIDATES, K_NAN_TO_INF, K_SMALLEST_K, K_MOMENTS,
	K_COLOR, K_CLIP, K_LERP, K_SOFTMIN, K_WEIGHTED_MEAN, K_GATHER,
	K_PEAK, K_COUNT
};

// Results of a kernel. BAD_INDEX: an index in device memory is out of range; nothing
// has been written.
enum { OK = 0, NO_MEMORY = 1, BAD_INDEX = 2 };

typedef int (*Kernel)(Pool *, const void *args);

// Instruction sets, best first. The emulated one is never chosen by default.
enum { ISA_AMX, ISA_AVX512BF16, ISA_AVX512, ISA_AVX2, ISA_PLAIN, ISA_AMX_EMULATED, ISA_COUNT };

extern const Kernel kernels_plain[K_COUNT];
#if defined(__x86_64__)
extern const Kernel kernels_avx2[K_COUNT], kernels_avx512[K_COUNT], kernels_avx512bf16[K_COUNT];
extern const Kernel kernels_amx[K_COUNT], kernels_amx_emulated[K_COUNT]; // NULL: use avx512bf16's
#endif

// engine_has returns whether this machine can run an instruction set.
int engine_has(int isa);
// pairs_are_fast: on the path avx512bf16, dot products of bf16 pairs are faster than
// multiply-adds. It selects the layout of packed factors, and so must not change while
// packed factors exist.
extern int pairs_are_fast;
// engine_call runs a kernel and returns its result.
int engine_call(Pool *p, int isa, int kernel, const void *args);

#endif
