// OpenGL without a window: EGL on a device, or OSMesa, opened at run time.
#define _GNU_SOURCE
#include "render.h"
#include "faces.h"
#include "first.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* handle;
typedef mjc_procedure procedure;

// The EGL constants used here, with the values of the specification. They are repeated
// because the build must not need EGL's headers.
enum {
  EGL_SUCCESS = 0x3000, EGL_ALPHA_SIZE = 0x3021, EGL_BLUE_SIZE, EGL_GREEN_SIZE, EGL_RED_SIZE, EGL_DEPTH_SIZE,
  EGL_STENCIL_SIZE, EGL_SURFACE_TYPE = 0x3033, EGL_NONE = 0x3038, EGL_COLOR_BUFFER_TYPE = 0x303F,
  EGL_RENDERABLE_TYPE = 0x3040, EGL_RGB_BUFFER = 0x308E, EGL_OPENGL_API = 0x30A2, EGL_PLATFORM_DEVICE = 0x313F,
  EGL_PBUFFER_BIT = 1, EGL_OPENGL_BIT = 8, EGL_MAX_DEVICES = 32,
};
// The constants of OSMesa and OpenGL.
enum { OSMESA_RGBA = 0x1908, GL_UNSIGNED_BYTE = 0x1401, GL_VENDOR = 0x1F00, GL_RENDERER, GL_VERSION };

static struct {
  procedure (*proc)(const char*);
  int32_t (*error)(void);
  unsigned (*initialize)(handle, int32_t*, int32_t*);
  unsigned (*choose)(handle, const int32_t*, handle*, int32_t, int32_t*);
  unsigned (*bind)(unsigned);
  handle (*create)(handle, handle, handle, const int32_t*);
  unsigned (*destroy)(handle, handle);
  unsigned (*current)(handle, handle, handle, handle);
  unsigned (*release)(void);
  handle display, config;
} egl;

static struct {
  procedure (*proc)(const char*);
  handle (*create)(unsigned, int, int, int, handle);
  void (*destroy)(handle);
  unsigned char (*current)(handle, void*, unsigned, int, int);
} osmesa;

static int chosen = -1;  // the backend of the process: MJC_EGL, MJC_OSMESA, or -1 for none
static const unsigned char* (*gl_string)(unsigned);  // glGetString

struct mjc_gl {
  handle context;
  void* buffer;  // OSMesa renders into memory of the caller: width x height x 4; NULL for EGL
};

// load opens a library with local symbols and resolves n functions: out[i] receives
// functions[i]. Symbols stay local until the backend has proved to work, because MuJoCo
// would find those of a backend that does not (see mjc_gl_open).
static void* load(const char* name, const char* const* functions, procedure** out, int n, char* text) {
  void* lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    snprintf(text, MJC_TEXT, "%s", dlerror());
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    if (!(*out[i] = (procedure)dlsym(lib, functions[i]))) {
      snprintf(text, MJC_TEXT, "%s has no function %s", name, functions[i]);
      dlclose(lib);
      return NULL;
    }
  }
  return lib;
}

procedure mjc_gl_proc(const char* name) {
  procedure (*proc)(const char*) = chosen == MJC_OSMESA ? osmesa.proc : egl.proc;
  return proc ? proc(name) : NULL;
}

// eglGetProcAddress shadows the function of that name in libEGL. MuJoCo's OpenGL loader
// looks the name up among the symbols of the process, and finds the program's first, since
// the program exports this one. That is how our functions get between MuJoCo and OpenGL.
// If this code is in a shared library that another program has opened, MuJoCo does not
// find it and takes the one of libEGL. Frames are then drawn without the caches.
procedure eglGetProcAddress(const char* name) {
  return mjc_shadow_wrap(name, mjc_first_wrap(name, mjc_faces_wrap(name, mjc_gl_proc(name))));
}

#define AT(f) (procedure*)&(f)

// first_display initializes the given EGL device, or the first that can be initialized if
// device is -1. The device platform works without a window system.
static handle first_display(int device, char* text) {
  unsigned (*query)(int32_t, handle*, int32_t*) = (void*)egl.proc("eglQueryDevicesEXT");
  handle (*platform)(unsigned, handle, const int32_t*) = (void*)egl.proc("eglGetPlatformDisplayEXT");
  handle devices[EGL_MAX_DEVICES];
  int32_t n = 0;
  if (!query || !platform || !query(EGL_MAX_DEVICES, devices, &n) || n == 0) {
    snprintf(text, MJC_TEXT, "EGL lists no devices");
    return NULL;
  }
  if (device >= n) {
    snprintf(text, MJC_TEXT, "EGL device %d does not exist, there are %d", device, n);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    if (device >= 0 && i != device) continue;
    handle display = platform(EGL_PLATFORM_DEVICE, devices[i], NULL);
    if (display && egl.initialize(display, NULL, NULL)) return display;
  }
  snprintf(text, MJC_TEXT, "none of %d EGL devices can be initialized (error 0x%x)", n, egl.error());
  return NULL;
}

