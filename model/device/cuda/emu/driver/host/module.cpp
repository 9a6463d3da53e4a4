// module.cpp: modules. It reads the entries of the PTX and binds each to the emulated
// kernel of the same name, which must agree with it in the size of its arguments and
// the number of threads. The instructions in the PTX are not executed.
#include "state.h"

#include <stdio.h>
#include <string.h>

// target checks whether PTX of its version and architecture runs on this GPU. An
// architecture with a suffix (sm_90a) runs on exactly that one.
static CUresult target(const char *ptx) {
	const char *version = strstr(ptx, ".version "), *arch = strstr(ptx, ".target sm_");
	int major, minor, wanted;
	char only = 0;
	if (!version || !arch || sscanf(version, ".version %d.%d", &major, &minor) != 2 || sscanf(arch, ".target sm_%d%c", &wanted, &only) < 1)
		return complain(CUDA_ERROR_INVALID_PTX, "cuModuleLoadData", "no .version or no .target");
	int newest = settings.version < 12080 ? 84 : 87; // the PTX version of CUDA 12.8 is 8.7
	if (10 * major + minor > newest) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (wanted > settings.capability || (only == 'a' && wanted != settings.capability)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
	return CUDA_SUCCESS;
}

// Shared maps the names of static shared-memory variables to their sizes in bytes.
typedef std::map<std::string, int> Shared;

// shared_of returns the variables declared between two positions of the PTX.
static Shared shared_of(const char *from, const char *to) {
	Shared found;
	char name[1024];
	int bytes;
	for (const char *at = from; (at = strstr(at, ".shared .align ")) && at < to; at++)
		// A variable without a size is the dynamic shared memory.
		if (sscanf(at, ".shared .align %*d .b8 %1023[^[][%d]", name, &bytes) == 2) found[name] = bytes;
	return found;
}

// Entry is a kernel in PTX: its name, the bytes of its one argument, its threads, and
// its text from at to end.
struct Entry {
	char name[128];
	size_t arguments;
	int threads;
	const char *at, *end;
};

// next_entry finds the first entry after a position; false if it is not of the form
// that KERNEL produces.
static bool next_entry(const char *from, Entry *e) {
	e->at = strstr(from, ".visible .entry ");
	e->end = e->at ? strstr(e->at, "\n}\n") : NULL;
	return e->end && sscanf(e->at, ".visible .entry %127[^(]( .param .align %*d .b8 %*[^[][%zu] ) .maxntid %d", e->name, &e->arguments, &e->threads) == 3;
}

// add adds an entry to a module. `file` is the shared memory declared at file level so
// far, which counts for the kernels that mention it.
static CUresult add(CUmod_st *module, const Entry &e, const Shared &file) {
	CUfunc_st f = {e.name, module, NULL, e.arguments, e.threads, 0, 48 << 10};
	*(void **)&f.kernel = library.symbol(f.name);
	auto *size = (long (*)())library.symbol(f.name + "_size");
	auto *threads = (int (*)())library.symbol(f.name + "_threads");
	if (!f.kernel || !size || !threads) return complain(CUDA_ERROR_INVALID_PTX, e.name, "no emulated kernel has this name");
	if ((size_t)size() != e.arguments || threads() != e.threads)
		return complain(CUDA_ERROR_INVALID_PTX, e.name, "PTX and emulated kernel differ in arguments or threads: compile the PTX again");
	std::string body(e.at, e.end);
	for (auto &v : shared_of(body.c_str(), body.c_str() + body.size())) f.fixed += v.second;
	for (auto &v : file)
		if (body.find(v.first) != std::string::npos) f.fixed += v.second;
	module->functions[f.name] = f;
	return CUDA_SUCCESS;
}

// load adds all entries of a PTX file to a module.
static CUresult load(CUmod_st *module, const char *ptx) {
	Shared file;
	Entry e;
	for (const char *at = ptx; strstr(at, ".entry "); at = e.end) {
		if (!next_entry(at, &e)) return complain(CUDA_ERROR_INVALID_PTX, "cuModuleLoadData", "an entry that is not a kernel of one structure");
		for (auto &v : shared_of(at, e.at)) file.insert(v);
		if (CUresult r = add(module, e, file)) return r;
	}
	return CUDA_SUCCESS;
}

// cuModuleLoadData takes PTX as text and fails with the real driver's error if its
// version is too new or its target does not fit the GPU.
CUresult cuModuleLoadData(CUmodule *out, const void *image) {
	BEGIN;
	const char *ptx = (const char *)image;
	if (CUresult r = target(ptx)) return r;
	std::unique_ptr<CUmod_st> module(new CUmod_st);
	if (CUresult r = load(module.get(), ptx)) return r;
	*out = module.get();
	context.modules.push_back(std::move(module));
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
	BEGIN;
	NEED(remove_object(context.modules, module));
	return settings.close ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

// Functions are owned by their module.
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
	BEGIN;
	NEED(has(context.modules, module));
	auto f = module->functions.find(name);
	if (f == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
	*out = &f->second;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
	BEGIN;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = f->fixed; break;
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = f->most; break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->allowed; break;
	default: return complain(CUDA_ERROR_NOT_SUPPORTED, __func__, "this attribute is not emulated");
	}
	return CUDA_SUCCESS;
}

// Static and dynamic shared memory together are limited by the device's opt-in maximum.
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
	BEGIN;
	if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS; // a hint without effect
	if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return complain(CUDA_ERROR_NOT_SUPPORTED, __func__, "this attribute is not emulated");
	int most = 0;
	cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
	NEED(value >= 0 && value + f->fixed <= most);
	f->allowed = value;
	return CUDA_SUCCESS;
}
