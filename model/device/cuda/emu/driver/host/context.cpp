// context.cpp: initialization, the devices, the primary context, and error texts.
#include "state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Settings settings;
Library library;
CUctx_st context;
std::recursive_mutex lock;

static bool started; // cuInit has succeeded
// A fault in a kernel. Like a real driver's, it outlives the context: retaining a new
// one fails with it, and only a new process recovers.
static CUresult process_failure;
static thread_local CUcontext current;

CUresult complain(CUresult code, const char *function, const char *text) {
	fprintf(stderr, "emulated driver: %s: %s\n", function, text);
	return code;
}

CUresult ready(const char *function) {
	if (!started) return CUDA_ERROR_NOT_INITIALIZED;
	if (!current) return complain(CUDA_ERROR_INVALID_CONTEXT, function, "no context is current on this thread");
	if (!context.users) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return context.failure;
}

CUresult fail(CUresult code) {
	if (!context.failure) context.failure = process_failure = code;
	return context.failure;
}

void *Library::symbol(const std::string &name) const { return dlsym(handle, name.c_str()); }

// set assigns one setting; false if there is none of this name.
static bool set(const char *name, long value) {
	const std::pair<const char *, long *> known[] = {{"devices", &settings.devices}, {"version", &settings.version},
		{"capability", &settings.capability}, {"multiprocessors", &settings.multiprocessors}, {"memory", &settings.memory},
		{"order", &settings.order}, {"alloc", &settings.alloc}, {"launch", &settings.launch}, {"copy", &settings.copy},
		{"code", &settings.code}, {"kill", &settings.kill}, {"overlap", &settings.overlap}, {"close", &settings.close}};
	for (auto &k : known)
		if (!strcmp(k.first, name)) return *k.second = value, true;
	return false;
}

// read_settings parses SCALEWM_EMULATED_GPU. It aborts on a mistake, which would
// otherwise make a test pass without its failure.
static void read_settings() {
	const char *given = getenv("SCALEWM_EMULATED_GPU");
	std::string text = given ? given : "", item; // a copy: strtok modifies it
	for (char *s = strtok(&text[0], ","); s; s = strtok(NULL, ",")) {
		char name[32];
		long value;
		if (sscanf(s, "%31[a-z]=%ld", name, &value) != 2 || !set(name, value)) {
			fprintf(stderr, "emulated driver: SCALEWM_EMULATED_GPU: %s is not known\n", s);
			abort();
		}
	}
}

// open_kernels opens kernels.so in the folder of this library.
static bool open_kernels() {
	Dl_info here;
	if (!dladdr((void *)open_kernels, &here)) return false;
	std::string path(here.dli_fname);
	path = path.substr(0, path.rfind('/') + 1) + "kernels.so";
	library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!library.handle) {
		fprintf(stderr, "emulated driver: %s\n", dlerror());
		return false;
	}
	*(void **)&library.launch = library.symbol("emu_launch");
	*(void **)&library.alloc = library.symbol("emu_alloc");
	*(void **)&library.free = library.symbol("emu_free");
	return library.launch && library.alloc && library.free;
}

// cuInit reads the settings and opens the kernels, once per process. Without devices it
// fails like a real driver on a machine without a visible GPU.
CUresult cuInit(unsigned) {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (started) return CUDA_SUCCESS;
	read_settings();
	if (!settings.devices) return CUDA_ERROR_NO_DEVICE;
	if (!open_kernels()) return CUDA_ERROR_SYSTEM_NOT_READY;
	started = true;
	return CUDA_SUCCESS;
}

// The version may be queried before cuInit.
CUresult cuDriverGetVersion(int *version) {
	*version = (int)settings.version;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
	*count = (int)settings.devices;
	return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
	if (!started) return CUDA_ERROR_NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= settings.devices) return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice) {
	snprintf(name, size, "Emulated GPU");
	return CUDA_SUCCESS;
}

// All devices are the same one, whatever the ordinal.
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
	*bytes = (size_t)settings.memory << 20;
	return CUDA_SUCCESS;
}

// Shared-memory limits and cache sizes are those of an H100 for capability 90 and
// later, else of an A100.
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
	if (!started) return CUDA_ERROR_NOT_INITIALIZED;
	bool hopper = settings.capability >= 90;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = settings.capability / 10; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = settings.capability % 10; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = settings.multiprocessors; break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (hopper ? 227 : 163) << 10; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = (hopper ? 228 : 164) << 10; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = (hopper ? 50 : 40) << 20; break;
	default:
		fprintf(stderr, "emulated driver: attribute %d of the device is not emulated\n", attribute);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

// All retains return the same context, which lives until as many releases.
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice) {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!started) return CUDA_ERROR_NOT_INITIALIZED;
	if (process_failure) return process_failure;
	context.users++;
	*out = &context;
	return CUDA_SUCCESS;
}

// report_leaks prints what the context still holds at its end. After a failure nothing
// is reported, since programs then give up without releasing.
static void report_leaks() {
	const std::pair<const char *, size_t> left[] = {{"device memory", context.device.size()}, {"page-locked memory", context.host.size()},
		{"modules", context.modules.size()}, {"streams", context.streams.size()}, {"events", context.events.size()},
		{"graphs", context.graphs.size() + context.execs.size()}};
	for (auto &l : left)
		if (l.second && !context.failure) fprintf(stderr, "emulated driver: %zu pieces of %s were not given back\n", l.second, l.first);
}

// The last release destroys the context and everything in it.
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!context.users) return CUDA_ERROR_INVALID_CONTEXT;
	if (--context.users) return CUDA_SUCCESS;
	finish_all();
	report_leaks();
	for (auto &m : context.device) library.free(m.first, m.second);
	for (auto &m : context.host) library.free(m.first, m.second);
	context = CUctx_st();
	return settings.close ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

// The current context is a property of the calling thread, which is why callers must
// lock goroutines to threads.
CUresult cuCtxSetCurrent(CUcontext c) {
	if (c && c != &context) return CUDA_ERROR_INVALID_CONTEXT;
	current = c;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *c) {
	*c = current;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
	BEGIN;
	*device = 0;
	return CUDA_SUCCESS;
}

// The returned error is the sticky one, if any kernel has failed.
CUresult cuCtxSynchronize() {
	BEGIN;
	return finish_all();
}

// The real driver's names and texts of the errors that can occur.
static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	{CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	{CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// An unknown code gets NULL and an error, as in CUDA.
CUresult cuGetErrorString(CUresult code, const char **text) {
	for (auto &e : errors)
		if (e.code == code) return *text = e.text, CUDA_SUCCESS;
	return *text = NULL, CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **text) {
	for (auto &e : errors)
		if (e.code == code) return *text = e.name, CUDA_SUCCESS;
	return *text = NULL, CUDA_ERROR_INVALID_VALUE;
}
