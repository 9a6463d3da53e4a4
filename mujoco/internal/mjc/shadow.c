// Cached shadow maps: what did not move is not redrawn.
//
// MuJoCo renders each shadow map from scratch: the entire scene, seen from the light, at
// 4096 x 4096 texels by default. In software this takes about half of the frame time,
// although little moves from frame to frame. A texel of the map is the minimum depth over
// all draws, in whatever order, so the draws that do not change can be cached in a second
// map. A frame then copies that map and draws only what moved, with the same bits as
// a result.
//
// To do so, functions of this file are interposed between MuJoCo and OpenGL. During the
// pass that fills the map they only record each display list with its matrix. The pass is
// drawn when MuJoCo leaves it, by binding another framebuffer. If MuJoCo draws in this
// pass in another way (glBegin, glDrawArrays, glDrawElements), the cache is disabled for good.
#define _GNU_SOURCE
#include "shadow.h"

#include "faces.h"

#include <stdlib.h>
#include <string.h>

enum {
  GL_DEPTH_BUFFER_BIT = 0x100, GL_NO_ERROR = 0, GL_MODELVIEW_MATRIX = 0x0BA6, GL_PROJECTION_MATRIX = 0x0BA7,
  GL_TEXTURE_2D = 0x0DE1, GL_UNSIGNED_INT_24_8 = 0x84FA, GL_DEPTH_STENCIL = 0x84F9, GL_DEPTH24_STENCIL8 = 0x88F0,
  GL_TEXTURE_MIN_FILTER = 0x2801, GL_NEAREST = 0x2600, GL_TEXTURE_BINDING_2D = 0x8069,
};

// The OpenGL functions called here: result, name, parameters.
#define FUNCTIONS(F)                                                                                              \
  F(void, BindFramebuffer, (unsigned target, unsigned framebuffer))                                               \
  F(void, Clear, (unsigned mask))                                                                                 \
  F(void, CallList, (unsigned list))                                                                              \
  F(void, Begin, (unsigned mode))                                                                                 \
  F(void, DrawArrays, (unsigned mode, int first, int count))                                                      \
  F(void, DrawElements, (unsigned mode, int count, unsigned type, const void* indices))                           \
  F(void, GetFloatv, (unsigned name, float* out))                                                                 \
  F(void, GetIntegerv, (unsigned name, int* out))                                                                 \
  F(unsigned, GetError, (void))                                                                                   \
  F(void, LoadMatrixf, (const float* matrix))                                                                     \
  F(void, PushMatrix, (void))                                                                                     \
  F(void, PopMatrix, (void))                                                                                      \
  F(void, GenTextures, (int n, unsigned* out))                                                                    \
  F(void, DeleteTextures, (int n, const unsigned* names))                                                         \
  F(void, BindTexture, (unsigned target, unsigned name))                                                          \
  F(void, TexParameteri, (unsigned target, unsigned name, int value))                                             \
  F(void, TexImage2D, (unsigned target, int level, int internal, int width, int height, int border, unsigned format, \
                       unsigned type, const void* pixels))                                                        \
  F(void, CopyImageSubData, (unsigned from, unsigned target, int level, int x, int y, int z, unsigned to,         \
                             unsigned to_target, int to_level, int to_x, int to_y, int to_z, int width, int height, int depth))

static struct {
  FUNCTIONS(MJC_POINTER)
} gl;

// cast is one draw into the map. Two casts are the same draw if their bytes are equal.
typedef struct {
  float matrix[16];  // the modelview matrix: from the list's coordinates to the light's view
  unsigned list;
} cast;

// The capacity of a list of casts. A pass with more draws disables the cache.
enum { MAX_CASTS = 1024 };

typedef struct {
  int n;
  cast c[MAX_CASTS];
} casts;

