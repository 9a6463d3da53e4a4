// state.h: the state of the emulated driver.
//
// One recursive lock guards it all. Queued work runs on the thread that waits for it,
// inside the call that waits; there are no threads of the driver's.
#ifndef STATE_H
#define STATE_H

#include <cuda.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// Settings come from SCALEWM_EMULATED_GPU, a comma-separated list of name=number.
struct Settings {
	long devices = 1, version = 12080; // number of GPUs; CUDA version of the driver
	long capability = 90, multiprocessors = 132, memory = 4096; // of the GPU; memory in MiB
	long order = 1; // in which a block's threads run: 1 forwards, 2 backwards, 3 mixed
	// The n-th allocation, launch or copy fails (0: none), the latter two with this
	// error code.
	long alloc = 0, launch = 0, copy = 0, code = 700;
	long kill = 0;    // the n-th launch kills the process
	long overlap = 1; // 0: the driver rejects programmatic dependent launches
	long close = 0;   // 1: releasing modules, streams, graphs and the context fails
};

// Library is the kernels compiled for the processor (kernels.so of package emu).
struct Library {
	void *handle;
	const char *(*launch)(void (*)(const void *), const void *, int, int, int, int);
	void *(*alloc)(size_t);
	void (*free)(void *, size_t);
	void *symbol(const std::string &name) const;
};

struct CUmod_st;

// CUfunc_st is a kernel of a module: PTX says its arguments and threads, kernels.so has
// the code.
struct CUfunc_st {
	std::string name;
	CUmod_st *module;
	void (*kernel)(const void *);
	size_t arguments; // bytes
	int most;                   // threads of a block
	int fixed, allowed;         // bytes of shared memory: static, and the limit of the dynamic
};

struct CUmod_st {
	std::map<std::string, CUfunc_st> functions;
};

// Kernel is one launch, with a copy of its arguments at the time of the call.
struct Kernel {
	CUfunction function;
	unsigned grid, threads, shared;
	std::vector<char> arguments;
};

// Operation is an entry of a stream's queue.
typedef std::function<CUresult()> Operation;

// Recording is one recording of an event. Events point to their latest one; a stream
// that waits for an event keeps the recording of the time of the call, as CUDA
// specifies.
struct Recording {
	CUstream stream;
	bool complete;
	double when; // milliseconds
};

struct CUevent_st {
	std::shared_ptr<Recording> last;
};

// CUstream_st is a stream and its queue. While it captures, launches go to a graph
// instead, in a chain whose last node is tail.
struct CUstream_st {
	std::deque<Operation> queue;
	CUgraph capture = nullptr;
	CUgraphNode tail = nullptr;
};

// Edge is a dependency of a node. Programmatic edges are recorded but have the effect
// of full ones, since kernels never overlap here.
struct Edge {
	CUgraphNode from;
	bool programmatic;
};

// CUgraphNode_st is a kernel node and its dependencies.
struct CUgraphNode_st {
	Kernel kernel;
	std::vector<Edge> after;
	bool programmatic = false; // its attribute
};

struct CUgraph_st {
	std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

// CUgraphExec_st is an instantiated graph: its kernels in the order in which they run,
// and where each node is in that order.
struct CUgraphExec_st {
	std::vector<Kernel> kernels;
	std::map<CUgraphNode, size_t> at;
};

// CUctx_st is the primary context, the only one, with all objects that live in it.
struct CUctx_st {
	int users = 0; // times it has been retained
	CUresult failure = CUDA_SUCCESS; // sticky: every later call returns it
	std::map<char *, size_t> device, host; // allocations: sizes by address
	size_t used = 0; // bytes of device memory
	std::vector<std::unique_ptr<CUmod_st>> modules;
	std::vector<std::unique_ptr<CUstream_st>> streams;
	std::vector<std::unique_ptr<CUevent_st>> events;
	std::vector<std::unique_ptr<CUgraph_st>> graphs;
	std::vector<std::unique_ptr<CUgraphExec_st>> execs;
};

extern Settings settings;
extern Library library;
extern CUctx_st context;
extern std::recursive_mutex lock;

// is_nth counts down `left` and reports whether this is the call that shall fail.
inline bool is_nth(long &left) { return left > 0 && --left == 0; }

// complain prints a caller's mistake to stderr and returns the code.
CUresult complain(CUresult code, const char *function, const char *text);

// ready returns what a call must return without doing anything: an error if there is no
// current context or it has failed, else 0.
CUresult ready(const char *function);

// fail puts the context into a sticky error state, as a fault in a kernel does.
CUresult fail(CUresult code);

// finish runs a stream's queue to its end. finish_all does so for all streams, the
// youngest first: work that relies on an order between streams without an event then
// fails.
CUresult finish(CUstream stream);
CUresult finish_all();

// contains reports whether [p, p + n) is within one allocation.
bool contains(const std::map<char *, size_t> &memory, const void *p, size_t n);

// prepare checks a launch and copies its arguments. run executes it.
CUresult prepare(const char *function, Kernel *kernel, void **params);
CUresult run(const Kernel &kernel);

// remove_object destroys an object of the context; false if it is not in the list. has
// reports whether it is.
template <class T> bool remove_object(std::vector<std::unique_ptr<T>> &list, T *object) {
	for (auto i = list.begin(); i != list.end(); ++i)
		if (i->get() == object) {
			list.erase(i);
			return true;
		}
	return false;
}

template <class T> bool has(const std::vector<std::unique_ptr<T>> &list, const T *object) {
	for (auto &o : list)
		if (o.get() == object) return true;
	return false;
}

// BEGIN starts every function that needs a context: it takes the lock and returns early
// if ready says so. NEED returns CUDA_ERROR_INVALID_VALUE, with a message, unless the
// condition holds.
#define BEGIN \
	std::lock_guard<std::recursive_mutex> guard(lock); \
	if (CUresult r = ready(__func__)) return r
#define NEED(condition) \
	if (!(condition)) return complain(CUDA_ERROR_INVALID_VALUE, __func__, #condition)

#endif
