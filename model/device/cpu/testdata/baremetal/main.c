// main.c: products by tiles against the same products with tiles imitated, and
// against plain sums, on a bare machine. See README.md.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#include "engine.h"

#include <string.h>

// --- What the engine needs of a pool and of the C library ------------------

struct Pool { Worker worker; };

static Pool pool;
static int threads; // what share() is told: task shapes differ, results may not
static char scratch[64 << 20] __attribute__((aligned(4096))), shared[32 << 20] __attribute__((aligned(4096)));

void *memset(void *dst, int c, size_t n) {
	void *p = dst;
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
	return dst;
}
void *memcpy(void *dst, const void *src, size_t n) {
	void *p = dst;
	__asm__ volatile("rep movsb" : "+D"(p), "+S"(src), "+c"(n)::"memory");
	return dst;
}
int memcmp(const void *a, const void *b, size_t n) {
	const unsigned char *x = a, *y = b;
	for (size_t i = 0; i < n; i++) {
		if (x[i] != y[i]) return x[i] - y[i];
	}
	return 0;
}
double sqrt(double x) {
	double y;
	__asm__("sqrtsd %1, %0" : "=x"(y) : "x"(x));
	return y;
}
int pool_threads(const Pool *p) { return p ? threads : 0; }
void *pool_shared(Pool *p) { return p ? shared : NULL; }
// Scratch is full of NaN: what is read without having been written shows.
int pool_reserve(Pool *p, size_t each, size_t common) {
	if (each > sizeof scratch || common > sizeof shared) return NO_MEMORY;
	p->worker = (Worker){scratch, sizeof scratch};
	memset(scratch, 0xff, each);
	memset(shared, 0xff, common);
	return OK;
}
void pool_run(Pool *p, Task task, const void *args, i64 n) {
	unsigned flush = 0x1f80 | 0x8040; // denormals, as the pool does
	__asm__ volatile("ldmxcsr %0" ::"m"(flush));
	for (i64 i = 0; i < n; i++) task(args, i, &p->worker);
}

// --- The serial port --------------------------------------------------------

static void print_char(char c) {
	unsigned char ready;
	do __asm__ volatile("inb %w1, %b0" : "=a"(ready) : "Nd"(0x3fd));
	while (!(ready & 0x20));
	__asm__ volatile("outb %b0, %w1" ::"a"(c), "Nd"(0x3f8));
}
static void print(const char *s) {
	while (*s) print_char(*s++);
}
static void print_count(const char *before, i64 n) {
	char digits[24];
	int i = sizeof digits - 1;
	digits[i] = 0;
	do digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	print(before);
	print(digits + i);
}

// --- Cases -------------------------------------------------------------------

enum { MOST = 1 << 17 };
static float a[MOST], b[MOST], bias[MOST], grad[MOST];
static uint16_t a_bf16[MOST];
static char packed[8 << 20];
// Results of the two: the product, the values before the activation, the sums of A's columns.
static struct { float dst[MOST], pre[MOST], sums[4096]; } one, two;
static i64 cases, different, wrong;

static float number(void) {
	static uint64_t seed = 1;
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (float)((int)(seed >> 40) - (1 << 23)) / (1 << 22);
}

static float rounded(float x) { // to the nearest bf16, ties to even
	uint32_t u;
	memcpy(&u, &x, 4);
	u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &u, 4);
	return x;
}

// A Case: kind 0 has no epilogue; 1: bias, dropout, pre, frozen weights; 2: added, gradient of an activation;
// 3: bias, pre, added, with denormals among the factors.
typedef struct { int op, kind, bf16, act; i64 m, n, k; } Case;

static void fill(Case c) {
	for (i64 i = 0; i < MOST; i++) {
		a[i] = number();
		b[i] = number();
		bias[i] = number();
		grad[i] = number();
		one.dst[i] = two.dst[i] = number();
		one.pre[i] = two.pre[i] = 0;
	}
	memset(one.sums, 0, sizeof one.sums);
	memset(two.sums, 0, sizeof two.sums);
	if (c.kind == 3) {
		a[0] = 1e-39f;
		b[0] = 1e-30f;
		a[5] = 1e-20f;
	}
	for (i64 i = 0; i < MOST; i++) {
		float r = rounded(a[i]);
		memcpy(&a_bf16[i], (char *)&r + 2, 2);
	}
}

