#!/usr/bin/env bash
# libcuda.sh INCLUDE OUT makes OUT/libcuda.a, which programs are linked with in
# place of the driver's library: every function of INCLUDE/cuda.h jumps to the
# one of the same name in libcuda.so.1, which is opened when the program starts.
# So a program that can use a GPU is built, and starts, on machines without one:
# there its functions return CUDA_ERROR_NO_DEVICE. (x86-64)
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

/* libcuda_state is -1 where there is no library, else what its cuInit returned. */
int libcuda_state(void) { return state; }

/* cuInit always succeeds: gorgonia.org/cu ends the process where it does not. */
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
