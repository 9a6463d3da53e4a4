// driver.h: what gorgonia.org/cu lacks. Functions return the driver's codes, 0 for success.
#ifndef DRIVER_H
#define DRIVER_H
#include <cuda.h>
#include <stddef.h>

// Of libcuda.a: -1 without a driver's library, else what its cuInit returned.
int libcuda_state(void);

const char *gpu_error(int code);

// gpu_prepare allows a kernel all the shared memory that a block may have. Where
// launches overlap, all kernels divide a multiprocessor's memory alike: it has to
// be idle to be divided anew.
int gpu_prepare(CUfunction f, int overlap);
int gpu_sync(CUstream stream);
int gpu_host_alloc(void **p, size_t bytes);

// Node is one launch; its arguments, one structure, lie at args + at.
typedef struct {
	CUfunction function;
	unsigned grid, threads, shared, at;
} Node;

// Launches overlap where *overlap is set: a kernel begins while the one before
// ends, for which all kernels wait (common.cuh). A driver that refuses is asked
// without, and *overlap is cleared.
int gpu_run(CUstream stream, int *overlap, int n, const Node *nodes, const char *args, int *failed);

// Chain is a graph of launches one after another.
typedef struct Chain Chain;
int gpu_chain(Chain **chain, int *overlap, int n, const Node *nodes, const char *args);
// gpu_chain_update gives launch i other arguments, which begin at args.
int gpu_chain_update(Chain *chain, int i, const Node *node, const char *args);
int gpu_chain_start(Chain *chain, CUstream stream);
int gpu_chain_free(Chain *chain);

#endif
