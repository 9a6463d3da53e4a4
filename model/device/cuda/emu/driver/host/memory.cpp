// memory.cpp: memory of the GPU and page-locked memory, and copies between them.
#include "state.h"

#include <string.h>

bool whole(const std::map<char *, size_t> &memory, const void *p, size_t n) {
	auto i = memory.upper_bound((char *)p);
	if (i == memory.begin()) return false;
	--i;
	return (char *)p + n <= i->first + i->second;
}

static bool on_device(CUdeviceptr p, size_t n) { return whole(context.device, (void *)p, n); }

// take allocates memory that holds NaN, since nobody may rely on its contents.
static char *take(std::map<char *, size_t> &memory, size_t n) {
	char *p = (char *)library.alloc(n);
	if (!p) return NULL;
	memset(p, 0xff, n);
	memory[p] = n;
	return p;
}

static bool drop(std::map<char *, size_t> &memory, char *p, size_t *n) {
	auto i = memory.find(p);
	if (i == memory.end()) return false;
	*n = i->second;
	library.free(p, *n);
	memory.erase(i);
	return true;
}

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
	if (CUresult r = finish_all()) return r; // as the real one waits
	size_t n;
	NEED(drop(context.device, (char *)p, &n));
	context.used -= n;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
	BEGIN;
	*total = (size_t)settings.memory << 20;
	*free = *total - context.used;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t n, unsigned) {
	BEGIN;
	NEED(n > 0);
	*out = take(context.host, n);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *p) {
	BEGIN;
	if (CUresult r = finish_all()) return r;
	size_t n;
	NEED(drop(context.host, (char *)p, &n));
	return CUDA_SUCCESS;
}

// copy is one that fails if it is the one that shall.
static CUresult copy(void *dst, const void *src, size_t n) {
	if (is_nth(settings.copy)) return fail((CUresult)settings.code);
	memmove(dst, src, n);
	return CUDA_SUCCESS;
}

// later queues a copy: the host's memory is read or written when the stream comes to it.
static CUresult later(CUstream stream, void *dst, const void *src, size_t n) {
	stream->queue.push_back([=] { return copy(dst, src, n); });
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream stream) {
	BEGIN;
	bool page_locked = whole(context.host, src, n);
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n) && page_locked);
	return later(stream, (void *)dst, src, n);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream stream) {
	BEGIN;
	bool page_locked = whole(context.host, dst, n);
	NEED(has(context.streams, stream) && !stream->capture && on_device(src, n) && page_locked);
	return later(stream, dst, (void *)src, n);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n) && on_device(src, n));
	return later(stream, (void *)dst, (void *)src, n);
}

// The copies that wait for themselves do not wait for streams of our kind (non-blocking).
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

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream) && !stream->capture && on_device(dst, n));
	stream->queue.push_back([=] { return memset((void *)dst, value, n), CUDA_SUCCESS; });
	return CUDA_SUCCESS;
}
