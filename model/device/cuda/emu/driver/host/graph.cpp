// graph.cpp: graphs of kernels, explicitly built or captured from a stream.
//
// Among the nodes whose dependencies have run, the one added last runs first. A graph
// that lacks an edge therefore runs in the wrong order, whereas a real GPU would
// usually run it in the intended one.
#include "state.h"

CUresult cuGraphCreate(CUgraph *out, unsigned) {
	BEGIN;
	context.graphs.emplace_back(new CUgraph_st);
	*out = context.graphs.back().get();
	return CUDA_SUCCESS;
}

// Instantiated graphs do not refer to the graph they come from, except by the addresses
// of its nodes as keys.
CUresult cuGraphDestroy(CUgraph graph) {
	BEGIN;
	NEED(remove_object(context.graphs, graph));
	return settings.close ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

// supported reports whether a node is of the kind that the engine uses:
// one-dimensional, with kernelParams.
static bool supported(const CUDA_KERNEL_NODE_PARAMS *p) {
	return p->gridDimY == 1 && p->gridDimZ == 1 && p->blockDimY == 1 && p->blockDimZ == 1 && !p->extra && p->func;
}

static Kernel kernel_of(const CUDA_KERNEL_NODE_PARAMS *p) { return {p->func, p->gridDimX, p->blockDimX, p->sharedMemBytes, {}}; }

// The node copies the kernel's arguments, as a launch does. Dependencies given here are
// full ones.
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n, const CUDA_KERNEL_NODE_PARAMS *p) {
	BEGIN;
	NEED(has(context.graphs, graph) && supported(p));
	Kernel kernel = kernel_of(p);
	if (CUresult r = prepare(__func__, &kernel, p->kernelParams)) return r;
	std::unique_ptr<CUgraphNode_st> node(new CUgraphNode_st{std::move(kernel), {}, false});
	for (size_t i = 0; i < n; i++) {
		NEED(has(graph->nodes, after[i]));
		node->after.push_back({after[i], false});
	}
	*out = node.get();
	graph->nodes.push_back(std::move(node));
	return CUDA_SUCCESS;
}

// Edge data must be consistent: a programmatic edge leaves the programmatic port, any
// other the default one.
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t n) {
	BEGIN;
	for (size_t i = 0; i < n; i++) {
		NEED(has(graph->nodes, from[i]) && has(graph->nodes, to[i]));
		bool programmatic = data && data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
		NEED(!programmatic || settings.overlap);
		NEED(!data || data[i].from_port == (programmatic ? CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC : CU_GRAPH_KERNEL_NODE_PORT_DEFAULT));
		to[i]->after.push_back({from[i], programmatic});
	}
	return CUDA_SUCCESS;
}

// The attribute is stored but has no effect: kernels run one after another.
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue *value) {
	BEGIN;
	if (attribute != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return complain(CUDA_ERROR_NOT_SUPPORTED, __func__, "this attribute is not emulated");
	node->programmatic = value->programmaticStreamSerializationAllowed;
	return CUDA_SUCCESS;
}

// cuGraphInstantiate sorts the nodes topologically, once.
CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long) {
	BEGIN;
	NEED(has(context.graphs, graph));
	std::unique_ptr<CUgraphExec_st> exec(new CUgraphExec_st);
	std::map<CUgraphNode, size_t> pending;           // dependencies that have not run
	std::map<CUgraphNode, std::vector<size_t>> next; // dependents, by index
	std::vector<size_t> free;                        // indices of nodes that may run
	for (size_t i = 0; i < graph->nodes.size(); i++) {
		CUgraphNode node = graph->nodes[i].get();
		pending[node] = node->after.size();
		for (auto &edge : node->after) next[edge.from].push_back(i);
		if (node->after.empty()) free.push_back(i);
	}
	while (!free.empty()) {
		auto last = std::max_element(free.begin(), free.end());
		CUgraphNode node = graph->nodes[*last].get();
		free.erase(last);
		exec->at[node] = exec->kernels.size();
		exec->kernels.push_back(node->kernel);
		for (size_t i : next[node])
			if (--pending[graph->nodes[i].get()] == 0) free.push_back(i);
	}
	NEED(exec->kernels.size() == graph->nodes.size()); // otherwise there is a cycle
	*out = exec.get();
	context.execs.push_back(std::move(exec));
	return CUDA_SUCCESS;
}

// cuGraphExecKernelNodeSetParams replaces a node's launch for later starts.
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
	BEGIN;
	NEED(has(context.execs, exec) && exec->at.count(node) && supported(p));
	Kernel kernel = kernel_of(p);
	if (CUresult r = prepare(__func__, &kernel, p->kernelParams)) return r;
	exec->kernels[exec->at[node]] = std::move(kernel);
	return CUDA_SUCCESS;
}

// cuGraphLaunch queues the kernels on the stream. A graph cannot be launched into a
// capture here.
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
	BEGIN;
	NEED(has(context.execs, exec) && has(context.streams, stream) && !stream->capture);
	// The kernels are copied: updates after this call do not affect this start.
	for (auto &k : exec->kernels) stream->queue.push_back([k] { return run(k); });
	return CUDA_SUCCESS;
}

// Starts that are queued have their own copies of the kernels, so the graph may be
// destroyed before they run.
CUresult cuGraphExecDestroy(CUgraphExec exec) {
	BEGIN;
	NEED(remove_object(context.execs, exec));
	return CUDA_SUCCESS;
}

// Between begin and end of a capture, launches on the stream become nodes of a new
// graph, each depending on the previous one.
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
	BEGIN;
	NEED(has(context.streams, stream) && !stream->capture);
	context.graphs.emplace_back(new CUgraph_st);
	stream->capture = context.graphs.back().get();
	stream->tail = nullptr;
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *out) {
	BEGIN;
	NEED(has(context.streams, stream) && stream->capture);
	*out = stream->capture;
	stream->capture = nullptr;
	return CUDA_SUCCESS;
}

// With nodes NULL, only the number is returned. Nodes are in the order in which they
// were added.
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
	BEGIN;
	NEED(has(context.graphs, graph));
	if (nodes)
		for (size_t i = 0; i < *n && i < graph->nodes.size(); i++) nodes[i] = graph->nodes[i].get();
	*n = graph->nodes.size();
	return CUDA_SUCCESS;
}
