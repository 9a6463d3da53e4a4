#!/usr/bin/env bash
# libcuda.sh INCLUDE OUT builds OUT/libcuda.a, a stub of the driver's library to link
# with. Every function of INCLUDE/cuda.h jumps to the function of the same name in
# libcuda.so.1, which is opened when the program starts. A program with GPU support can
# therefore be built, and started, on machines without a GPU, where all functions return
# CUDA_ERROR_NO_DEVICE. It works on x86-64 only.
set -euo pipefail
include=$1 out=$2 dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

echo '#include <cuda.h>' | gcc -E -P -I "$include" - |
  grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d '( ' | grep -vx cuInit | sort -u >"$dir/names"
{
  cat <<'C'
#include <dlfcn.h>

enum { NO_DEVICE = 100 };
static int missing(void) { return NO_DEVICE; }

static const char *const names[] = {
C
  sed 's/.*/\t"&",/' "$dir/names"
  cat <<'C'
};
enum { COUNT = sizeof names / sizeof *names };
__attribute__((visibility("hidden"))) void *libcuda_table[COUNT];

static int (*init)(unsigned), state = -1;

/* Returns -1 if there is no driver library, otherwise the result of its cuInit. */
int libcuda_state(void) { return state; }

/* Always succeeds, because gorgonia.org/cu ends the process if cuInit fails. */
int cuInit(unsigned flags) {
	if (init) state = init(flags);
	return 0;
}

__attribute__((constructor)) static void open_library(void) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (library) init = (int (*)(unsigned))dlsym(library, "cuInit");
	for (int i = 0; i < COUNT; i++) {
		void *f = library ? dlsym(library, names[i]) : 0;
		libcuda_table[i] = f ? f : (void *)missing;
	}
}
C
  awk '{ printf "asm(\".globl %s\\n.type %s, @function\\n%s: jmp *libcuda_table+%d(%%rip)\");\n", $1, $1, $1, 8 * (NR - 1) }' "$dir/names"
} >"$dir/libcuda.c"
gcc -O2 -fPIC -c "$dir/libcuda.c" -o "$dir/libcuda.o"
ar rcs "$dir/libcuda.a" "$dir/libcuda.o"
mkdir -p "$out"
mv "$dir/libcuda.a" "$out/libcuda.a"
