// Shadow maps that keep what did not move.
//
// MuJoCo's shadow map shows the whole scene from the light, on 4096 x 4096 points by default, which is about half of a
// frame's time in software, although little moves from frame to frame. A point of the map is the nearest depth over all
// draws, whatever their order, so the draws that stay can be kept as a second map: a frame copies it and draws what
// moved, which gives the same bits. Functions of ours stand between MuJoCo and OpenGL for that. In the pass that fills
// the map they only write down which display list is drawn with which matrix; the pass is drawn when MuJoCo leaves it.
// MuJoCo's other ways to draw (glBegin, glDrawArrays, glDrawElements) end the keeping for good when they come in this pass.
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

// What is called here, of OpenGL: result, name, parameters.
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

// cast is a draw into the map.
typedef struct {
  float matrix[16];  // from the list's points to the light's view
  unsigned list;
} cast;

enum { MAX_CASTS = 1024 };

typedef struct {
  int n;
  cast c[MAX_CASTS];
} casts;

struct mjc_shadow {
  unsigned framebuffer, map, keep;  // keep is a map of the draws in kept
  int size;
  int off;       // something unexpected came
  int pass;      // the number of this frame's pass, from 1; a map is kept of the first
  int inside;    // in the first pass
  int moved[4];  // the rectangle of the map, after a frame, outside of which it is keep's
  float light[16];
  casts now, before, kept;
};

// One renderer draws at a time on a thread, and its context belongs to the thread.
static __thread mjc_shadow* drawing;

static int has(const casts* set, const cast* c) {
  for (int i = 0; i < set->n; i++) {
    if (!memcmp(&set->c[i], c, sizeof *c)) return 1;
  }
  return 0;
}

// meet leaves in a what b has too.
static void meet(casts* a, const casts* b) {
  int n = 0;
  for (int i = 0; i < a->n; i++) {
    if (has(b, &a->c[i])) a->c[n++] = a->c[i];
  }
  a->n = n;
}

// copy copies a rectangle: left, bottom, right, top.
static void copy(unsigned from, unsigned to, const int* r) {
  if (r[0] >= r[2] || r[1] >= r[3]) return;
  gl.CopyImageSubData(from, GL_TEXTURE_2D, 0, r[0], r[1], 0, to, GL_TEXTURE_2D, 0, r[0], r[1], 0, r[2] - r[0], r[3] - r[1], 1);
}

// draw draws the casts that are not in but.
static void draw(const casts* set, const casts* but) {
  gl.PushMatrix();
  for (int i = 0; i < set->n; i++) {
    if (but && has(but, &set->c[i])) continue;
    gl.LoadMatrixf(set->c[i].matrix);
    gl.CallList(set->c[i].list);
  }
  gl.PopMatrix();
}

static void draw_plainly(mjc_shadow* s) {
  gl.Clear(GL_DEPTH_BUFFER_BIT);
  draw(&s->now, NULL);
}

static void give_up(mjc_shadow* s) {
  draw_plainly(s);
  s->off = 1, s->inside = 0;
}

// finish draws the pass, in the state in which MuJoCo leaves it, which is the state of all its draws.
static void finish(mjc_shadow* s) {
  float light[16];
  gl.GetFloatv(GL_PROJECTION_MATRIX, light);
  if (memcmp(light, s->light, sizeof light)) {
    memcpy(s->light, light, sizeof light);
    s->kept.n = s->before.n = 0;
  }
  int n = s->kept.n;
  meet(&s->kept, &s->now);
  // What is kept becomes less each time that some of it moved, until it is what never moves; when nothing of it
  // is left, as with another place of the light, a new set begins.
  if (n > 0 && s->kept.n == n) {
    copy(s->keep, s->map, s->moved);
  } else {
    if (s->kept.n == 0) {
      s->kept = s->before;
      meet(&s->kept, &s->now);
    }
    gl.Clear(GL_DEPTH_BUFFER_BIT);
    draw(&s->kept, NULL);
    if (s->kept.n > 0) copy(s->map, s->keep, (int[]){0, 0, s->size, s->size});
  }
  mjc_faces_touched(s->size, s->moved);
  draw(&s->now, &s->kept);
  mjc_faces_touched(s->size, s->moved);
  s->before = s->now;
  s->inside = 0;
}

static void bind_framebuffer(unsigned target, unsigned framebuffer) {
  mjc_shadow* s = drawing;
  if (s && s->inside) finish(s);
  gl.BindFramebuffer(target, framebuffer);
  if (s && !s->off && framebuffer == s->framebuffer) {
    s->inside = s->pass++ == 0;
    if (!s->inside) s->moved[0] = s->moved[1] = 0, s->moved[2] = s->moved[3] = s->size;  // another light's map
    s->now.n = 0;
  }
}

static void clear(unsigned mask) {
  mjc_shadow* s = drawing;
  if (s && s->inside) {
    if (mask == GL_DEPTH_BUFFER_BIT && s->now.n == 0) return;
    give_up(s);
  }
  gl.Clear(mask);
}

static void call_list(unsigned list) {
  mjc_shadow* s = drawing;
  if (s && s->inside && s->now.n == MAX_CASTS) give_up(s);
  if (!s || !s->inside) {
    gl.CallList(list);
    return;
  }
  cast* c = &s->now.c[s->now.n++];
  c->list = list;
  gl.GetFloatv(GL_MODELVIEW_MATRIX, c->matrix);
}

static void begin(unsigned mode) {
  if (drawing && drawing->inside) give_up(drawing);
  gl.Begin(mode);
}

static void draw_arrays(unsigned mode, int first, int count) {
  if (drawing && drawing->inside) give_up(drawing);
  gl.DrawArrays(mode, first, count);
}

static void draw_elements(unsigned mode, int count, unsigned type, const void* indices) {
  if (drawing && drawing->inside) give_up(drawing);
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
  if (!gl.CallList || !framebuffer) return NULL;  // MuJoCo found OpenGL by another way, or draws no shadows
  FUNCTIONS(MJC_FIND)
  mjc_shadow* s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->framebuffer = framebuffer, s->map = map, s->size = size;
  int bound;
  gl.GetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  gl.GenTextures(1, &s->keep);
  gl.BindTexture(GL_TEXTURE_2D, s->keep);
  gl.TexImage2D(GL_TEXTURE_2D, 0, GL_DEPTH24_STENCIL8, size, size, 0, GL_DEPTH_STENCIL, GL_UNSIGNED_INT_24_8, NULL);
  gl.TexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);  // complete without smaller levels
  gl.BindTexture(GL_TEXTURE_2D, (unsigned)bound);
  copy(map, s->keep, (int[]){0, 0, size, size});
  if (gl.GetError() == GL_NO_ERROR) return s;
  mjc_shadow_free(s);
  return NULL;
}

void mjc_shadow_free(mjc_shadow* s) {
  mjc_shadow_begin(NULL);
  if (s) gl.DeleteTextures(1, &s->keep);
  free(s);
}

void mjc_shadow_begin(mjc_shadow* s) {
  drawing = s;
  if (s) s->pass = s->inside = 0;
}
