// The program of the Python wheel. The verbs are in libscalewm.so, next to this file, which
// exists so that the process is scalewm's: Python's signal handlers are not in it, and the verbs
// that start this program again find it as their own executable.
#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "../../scalewm/start.c"

int main(void) {
	char path[PATH_MAX + sizeof "libscalewm.so"];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	while (n > 0 && path[n - 1] != '/') n--;
	strcpy(path + (n > 0 ? n : 0), "libscalewm.so");
	// start has run, as it must before the library starts Go's runtime.
	void* library = dlopen(path, RTLD_NOW);
	void (*run)(void) = library ? (void (*)(void))dlsym(library, "scalewm_main") : NULL;
	if (!run) {
		fprintf(stderr, "scalewm: %s (hint: install scalewm's wheel for this platform)\n", dlerror());
		return failed;
	}
	run();  // does not return
}
