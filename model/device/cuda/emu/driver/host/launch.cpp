// launch.cpp: launches.
#include "state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ARGUMENTS = 32764 }; // bytes of a kernel's arguments, since CUDA 12.1

// prepare rejects launches that a real driver rejects (unknown function, no arguments,
// empty grid, too much shared memory) and also block sizes that are not a multiple of a
// warp, which the kernels exclude.
CUresult prepare(const char *function, Kernel *kernel, void **params) {
	CUfunction f = kernel->function;
	bool known = false;
	for (auto &m : context.modules) known = known || m.get() == f->module;
	// Beyond 48 KiB, dynamic shared memory must have been allowed by cuFuncSetAttribute.
	const char *wrong = !known ? "a function of no module" : !params || !params[0] ? "no arguments" : f->arguments > MOST_ARGUMENTS ? "too many arguments" : kernel->grid == 0 ? "an empty grid" :
		kernel->threads % 32 || kernel->threads == 0 || (int)kernel->threads > f->most ? "threads that the kernel was not compiled for" :
		(int)kernel->shared > f->allowed || (int)kernel->shared + f->fixed > (f->allowed > 48 << 10 ? f->allowed + f->fixed : 48 << 10) ? "more shared memory than is allowed" : NULL;
	if (wrong) {
		fprintf(stderr, "emulated driver: %s: %s: %s (%u blocks of %u, %u bytes of shared memory)\n", function, known ? f->name.c_str() : "?", wrong, kernel->grid, kernel->threads, kernel->shared);
		return CUDA_ERROR_INVALID_VALUE;
	}
	const char *first = (const char *)params[0];
	kernel->arguments.assign(first, first + f->arguments);
	return CUDA_SUCCESS;
}

// run executes a kernel on the emulator. What the emulator reports becomes the error of
// a failed launch, which a real GPU would raise for an illegal access.
CUresult run(const Kernel &k) {
	if (is_nth(settings.kill)) raise(SIGKILL);
	if (is_nth(settings.launch)) return fail((CUresult)settings.code);
	alignas(128) char arguments[MOST_ARGUMENTS]; // as aligned as a kernel's parameter space
	memcpy(arguments, k.arguments.data(), k.arguments.size());
	const char *trouble = library.launch(k.function->kernel, arguments, k.grid, k.threads, k.shared, settings.order);
	if (!trouble) return CUDA_SUCCESS;
	fprintf(stderr, "emulated driver: kernel %s: %s\n", k.function->name.c_str(), trouble);
	return fail(CUDA_ERROR_LAUNCH_FAILED);
}

// add appends a kernel to the graph that a stream captures, or else to its queue.
static CUresult add(CUstream stream, Kernel kernel) {
	if (!stream->capture) {
		stream->queue.push_back([kernel] { return run(kernel); });
		return CUDA_SUCCESS;
	}
	stream->capture->nodes.emplace_back(new CUgraphNode_st{std::move(kernel), {}, false});
	CUgraphNode node = stream->capture->nodes.back().get();
	if (stream->tail) node->after.push_back({stream->tail, false});
	stream->tail = node;
	return CUDA_SUCCESS;
}

// cuLaunchKernel accepts one-dimensional grids and blocks with arguments in params. The
// arguments are copied now.
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra) {
	BEGIN;
	NEED(y == 1 && z == 1 && by == 1 && bz == 1 && !extra && has(context.streams, stream));
	Kernel kernel = {f, x, bx, shared, {}};
	if (CUresult r = prepare(__func__, &kernel, params)) return r;
	return add(stream, std::move(kernel));
}

// The only attribute that is accepted is programmatic stream serialization, unless the
// setting overlap is 0. It has no effect.
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	BEGIN;
	for (unsigned i = 0; i < c->numAttrs; i++) NEED(c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && settings.overlap);
	return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}
