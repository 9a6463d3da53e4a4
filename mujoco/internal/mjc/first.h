// A cache of the first draw of a frame. See first.c.
#ifndef MJC_FIRST_H_
#define MJC_FIRST_H_

#include "shadow.h"

// mjc_first_wrap returns the function that MuJoCo should call for an OpenGL function.
mjc_procedure mjc_first_wrap(const char* name, mjc_procedure real);

typedef struct mjc_first mjc_first;

// mjc_first_new returns a cache of the contents of two renderbuffers of width x height
// pixels after the first draw, in the current context. Returns NULL if this OpenGL lacks
// a function.
mjc_first* mjc_first_new(mjc_procedure (*proc)(const char*), unsigned colour, unsigned depth, int width, int height);
void mjc_first_free(mjc_first* f);  // with the same context current

// mjc_first_begin starts a frame of f on this thread; NULL ends it. same says that
// everything the first draw depends on is as in the previous frame, apart from the list's
// matrix and the projection, which are compared at the draw.
void mjc_first_begin(mjc_first* f, int same);

#endif
