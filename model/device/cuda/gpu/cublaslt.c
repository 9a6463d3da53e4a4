//go:build gpu

#include "cublaslt.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

// The part of cublasLt's interface that is used here, with the values of its
// documentation. It is declared here since its headers need not be installed, and the
// library is opened at run time.
enum { R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, OP_T = 1, DESC_TRANSA = 3, PREFERENCE_WORKSPACE = 1 };

// Heuristic is cublasLtMatmulHeuristicResult_t.
typedef struct {
	struct { uint64_t data[8]; } algo;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
} Heuristic;

// Library is the functions of the opened library.
typedef struct {
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*desc)(void **desc, int compute, int scale);
	int (*desc_set)(void *desc, int attribute, const void *value, size_t size);
	int (*desc_free)(void *desc);
	int (*layout)(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
	int (*layout_free)(void *layout);
	int (*preference)(void **preference);
	int (*preference_set)(void *preference, int attribute, const void *value, size_t size);
	int (*preference_free)(void *preference);
	int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int asked, Heuristic *found, int *count);
	int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta,
		const void *c, void *lc, void *d, void *ld, const void *algo, void *work, size_t size, CUstream stream);
} Library;

static const struct {
	size_t at;
	const char *name;
} symbols[] = {
	{offsetof(Library, create), "cublasLtCreate"},
	{offsetof(Library, destroy), "cublasLtDestroy"},
	{offsetof(Library, desc), "cublasLtMatmulDescCreate"},
	{offsetof(Library, desc_set), "cublasLtMatmulDescSetAttribute"},
	{offsetof(Library, desc_free), "cublasLtMatmulDescDestroy"},
	{offsetof(Library, layout), "cublasLtMatrixLayoutCreate"},
	{offsetof(Library, layout_free), "cublasLtMatrixLayoutDestroy"},
	{offsetof(Library, preference), "cublasLtMatmulPreferenceCreate"},
	{offsetof(Library, preference_set), "cublasLtMatmulPreferenceSetAttribute"},
	{offsetof(Library, preference_free), "cublasLtMatmulPreferenceDestroy"},
	{offsetof(Library, heuristic), "cublasLtMatmulAlgoGetHeuristic"},
	{offsetof(Library, matmul), "cublasLtMatmul"},
};

// open_library opens the library where the loader finds it (PyTorch's wheels have it in
// nvidia/*/lib) or in the toolkit's folder; 0 if there is none, or one without a
// function.
static int open_library(Library *lt) {
	static const char *const places[] = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",
		"/usr/local/cuda/lib64/libcublasLt.so.12"};
	void *library = NULL;
	for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	if (!library) return 0;
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		if (!(*(void **)((char *)lt + symbols[i].at) = dlsym(library, symbols[i].name))) return 0;
	return 1;
}

// Product is a prepared GEMM; matrix is the layout of all three matrices.
struct Product {
	Library lt;
	void *handle, *desc, *matrix, *preference;
	Heuristic best;
};

// prepare creates the descriptors and chooses the best algorithm by cublasLt's
// heuristic; not 0 on failure.
static int prepare(Product *p, int n, int bf16) {
	int transposed = OP_T, type = bf16 ? R_16BF : R_32F, found = 0;
	size_t work = product_work;
	// cublasLt is column-major: it sees our row-major matrices transposed. c = a b^T,
	// stored by rows, is c^T = b a^T there: the first operand is our b, transposed once
	// more.
	return p->lt.create(&p->handle) || p->lt.desc(&p->desc, COMPUTE_32F, R_32F) ||
		p->lt.desc_set(p->desc, DESC_TRANSA, &transposed, sizeof transposed) ||
		p->lt.layout(&p->matrix, type, n, n, n) || p->lt.preference(&p->preference) ||
		p->lt.preference_set(p->preference, PREFERENCE_WORKSPACE, &work, sizeof work) ||
		p->lt.heuristic(p->handle, p->desc, p->matrix, p->matrix, p->matrix, p->matrix, p->preference, 1, &p->best, &found) || found == 0;
}

Product *product_open(int n, int bf16, const char **missing) {
	Product *p = calloc(1, sizeof *p);
	if (!p || !open_library(&p->lt)) {
		*missing = "libcublasLt.so was not found";
		free(p);
		return NULL;
	}
	if (prepare(p, n, bf16)) {
		*missing = "libcublasLt.so does not support it";
		product_close(p);
		return NULL;
	}
	return p;
}

int product_run(Product *p, CUdeviceptr c, CUdeviceptr a, CUdeviceptr b, CUdeviceptr work, CUstream stream) {
	const float one = 1, zero = 0;
	void *d = (void *)(uintptr_t)c;
	return p->lt.matmul(p->handle, p->desc, &one, (const void *)(uintptr_t)b, p->matrix, (const void *)(uintptr_t)a, p->matrix, &zero, d, p->matrix, d, p->matrix,
		&p->best.algo, (void *)(uintptr_t)work, product_work, stream);
}

void product_close(Product *p) {
	if (p->preference) p->lt.preference_free(p->preference);
	if (p->matrix) p->lt.layout_free(p->matrix);
	if (p->desc) p->lt.desc_free(p->desc);
	if (p->handle) p->lt.destroy(p->handle);
	free(p);
}
