// The C interface of off-screen drawing: an OpenGL context without a window, and MuJoCo's
// scene and renderer on it. All functions of one renderer must be called on one OS
// thread, because an OpenGL context is current on one thread.
#ifndef MJC_RENDER_H_
#define MJC_RENDER_H_

#include "mjc.h"

enum { MJC_EGL, MJC_OSMESA };

// mjc_gl_open loads one OpenGL backend and tests it. device is an EGL device index, or -1
// for the first that works. MuJoCo resolves OpenGL once per process, so after a success
// the backend is fixed. Returns 0, or -1 with the reason in text.
int mjc_gl_open(int backend, int device, char* text);

typedef struct mjc_gl mjc_gl;
// mjc_gl_new creates a context and makes it current on the calling thread. mjc_gl_free
// must be called on the same thread.
mjc_gl* mjc_gl_new(int width, int height, char* text);
void mjc_gl_free(mjc_gl* gl);

enum { MJC_GL_VENDOR, MJC_GL_RENDERER, MJC_GL_VERSION };
// mjc_gl_string returns a string of the current context, "" if there is none.
const char* mjc_gl_string(int which);

// mjc_gl_proc returns an OpenGL function by name.
void (*mjc_gl_proc(const char* name))(void);

typedef struct mjc_renderer mjc_renderer;
// A plain renderer redraws everything in each frame, without the caches of shadow.c,
// faces.c and first.c.
MJC_WEAK mjc_renderer* mjc_renderer_new(mjModel* m, int width, int height, int plain, char* text);
MJC_WEAK void mjc_renderer_free(mjc_renderer* r);
// mjc_renderer_draw draws c from a camera of the model and reads back width x height x 3
// bytes, RGB, bottom row first, into the renderer's memory. Returns NULL with the reason
// in text if MuJoCo raises an error.
MJC_WEAK const unsigned char* mjc_renderer_draw(mjc_renderer* r, mjc_data* c, int camera, char* text);

#endif