static int product(Case c, const Kernel *table, int frozen, float *dst, float *pre, float *sums) {
	i64 rows = c.op == TN ? c.k : c.m, cols = c.op == TN ? c.m : c.k;
	i64 b_rows = c.op == NT ? c.n : c.k, b_cols = c.op == NT ? c.k : c.n;
	GemmArgs g = {.op = c.op, .act = c.act, .bf16 = 1, .add = c.kind >= 2};
	g.dst = (Mat){dst, c.m, c.n, c.n, 0};
	g.a = (Mat){c.bf16 ? (float *)a_bf16 : a, rows, cols, cols, c.bf16};
	g.b = (Mat){b, b_rows, b_cols, b_cols, 0};
	if (c.kind & 1) {
		g.bias = (Mat){bias, 1, c.n, c.n, 0};
		g.pre = (Mat){pre, c.m, c.n, c.n, 0};
	}
	if (c.kind == 1) {
		g.drop_p = 0.3f;
		g.drop_key = 77;
	}
	if (c.kind == 2) g.grad = (Mat){grad, c.m, c.n, c.n, 0};
	if (c.op == TN) g.sum_a = (Mat){sums, 1, c.m, c.m, 0};
	if (frozen) {
		PackArgs p = {.g = g};
		table[K_PACK](&pool, &p);
		if (p.size > sizeof packed) return NO_MEMORY;
		p.dst = packed;
		table[K_PACK](&pool, &p);
		g.packed = packed;
	}
	return table[K_GEMM](&pool, &g);
}

// check_sums compares a few elements of a product without epilogue with plain sums, which may differ by the
// rounding of sums in float32.
static void check_sums(Case c) {
	for (i64 i = 0; i < 8; i++) {
		i64 r = i * 37 % c.m, col = i * 53 % c.n;
		double sum = 0, size = 0;
		for (i64 k = 0; k < c.k; k++) {
			double x = rounded(a[c.op == TN ? k * c.m + r : r * c.k + k]), y = rounded(b[c.op == NT ? col * c.k + k : k * c.n + col]);
			sum += x * y;
			size += x * y < 0 ? -x * y : x * y;
		}
		double off = one.dst[r * c.n + col] - sum;
		if (!(off <= size * 1e-5 && -off <= size * 1e-5)) wrong++;
	}
}

static void run(Case c) {
	fill(c);
	threads = 1 + (int)(cases % 4);
	int failed = product(c, kernels_amx, c.op != TN && c.kind == 1, one.dst, one.pre, one.sums);
	threads = 1;
	failed |= product(c, kernels_amx_emulated, 0, two.dst, two.pre, two.sums);
	different += failed || memcmp(&one, &two, sizeof one) != 0;
	if (c.kind == 0) check_sums(c);
	cases++;
}

// attention runs both ways of an attention over bf16 matrices: queries, keys and values side by side.
static int attention(const Kernel *table, i64 len, uint16_t *out, float *lse) {
	enum { SEQS = 2, HEADS = 3, DIM = 64, INNER = HEADS * DIM };
	i64 rows = SEQS * len;
	AttentionArgs g = {.seqs = SEQS, .len = len, .heads = HEADS, .dim = DIM, .queries = len};
	Mat *in[] = {&g.q, &g.k, &g.v}, *back[] = {&g.dq, &g.dk, &g.dv};
	uint16_t *grads = out + rows * INNER;
	for (i64 i = 0; i < 3; i++) {
		*in[i] = (Mat){(float *)(a_bf16 + i * INNER), rows, INNER, 3 * INNER, 1};
		*back[i] = (Mat){(float *)(grads + i * INNER), rows, INNER, 3 * INNER, 1};
	}
	g.out = (Mat){(float *)out, rows, INNER, INNER, 1};
	g.dout = (Mat){(float *)(a_bf16 + rows * 3 * INNER), rows, INNER, INNER, 1};
	g.lse = (Mat){lse, SEQS * HEADS, len, len, 0};
	return table[K_ATTENTION](&pool, &g) || table[K_ATTENTION_GRAD](&pool, &g);
}

static void run_attention(i64 len) {
	fill((Case){0});
	memset(&two, 0, sizeof two);
	memset(&one, 0, sizeof one);
	threads = 1 + (int)(cases % 4);
	int failed = attention(kernels_amx, len, (uint16_t *)one.dst, one.pre);
	failed |= attention(kernels_amx_emulated, len, (uint16_t *)two.dst, two.pre);
	different += failed || memcmp(&one, &two, sizeof one) != 0;
	cases++;
}

void main64(void) {
	static const int shapes[][3] = {
		{1, 1, 1}, {1, 17, 65}, {17, 65, 193}, {65, 193, 17}, {193, 17, 65}, {5, 96, 48}, {33, 48, 96}, {200, 300, 270},
		{100, 130, 20}, {3, 192, 1030}, {260, 64, 2}, {96, 64, 192}, {64, 192, 768}, {48, 576, 192},
	};
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		for (int i = 0; i < 3 * 4 * 2; i++) {
			int kind = i / 3 % 4;
			run((Case){i % 3, kind, i / 12, kind ? (int)(s + kind) % 5 : 0, shapes[s][0], shapes[s][1], shapes[s][2]});
		}
		print_count("shape ", (i64)s);
		print_count(": ", different);
		print_count(" different, ", wrong);
		print(" wrong\n");
	}
	for (i64 len = 1; len <= 65; len += 16) run_attention(len);
	print_count("DONE ", cases);
	print_count(" cases, ", different);
	print_count(" different, ", wrong);
	print(" wrong\n");
}
