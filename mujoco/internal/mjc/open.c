// Opening the library, and its process-wide handler of errors and warnings.
#define _GNU_SOURCE
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MJC_BUILT

int mjc_headers(void) {
#ifdef mjVERSION_HEADER
  return mjVERSION_HEADER;
#else
  return 0;
#endif
}

int mjc_open(const char* path, char* text) {
  (void)path;
  if (mjc_headers()) {
    snprintf(text, MJC_TEXT, "built with headers of version %d, not %d", mjc_headers(), MJC_VERSION);
  } else {
    snprintf(text, MJC_TEXT, "built without its headers");
  }
  return -1;
}

#else

mjc_api mjc;

int mjc_headers(void) { return mjVERSION_HEADER; }

// The jump target and text buffer of the guarded call in progress on this thread. Guarded
// calls do not nest, so one of each is enough.
static __thread jmp_buf* guard;
static __thread char* guard_text;

void mjc_guard_enter(jmp_buf* here, char* text) {
  guard = here;
  guard_text = text;
}

void mjc_guard_leave(void) { guard = NULL; }

// on_message is MuJoCo's log handler. It must not return to MuJoCo after an error, because
// MuJoCo would continue with inconsistent data. This package makes no call that can raise
// an error outside a guard. If one occurs anyway, there is no safe target, so it aborts.
// Warnings and information are ignored here: data.c reads the warning counters.
static void on_message(const mjLogMessage* msg) {
  if (msg->level != mjLOG_ERROR) return;
  if (!guard) {
    fprintf(stderr, "mujoco: error outside a guarded call: %s\n", msg->subject);
    abort();
  }
  snprintf(guard_text, MJC_TEXT, "%.100s%s%.900s", msg->func ? msg->func : "", msg->func ? ": " : "", msg->subject);
  longjmp(*guard, 1);
}

// mjc_open calls must not overlap, and there must be none after a success. RTLD_LOCAL
// keeps MuJoCo's many symbols from being bound to by other libraries. The version is
// checked before anything else is called, since offsets are compiled in.
int mjc_open(const char* path, char* text) {
  void* lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    snprintf(text, MJC_TEXT, "%s", dlerror());
    return -1;
  }
  int (*version)(void) = (int (*)(void))dlsym(lib, "mj_version");
  if (!version || version() != mjVERSION_HEADER) {
    snprintf(text, MJC_TEXT, "%s is version %d, but this program was built with headers of version %d", path,
             version ? version() : 0, mjVERSION_HEADER);
    dlclose(lib);
    return -1;
  }
#define F(name)                                                        \
  if (!(mjc.name = (__typeof__(name)*)dlsym(lib, #name))) {            \
    snprintf(text, MJC_TEXT, "%s has no function %s", path, #name);    \
    dlclose(lib);                                                      \
    return -1;                                                         \
  }
  MJC_FUNCTIONS(F)
#undef F
  mjc.mju_setLogHandler(on_message);
  return 0;
}

#endif
