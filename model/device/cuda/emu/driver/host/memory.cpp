// memory.cpp: device memory, page-locked memory, and copies.
#include "state.h"

#include <string.h>

// The candidate is the last allocation that begins at or before p.
bool contains(const std::map<char *, size_t> &memory, const void *p, size_t n) {
	auto i = memory.upper_bound((char *)p);
	if (i == memory.begin()) return false;
	--i;
	return (char *)p + n <= i->first + i->second;
}

static bool on_device(CUdeviceptr p, size_t n) { return contains(context.device, (void *)p, n); }

// take allocates memory filled with NaN, since nobody may rely on its contents.
static char *take(std::map<char *, size_t> &memory, size_t n) {
	char *p = (char *)library.alloc(n);
	if (!p) return NULL;
	memset(p, 0xff, n);
	memory[p] = n;
	return p;
}

// release frees an allocation and sets *n to its size; false if p is not the start of one.
static bool release(std::map<char *, size_t> &memory, char *p, size_t *n) {
	auto i = memory.find(p);
	if (i == memory.end()) return false;
	*n = i->second;
	library.free(p, *n);
	memory.erase(i);
	return true;
}

// cuMemAlloc fails with out of memory once the GPU's memory of the settings is used up.
// That error is not sticky.
CUresult cuMemAlloc(CUdeviceptr *out, size_t n) {
	BEGIN;
	NEED(n > 0);
	size_t total = (size_t)settings.memory << 20;
	if (is_nth(settings.alloc) || n > total - context.used) return CUDA_ERROR_OUT_OF_MEMORY;
	char *p = take(context.device, n);
	if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
	context.used += n;
	*out = (CUdeviceptr)p;
	return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr p) {
	BEGIN;
	if (CUresult r = finish_all()) return r; // the real function waits for the device, too
	size_t n;
	NEED(release(context.device, (char *)p, &n));
	context.used -= n;
	return CUDA_SUCCESS;
}

// Free memory is what the settings allow, less what is allocated: there is no overhead
// or fragmentation.
CUresult cuMemGetInfo(size_t *free, size_t *total) {
	BEGIN;
	*total = (size_t)settings.memory << 20;
	*free = *total - context.used;
	return CUDA_SUCCESS;
}

// Page-locked memory is ordinary memory, registered so that asynchronous copies can
// check for it.
CUresult cuMemHostAlloc(void **out, size_t n, unsigned) {
	BEGIN;
	NEED(n > 0);
	*out = take(context.host, n);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *p) {
	BEGIN;
	if (CUresult r = finish_all()) return r; // copies may still use the memory
	size_t n;
	NEED(release(context.host, (char *)p, &n));
	return CUDA_SUCCESS;
}

// copy copies, or fails if it is the copy that shall.
static CUresult copy(void *dst, const void *src, size_t n) {
	if (is_nth(settings.copy)) return fail((CUresult)settings.code);
	memmove(dst, src, n);
	return CUDA_SUCCESS;
}

// enqueue_copy queues a copy. The host's memory is read or written when the stream gets
// there, so a caller that reuses it too early is found.
static CUresult enqueue_copy(CUstream stream, void *dst, const void *src, size_t n) {
	stream->queue.push_back([=] { return copy(dst, src, n); });
	return CUDA_SUCCESS;
}

// Asynchronous copies from and to pageable memory are errors: a real driver accepts
// them, but may copy synchronously.
CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream stream) {
	BEGIN;
	bool page_locked = contains(context.host, src, n);
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n) && page_locked);
	return enqueue_copy(stream, (void *)dst, src, n);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream stream) {
	BEGIN;
	bool page_locked = contains(context.host, dst, n);
	NEED(has(context.streams, stream) && !stream->capture && on_device(src, n) && page_locked);
	return enqueue_copy(stream, dst, (void *)src, n);
}

// Copies within the device are queued, too. Both ranges must be within allocations.
CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n) && on_device(src, n));
	return enqueue_copy(stream, (void *)dst, (void *)src, n);
}

// Synchronous copies use the default stream, which does not wait for non-blocking
// streams like ours.
CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n) {
	BEGIN;
	NEED(on_device(dst, n));
	return copy((void *)dst, src, n);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n) {
	BEGIN;
	NEED(on_device(src, n));
	return copy(dst, (void *)src, n);
}

// Like copies, the operation is queued.
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n));
	stream->queue.push_back([=] { return memset((void *)dst, value, n), CUDA_SUCCESS; });
	return CUDA_SUCCESS;
}