static void* egl_open(int device, char* text) {
  static const char* const names[] = {"eglGetProcAddress", "eglGetError", "eglInitialize", "eglChooseConfig", "eglBindAPI",
                                      "eglCreateContext", "eglDestroyContext", "eglMakeCurrent", "eglReleaseThread"};
  procedure* out[] = {AT(egl.proc), AT(egl.error), AT(egl.initialize), AT(egl.choose), AT(egl.bind),
                      AT(egl.create), AT(egl.destroy), AT(egl.current), AT(egl.release)};
  void* lib = load("libEGL.so.1", names, out, 9, text);
  if (!lib) return NULL;
  // The attributes that MuJoCo's Python package requests, for equal frames.
  static const int32_t want[] = {EGL_RED_SIZE, 8, EGL_GREEN_SIZE, 8, EGL_BLUE_SIZE, 8, EGL_ALPHA_SIZE, 8, EGL_DEPTH_SIZE, 24,
                                 EGL_STENCIL_SIZE, 8, EGL_COLOR_BUFFER_TYPE, EGL_RGB_BUFFER, EGL_SURFACE_TYPE, EGL_PBUFFER_BIT,
                                 EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
  int32_t n = 0;
  egl.display = first_display(device, text);
  if (egl.display && (!egl.choose(egl.display, want, &egl.config, 1, &n) || n < 1)) {
    snprintf(text, MJC_TEXT, "EGL has no OpenGL frame buffers with 8-bit colours, 24-bit depth and 8-bit stencil");
    egl.display = NULL;
  }
  if (egl.display) return lib;
  dlclose(lib);
  return NULL;
}

static void* osmesa_open(char* text) {
  static const char* const names[] = {"OSMesaGetProcAddress", "OSMesaCreateContextExt", "OSMesaDestroyContext", "OSMesaMakeCurrent"};
  procedure* out[] = {AT(osmesa.proc), AT(osmesa.create), AT(osmesa.destroy), AT(osmesa.current)};
  void* lib = load("libOSMesa.so.8", names, out, 4, text);
  return lib ? lib : load("libOSMesa.so.6", names, out, 4, text);
}

// make_current creates a context and makes it current. With EGL there is no surface:
// MuJoCo draws into its own framebuffer object.
static int make_current(mjc_gl* gl, int width, int height) {
  if (chosen == MJC_EGL) {
    return egl.bind(EGL_OPENGL_API) && (gl->context = egl.create(egl.display, egl.config, NULL, NULL)) &&
           egl.current(egl.display, NULL, NULL, gl->context);
  }
  gl->buffer = malloc((size_t)width * (size_t)height * 4);
  return gl->buffer && (gl->context = osmesa.create(OSMESA_RGBA, 24, 8, 0, NULL)) &&
         osmesa.current(gl->context, gl->buffer, GL_UNSIGNED_BYTE, width, height);
}

mjc_gl* mjc_gl_new(int width, int height, char* text) {
  mjc_gl* gl = calloc(1, sizeof *gl);
  // Checking glGetString here prevents MuJoCo from running on a thread without OpenGL: its
  // loader would fail and could not be retried.
  if (gl && make_current(gl, width, height) && gl_string(GL_VERSION)) return gl;
  snprintf(text, MJC_TEXT, "no OpenGL context could be made");
  if (gl) mjc_gl_free(gl);
  return NULL;
}

// The context is released from the thread before it is destroyed; EGL would otherwise keep
// it alive until the thread ends.
void mjc_gl_free(mjc_gl* gl) {
  if (chosen == MJC_EGL) {
    egl.current(egl.display, NULL, NULL, NULL);
    if (gl->context) egl.destroy(egl.display, gl->context);
    egl.release();
  } else if (gl->context) {
    osmesa.current(NULL, NULL, GL_UNSIGNED_BYTE, 0, 0);
    osmesa.destroy(gl->context);
  }
  free(gl->buffer);
  free(gl);
}

const char* mjc_gl_string(int which) {
  static const unsigned names[] = {GL_VENDOR, GL_RENDERER, GL_VERSION};
  const unsigned char* s = gl_string(names[which]);
  return s ? (const char*)s : "";
}

// Opens the library, then proves with a small context that it can draw. On failure all
// is undone, so that another backend can be tried.
int mjc_gl_open(int backend, int device, char* text) {
  const char* name = backend == MJC_EGL ? "libEGL.so.1" : "libOSMesa.so.8";
  void* lib = backend == MJC_EGL ? egl_open(device, text) : osmesa_open(text);
  if (!lib) return -1;
  chosen = backend;
  gl_string = (void*)(backend == MJC_EGL ? egl.proc : osmesa.proc)("glGetString");
  mjc_gl* probe = gl_string ? mjc_gl_new(16, 16, text) : NULL;
  if (!probe) {
    if (!gl_string) snprintf(text, MJC_TEXT, "%s provides no OpenGL functions", name);
    chosen = -1;
    dlclose(lib);
    return -1;
  }
  mjc_gl_free(probe);
  // MuJoCo looks for eglGetProcAddress and then for OSMesaGetProcAddress among the global
  // symbols of the process. Making only the working library global makes it find the right one.
  if (!dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD)) dlopen("libOSMesa.so.6", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  return 0;
}
