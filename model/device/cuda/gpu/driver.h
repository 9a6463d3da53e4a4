// driver.h: what gorgonia.org/cu lacks. Functions return the driver's error codes, 0
// for success. The context must be current on the calling thread.
#ifndef DRIVER_H
#define DRIVER_H
#include <cuda.h>
#include <stddef.h>

// libcuda_state, of libcuda.a, returns -1 if there is no library of a driver, else what
// its cuInit returned.
int libcuda_state(void);

// gpu_error returns the driver's description of an error.
const char *gpu_error(int code);

// gpu_prepare allows a kernel all the dynamic shared memory that a block may have,
// instead of 48 KiB. If launches overlap, it also makes all kernels prefer the same
// division of an SM's memory between L1 and shared memory: an SM must be idle to change
// the division, which would keep the next kernel's blocks from starting there.
int gpu_prepare(CUfunction f, int overlap);
// gpu_sync waits for a stream.
int gpu_sync(CUstream stream);

// gpu_host_alloc allocates page-locked memory.
int gpu_host_alloc(void **p, size_t bytes);

// Node is one launch; its arguments, one structure, begin at args + at.
typedef struct {
	CUfunction function;
	unsigned grid, threads, shared, at;
} Node;

// gpu_run launches n kernels in order. If *overlap is set, they are launched with
// programmatic stream serialization: a kernel may start before its predecessor has
// ended, and waits for it (common.cuh). If the driver rejects such a launch, it is
// repeated without, and *overlap is cleared. *failed is the index of the launch that
// failed.
int gpu_run(CUstream stream, int *overlap, int n, const Node *nodes, const char *args, int *failed);

// Chain is an instantiated graph of launches that depend on each other in order.
// gpu_chain builds one; its edges are programmatic if *overlap is set. If the driver
// rejects such a graph, it is built again with full dependencies, and *overlap is
// cleared.
typedef struct Chain Chain;
int gpu_chain(Chain **chain, int *overlap, int n, const Node *nodes, const char *args);
// gpu_chain_update gives launch i the arguments at args, from the next start on.
int gpu_chain_update(Chain *chain, int i, const Node *node, const char *args);
int gpu_chain_start(Chain *chain, CUstream stream);
int gpu_chain_free(Chain *chain);

#endif
