// The C side of off-screen drawing: an OpenGL context without a window, and MuJoCo's
// scene and renderer on it. Everything of one renderer happens on one OS thread.
#ifndef MJC_RENDER_H_
#define MJC_RENDER_H_

#include "mjc.h"

enum { MJC_EGL, MJC_OSMESA };

// mjc_gl_open loads one OpenGL and tries it; device is an EGL device's index, -1 for
// the first that works. MuJoCo resolves OpenGL once per process, so that after a success
// there is no second choice. Returns not 0 with the reason in text.
int mjc_gl_open(int backend, int device, char* text);

typedef struct mjc_gl mjc_gl;
mjc_gl* mjc_gl_new(int width, int height, char* text);  // current on this thread
void mjc_gl_free(mjc_gl* gl);                            // on the same thread

enum { MJC_GL_VENDOR, MJC_GL_RENDERER, MJC_GL_VERSION };
const char* mjc_gl_string(int which);

// mjc_gl_proc is OpenGL's function of a name.
void (*mjc_gl_proc(const char* name))(void);

typedef struct mjc_renderer mjc_renderer;
// A plain renderer draws all anew in each frame: see shadow.c, faces.c and first.c.
MJC_WEAK mjc_renderer* mjc_renderer_new(mjModel* m, int width, int height, int plain, char* text);
MJC_WEAK void mjc_renderer_free(mjc_renderer* r);
// mjc_renderer_draw draws from a camera of the model and reads back width x height x 3 bytes, bottom row first,
// into memory of the renderer; NULL with the reason in text.
MJC_WEAK const unsigned char* mjc_renderer_draw(mjc_renderer* r, mjc_data* c, int camera, char* text);

#endif