struct mjc_shadow {
  unsigned framebuffer, map;  // MuJoCo's, of the shadow pass
  unsigned cache;             // our map, which contains the draws in cached
  int size;                   // texels along an edge of a map
  int disabled;               // MuJoCo did something that this file does not handle
  int pass;                   // number of shadow passes in this frame; only the first is cached
  int in_pass;                // the first pass is being recorded
  int dirty[4];               // rectangle of map outside of which it equals cache after a frame
  float light[16];            // the projection of the pass, that is, the light
  casts now, previous;        // the draws of this pass, and of the same pass in the last frame
  casts cached;
};

// The renderer that draws on this thread, if any. Its context belongs to the thread.
static __thread mjc_shadow* drawing;

static int has(const casts* set, const cast* c) {
  for (int i = 0; i < set->n; i++) {
    if (!memcmp(&set->c[i], c, sizeof *c)) return 1;
  }
  return 0;
}

// intersect removes from a what is not in b.
static void intersect(casts* a, const casts* b) {
  int n = 0;
  for (int i = 0; i < a->n; i++) {
    if (has(b, &a->c[i])) a->c[n++] = a->c[i];
  }
  a->n = n;
}

// copy copies the rectangle r (left, bottom, right, top) from one map to another.
static void copy(unsigned from, unsigned to, const int* r) {
  if (r[0] >= r[2] || r[1] >= r[3]) return;
  gl.CopyImageSubData(from, GL_TEXTURE_2D, 0, r[0], r[1], 0, to, GL_TEXTURE_2D, 0, r[0], r[1], 0, r[2] - r[0], r[3] - r[1], 1);
}

// draw draws the casts that are not in except, which may be NULL.
static void draw(const casts* set, const casts* except) {
  gl.PushMatrix();
  for (int i = 0; i < set->n; i++) {
    if (except && has(except, &set->c[i])) continue;
    gl.LoadMatrixf(set->c[i].matrix);
    gl.CallList(set->c[i].list);
  }
  gl.PopMatrix();
}

static void draw_plainly(mjc_shadow* s) {
  gl.Clear(GL_DEPTH_BUFFER_BIT);
  draw(&s->now, NULL);
}

// give_up draws what was recorded so far and lets all further draws through.
static void give_up(mjc_shadow* s) {
  draw_plainly(s);
  s->disabled = 1, s->in_pass = 0;
}

// finish draws the recorded pass. MuJoCo does not change OpenGL's state during the pass,
// so the state at its end, when this runs, was that of all its draws.
static void finish(mjc_shadow* s) {
  float light[16];
  // Another light projection invalidates all casts. The projection is compared here, once,
  // and not for each cast.
  gl.GetFloatv(GL_PROJECTION_MATRIX, light);
  if (memcmp(light, s->light, sizeof light)) {
    memcpy(s->light, light, sizeof light);
    s->cached.n = s->previous.n = 0;
  }
  int n = s->cached.n;
  intersect(&s->cached, &s->now);
  // Each time that something in cached moves, it is removed from cached, and the cache is
  // redrawn without it, so cached converges to what never moves. If nothing is left, for
  // example after the light moved, start again with what two successive frames share.
  if (n > 0 && s->cached.n == n) {
    // The usual case. map still has the last frame's contents, which differ from cache only
    // in dirty, so it is enough to restore that rectangle.
    copy(s->cache, s->map, s->dirty);
  } else {
    if (s->cached.n == 0) {
      s->cached = s->previous;
      intersect(&s->cached, &s->now);
    }
    gl.Clear(GL_DEPTH_BUFFER_BIT);
    draw(&s->cached, NULL);
    if (s->cached.n > 0) copy(s->map, s->cache, (int[]){0, 0, s->size, s->size});
  }
  // The first call resets faces.c's rectangle. After the second, dirty contains what the
  // moving casts have written.
  mjc_faces_touched(s->size, s->dirty);
  draw(&s->now, &s->cached);
  mjc_faces_touched(s->size, s->dirty);
  s->previous = s->now;
  s->in_pass = 0;
}

