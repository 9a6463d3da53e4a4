// What shadow.c, faces.c and first.c share, which stand between MuJoCo and OpenGL.
#ifndef MJC_WRAP_H_
#define MJC_WRAP_H_

#include <stddef.h>
#include <string.h>

typedef void (*mjc_procedure)(void);

// Each file lists what it calls of OpenGL as FUNCTIONS(F), with F(result, name, parameters). Of that list MJC_POINTER
// makes the members of the file's table gl, and MJC_FIND looks them up by proc, and returns NULL where one is missing.
#define MJC_POINTER(result, name, parameters) result(*name) parameters;
#define MJC_FIND(result, name, parameters) \
  if (!gl.name && !(gl.name = (void*)proc("gl" #name))) return NULL;

// mjc_wrapped is a function of ours in place of OpenGL's, which it calls through real.
typedef struct {
  const char* name;
  mjc_procedure* real;
  mjc_procedure ours;
} mjc_wrapped;

#define MJC_WRAPPED(name, ours) {"gl" #name, (mjc_procedure*)&gl.name, (mjc_procedure)ours}

// mjc_wrap gives what is to be called for a function of OpenGL: ours, if it is among n, or else real.
static inline mjc_procedure mjc_wrap(const mjc_wrapped* all, size_t n, const char* name, mjc_procedure real) {
  for (size_t i = 0; real && i < n; i++) {
    if (!strcmp(name, all[i].name)) {
      *all[i].real = real;
      return all[i].ours;
    }
  }
  return real;
}

#endif
