// Shadow maps of which only what moved is drawn again: see shadow.c.
#ifndef MJC_SHADOW_H_
#define MJC_SHADOW_H_

#include "wrap.h"

// mjc_shadow_wrap gives what MuJoCo is to call for a function of OpenGL: real, or ours, which calls real. Both
// are the same for all contexts of a process.
mjc_procedure mjc_shadow_wrap(const char* name, mjc_procedure real);

typedef struct mjc_shadow mjc_shadow;

// mjc_shadow_new keeps MuJoCo's shadow map, of size x size points, in the context that is current. NULL
// where this OpenGL cannot; then all is drawn plainly.
mjc_shadow* mjc_shadow_new(mjc_procedure (*proc)(const char*), unsigned framebuffer, unsigned map, int size);
void mjc_shadow_free(mjc_shadow* s);  // in the same context

// mjc_shadow_begin says whose frame this thread draws from now on; NULL for one that is drawn plainly.
void mjc_shadow_begin(mjc_shadow* s);

#endif
