//go:build gpu

#include "driver.h"

#include <stdlib.h>

const char *gpu_error(int code) {
	const char *text = NULL;
	if (cuGetErrorString((CUresult)code, &text) != CUDA_SUCCESS || !text) return "unknown error";
	return text;
}

// The limit applies to static and dynamic shared memory together.
int gpu_prepare(CUfunction f, int overlap) {
	CUdevice device;
	int most = 0, fixed = 0;
	CUresult r = cuCtxGetDevice(&device);
	if (!r) r = cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
	if (!r) r = cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
	if (!r) r = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - fixed);
	if (!r && overlap) r = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
	return r;
}

int gpu_sync(CUstream stream) { return cuStreamSynchronize(stream); }

int gpu_host_alloc(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

// launch launches one kernel. The driver copies the arguments during the call.
static CUresult launch(CUstream stream, int overlap, const Node *node, const char *args) {
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value.programmaticStreamSerializationAllowed = 1};
	CUlaunchConfig config = {.gridDimX = node->grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = node->threads, .blockDimY = 1,
		.blockDimZ = 1, .sharedMemBytes = node->shared, .hStream = stream, .attrs = &attribute, .numAttrs = overlap != 0};
	void *params[1] = {(void *)(args + node->at)};
	return cuLaunchKernelEx(&config, node->function, params, NULL);
}

int gpu_run(CUstream stream, int *overlap, int n, const Node *nodes, const char *args, int *failed) {
	for (int i = 0; i < n; i++) {
		CUresult r = launch(stream, *overlap, &nodes[i], args);
		if (r && *overlap) r = launch(stream, *overlap = 0, &nodes[i], args);
		*failed = i;
		if (r) return r;
	}
	return CUDA_SUCCESS;
}

// The graph is kept since its nodes are the handles for updates of exec.
struct Chain {
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[];
};

// fill describes a launch for the graph functions, which copy the arguments.
static void fill(CUDA_KERNEL_NODE_PARAMS *p, const Node *node, void **params) {
	*p = (CUDA_KERNEL_NODE_PARAMS){.func = node->function, .gridDimX = node->grid, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = node->threads, .blockDimY = 1, .blockDimZ = 1, .sharedMemBytes = node->shared, .kernelParams = params};
}

// chain builds and instantiates a graph. An edge of the programmatic type lets the next
// node start under the same conditions as programmatic stream serialization.
static int chain(Chain **out, int overlap, int n, const Node *nodes, const char *args) {
	CUgraphEdgeData edge = {0};
	if (overlap) edge = (CUgraphEdgeData){.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
	Chain *c = calloc(1, sizeof *c + n * sizeof *c->nodes);
	if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = cuGraphCreate(&c->graph, 0);
	for (int i = 0; i < n && !r; i++) {
		CUDA_KERNEL_NODE_PARAMS p;
		void *params[1] = {(void *)(args + nodes[i].at)};
		fill(&p, &nodes[i], params);
		r = cuGraphAddKernelNode(&c->nodes[i], c->graph, NULL, 0, &p);
		if (!r && i) r = cuGraphAddDependencies_v2(c->graph, &c->nodes[i - 1], &c->nodes[i], &edge, 1);
	}
	if (!r) r = cuGraphInstantiateWithFlags(&c->exec, c->graph, 0);
	// A graph whose nodes cannot be updated is of no use. Try one update now, so that the
	// fallback applies.
	if (!r) r = gpu_chain_update(c, n - 1, &nodes[n - 1], args + nodes[n - 1].at);
	if (r) gpu_chain_free(c);
	else *out = c;
	return r;
}

int gpu_chain(Chain **out, int *overlap, int n, const Node *nodes, const char *args) {
	int r = chain(out, *overlap, n, nodes, args);
	if (r && *overlap) r = chain(out, *overlap = 0, n, nodes, args);
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
