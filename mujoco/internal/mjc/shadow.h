// Cached shadow maps: only what moved is redrawn. See shadow.c.
#ifndef MJC_SHADOW_H_
#define MJC_SHADOW_H_

#include "wrap.h"

// mjc_shadow_wrap returns the function that MuJoCo should call for an OpenGL function:
// ours, which calls real, or real itself. Both must be the same for all contexts of the
// process, since the file has one table of real functions.
mjc_procedure mjc_shadow_wrap(const char* name, mjc_procedure real);

typedef struct mjc_shadow mjc_shadow;

// mjc_shadow_new returns a cache for MuJoCo's shadow map, a texture of size x size texels
// attached to framebuffer, in the current context. Returns NULL if this OpenGL lacks a
// function; the map is then redrawn in every frame.
mjc_shadow* mjc_shadow_new(mjc_procedure (*proc)(const char*), unsigned framebuffer, unsigned map, int size);
void mjc_shadow_free(mjc_shadow* s);  // with the same context current

// mjc_shadow_begin starts a frame of s on this thread. NULL ends it: further draws are not
// cached.
void mjc_shadow_begin(mjc_shadow* s);

#endif
