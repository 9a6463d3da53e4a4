// Shared definitions of shadow.c, faces.c and first.c. These files interpose functions
// between MuJoCo and OpenGL: MuJoCo looks up "glCallList", for example, and receives a
// function of ours, which calls the real one. See eglGetProcAddress in gl.c.
#ifndef MJC_WRAP_H_
#define MJC_WRAP_H_

#include <stddef.h>
#include <string.h>

typedef void (*mjc_procedure)(void);

// Each file lists the OpenGL functions it calls as FUNCTIONS(F), with one
// F(result, name, parameters) per function. With F = MJC_POINTER the list declares the
// members of the file's table gl. With F = MJC_FIND it looks up the missing members with
// proc, and returns NULL from the enclosing function if one does not exist.
#define MJC_POINTER(result, name, parameters) result(*name) parameters;
#define MJC_FIND(result, name, parameters) \
  if (!gl.name && !(gl.name = (void*)proc("gl" #name))) return NULL;

// mjc_wrapped is an interposed function. *real receives the real function.
typedef struct {
  const char* name;
  mjc_procedure* real;
  mjc_procedure ours;
} mjc_wrapped;

#define MJC_WRAPPED(name, ours) {"gl" #name, (mjc_procedure*)&gl.name, (mjc_procedure)ours}

// mjc_wrap returns the function that MuJoCo should call for an OpenGL function: ours if
// name is one of the n entries of all, real otherwise. In the first case it stores real
// in the entry.
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
