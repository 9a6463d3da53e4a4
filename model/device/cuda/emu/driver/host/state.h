// state.h: what an emulated driver keeps. One lock guards it all; work that is
// queued runs on the thread that waits for it.
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

// Settings come from SCALEWM_EMULATED_GPU, a list of name=number.
struct Settings {
	long devices = 1, version = 12080;        // of the machine
	long capability = 90, multiprocessors = 132, memory = 4096; // of the GPU; memory in MiB
	long order = 1;                            // of a block's threads: 1 forwards, 2 backwards, 3 mixed
	long alloc = 0, launch = 0, copy = 0, code = 700; // the n-th of these fails, 0 none; with which code
	long kill = 0;                             // the n-th launch kills the process
	long overlap = 1;                          // whether launches may
	long close = 0;                            // whether giving back fails
};

// Library is the kernels compiled for the processor (package emu).
struct Library {
	void *handle;
	const char *(*launch)(void (*)(const void *), const void *, int, int, int, int);
	void *(*alloc)(size_t);
	void (*free)(void *, size_t);
	void *symbol(const std::string &name) const;
};

struct CUmod_st;

struct CUfunc_st {
	std::string name;
	CUmod_st *module;
	void (*kernel)(const void *);
	size_t arguments;           // bytes
	int most, fixed, allowed;   // threads of a block; bytes of shared memory: static, most of the dynamic
};

struct CUmod_st {
	std::map<std::string, CUfunc_st> functions;
};

// Kernel is one launch with its arguments as they were when it was asked for.
struct Kernel {
	CUfunction function;
	unsigned grid, threads, shared;
	std::vector<char> arguments;
};

typedef std::function<CUresult()> Operation;

// Recording is one recording of an event.
struct Recording {
	CUstream stream;
	bool complete;
	double when; // milliseconds
};

struct CUevent_st {
	std::shared_ptr<Recording> last;
};

struct CUstream_st {
	std::deque<Operation> queue;
	CUgraph capture = nullptr; // where launches go while it captures
	CUgraphNode tail = nullptr;
};

// Edge is what a node waits for; programmatic: for its permission only.
struct Edge {
	CUgraphNode from;
	bool programmatic;
};

struct CUgraphNode_st {
	Kernel kernel;
	std::vector<Edge> after;
	bool programmatic = false; // its attribute
};

struct CUgraph_st {
	std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
	std::vector<Kernel> kernels; // in the order in which they run
	std::map<CUgraphNode, size_t> at;
};

// CUctx_st is the one primary context.
struct CUctx_st {
	int users = 0;
	CUresult failure = CUDA_SUCCESS; // sticky
	std::map<char *, size_t> device, host; // memory by address
	size_t used = 0;
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

// is_nth counts down to the time that something shall go wrong.
inline bool is_nth(long &left) { return left > 0 && --left == 0; }

// complain says on stderr what a caller did wrong, and returns the code.
CUresult complain(CUresult code, const char *function, const char *text);

// ready is whether a call may go on: 0, or what it returns instead.
CUresult ready(const char *function);

// fail makes a failure stick, as one of a running kernel does.
CUresult fail(CUresult code);

// finish runs a stream's queue; finish_all those of all, the youngest stream first.
CUresult finish(CUstream stream);
CUresult finish_all();

// whole is whether [p, p + n) lies in one piece of memory.
bool whole(const std::map<char *, size_t> &memory, const void *p, size_t n);

// prepare checks a launch and copies its arguments; run runs it now.
CUresult prepare(const char *function, Kernel *kernel, void **params);
CUresult run(const Kernel &kernel);

// give_back takes an object out of a list of the context's.
template <class T> bool give_back(std::vector<std::unique_ptr<T>> &list, T *object) {
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

// BEGIN opens every function that needs a context; NEED checks what it was given.
#define BEGIN \
	std::lock_guard<std::recursive_mutex> guard(lock); \
	if (CUresult r = ready(__func__)) return r
#define NEED(condition) \
	if (!(condition)) return complain(CUDA_ERROR_INVALID_VALUE, __func__, #condition)

#endif
