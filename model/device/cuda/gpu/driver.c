//go:build cuda

#include "driver.h"

#include <stdlib.h>

const char *gpu_error(int code) {
	const char *text = NULL;
	if (cuGetErrorString((CUresult)code, &text) != CUDA_SUCCESS || !text) return "unknown error";
	return text;
}

int gpu_prepare(CUfunction f) {
	CUdevice device;
	int most = 0, fixed = 0;
	CUresult r = cuCtxGetDevice(&device);
	if (!r) r = cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
	if (!r) r = cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
	if (!r) r = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - fixed);
	return r;
}

int gpu_sync(CUstream stream) { return cuStreamSynchronize(stream); }

int gpu_host_alloc(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

int gpu_run(CUstream stream, int n, const Node *nodes, const char *args, int *failed) {
	for (int i = 0; i < n; i++) {
		void *params[1] = {(void *)(args + nodes[i].at)};
		CUresult r = cuLaunchKernel(nodes[i].function, nodes[i].grid, 1, 1, nodes[i].threads, 1, 1, nodes[i].shared, stream, params, NULL);
		*failed = i;
		if (r) return r;
	}
	return CUDA_SUCCESS;
}

struct Chain {
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[];
};

// fill describes a launch to the graph functions, which copy the arguments.
static void fill(CUDA_KERNEL_NODE_PARAMS *p, const Node *node, void **params) {
	*p = (CUDA_KERNEL_NODE_PARAMS){.func = node->function, .gridDimX = node->grid, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = node->threads, .blockDimY = 1, .blockDimZ = 1, .sharedMemBytes = node->shared, .kernelParams = params};
}

int gpu_chain(Chain **chain, int n, const Node *nodes, const char *args) {
	Chain *c = calloc(1, sizeof *c + n * sizeof *c->nodes);
	if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = cuGraphCreate(&c->graph, 0);
	for (int i = 0; i < n && !r; i++) {
		CUDA_KERNEL_NODE_PARAMS p;
		void *params[1] = {(void *)(args + nodes[i].at)};
		fill(&p, &nodes[i], params);
		r = cuGraphAddKernelNode(&c->nodes[i], c->graph, i ? &c->nodes[i - 1] : NULL, i > 0, &p);
	}
	if (!r) r = cuGraphInstantiateWithFlags(&c->exec, c->graph, 0);
	if (r) gpu_chain_free(c);
	else *chain = c;
	return r;
}

int gpu_chain_update(Chain *c, int i, const Node *node, const char *args) {
	CUDA_KERNEL_NODE_PARAMS p;
	void *params[1] = {(void *)args};
	fill(&p, node, params);
	return cuGraphExecKernelNodeSetParams(c->exec, c->nodes[i], &p);
}

int gpu_chain_start(Chain *c, CUstream stream) { return cuGraphLaunch(c->exec, stream); }

int gpu_chain_free(Chain *c) {
	CUresult r = CUDA_SUCCESS, s = CUDA_SUCCESS;
	if (c->exec) r = cuGraphExecDestroy(c->exec);
	if (c->graph) s = cuGraphDestroy(c->graph);
	free(c);
	return r ? r : s;
}