static void bind_framebuffer(unsigned target, unsigned framebuffer) {
  mjc_shadow* s = drawing;
  if (s && s->in_pass) finish(s);
  gl.BindFramebuffer(target, framebuffer);
  if (s && !s->disabled && framebuffer == s->framebuffer) {
    s->in_pass = s->pass++ == 0;
    // The pass of another light uses the same map, so all of it must be restored.
    if (!s->in_pass) s->dirty[0] = s->dirty[1] = 0, s->dirty[2] = s->dirty[3] = s->size;
    s->now.n = 0;
  }
}

// The pass starts by clearing the map, which finish does if necessary. A clear of other
// buffers or in the middle of the pass is not expected.
static void clear(unsigned mask) {
  mjc_shadow* s = drawing;
  if (s && s->in_pass) {
    if (mask == GL_DEPTH_BUFFER_BIT && s->now.n == 0) return;
    give_up(s);
  }
  gl.Clear(mask);
}

// Within the pass, a list is recorded with its matrix and not drawn.
static void call_list(unsigned list) {
  mjc_shadow* s = drawing;
  if (s && s->in_pass && s->now.n == MAX_CASTS) give_up(s);
  if (!s || !s->in_pass) {
    gl.CallList(list);
    return;
  }
  cast* c = &s->now.c[s->now.n++];
  c->list = list;
  gl.GetFloatv(GL_MODELVIEW_MATRIX, c->matrix);
}

// The remaining functions draw without a list, which cannot be recorded.
static void begin(unsigned mode) {
  if (drawing && drawing->in_pass) give_up(drawing);
  gl.Begin(mode);
}

static void draw_arrays(unsigned mode, int first, int count) {
  if (drawing && drawing->in_pass) give_up(drawing);
  gl.DrawArrays(mode, first, count);
}

static void draw_elements(unsigned mode, int count, unsigned type, const void* indices) {
  if (drawing && drawing->in_pass) give_up(drawing);
  gl.DrawElements(mode, count, type, indices);
}

mjc_procedure mjc_shadow_wrap(const char* name, mjc_procedure real) {
  static const mjc_wrapped ours[] = {
    MJC_WRAPPED(BindFramebuffer, bind_framebuffer), MJC_WRAPPED(Clear, clear), MJC_WRAPPED(CallList, call_list),
    MJC_WRAPPED(Begin, begin), MJC_WRAPPED(DrawArrays, draw_arrays), MJC_WRAPPED(DrawElements, draw_elements),
  };
  return mjc_wrap(ours, sizeof ours / sizeof *ours, name, real);
}

mjc_shadow* mjc_shadow_new(mjc_procedure (*proc)(const char*), unsigned framebuffer, unsigned map, int size) {
  // glCallList is NULL if MuJoCo found OpenGL in another way than eglGetProcAddress, so that
  // nothing is interposed. The framebuffer is 0 if shadows are disabled.
  if (!gl.CallList || !framebuffer) return NULL;
  FUNCTIONS(MJC_FIND)
  mjc_shadow* s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->framebuffer = framebuffer, s->map = map, s->size = size;
  int bound;
  gl.GetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  gl.GenTextures(1, &s->cache);
  gl.BindTexture(GL_TEXTURE_2D, s->cache);
  gl.TexImage2D(GL_TEXTURE_2D, 0, GL_DEPTH24_STENCIL8, size, size, 0, GL_DEPTH_STENCIL, GL_UNSIGNED_INT_24_8, NULL);
  // Without mipmaps a texture is incomplete under the default filter, and cannot be copied.
  gl.TexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  gl.BindTexture(GL_TEXTURE_2D, (unsigned)bound);
  copy(map, s->cache, (int[]){0, 0, size, size});  // a trial: not every driver can copy depth
  if (gl.GetError() == GL_NO_ERROR) return s;
  mjc_shadow_free(s);
  return NULL;
}

void mjc_shadow_free(mjc_shadow* s) {
  mjc_shadow_begin(NULL);
  if (s) gl.DeleteTextures(1, &s->cache);
  free(s);
}

void mjc_shadow_begin(mjc_shadow* s) {
  drawing = s;
  if (s) s->pass = s->in_pass = 0;
}
