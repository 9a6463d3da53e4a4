// A cache of the first draw of a frame.
//
// The first draw is usually the floor: thousands of small textured and lit faces, which in
// software cost more than a copy of all samples. It is drawn into cleared buffers, so the
// same draw leaves the same bits each time. While nothing that it depends on changes, the
// colour and depth buffers after it are copied from a cache instead.
//
// Conditions for the copy: the display list, its modelview matrix and the projection are
// the cached ones (compared here), and lights, materials and everything else is as in the
// previous frame (parameter same, from render.c).
#define _GNU_SOURCE
#include "first.h"

#include <stdlib.h>
#include <string.h>

enum {
  GL_NO_ERROR = 0, GL_MODELVIEW_MATRIX = 0xBA6, GL_PROJECTION_MATRIX, GL_RENDERBUFFER = 0x8D41, GL_RENDERBUFFER_BINDING = 0x8CA7,
  GL_RENDERBUFFER_INTERNAL_FORMAT = 0x8D44, GL_RENDERBUFFER_SAMPLES = 0x8CAB, GL_LIGHTING = 0xB50, GL_BLEND = 0xBE2, NONE = 0,
};

#define FUNCTIONS(F)                                                                                                       \
  F(void, CallList, (unsigned list))                                                                                       \
  F(void, GetFloatv, (unsigned name, float* out))                                                                          \
  F(void, GetIntegerv, (unsigned name, int* out))                                                                          \
  F(unsigned char, IsEnabled, (unsigned name))                                                                             \
  F(unsigned, GetError, (void))                                                                                            \
  F(void, GenRenderbuffers, (int n, unsigned* out))                                                                        \
  F(void, DeleteRenderbuffers, (int n, const unsigned* names))                                                             \
  F(void, BindRenderbuffer, (unsigned target, unsigned name))                                                              \
  F(void, GetRenderbufferParameteriv, (unsigned target, unsigned name, int* out))                                          \
  F(void, RenderbufferStorageMultisample, (unsigned target, int samples, unsigned format, int width, int height))          \
  F(void, CopyImageSubData, (unsigned from, unsigned target, int level, int x, int y, int z, unsigned to,                  \
                             unsigned to_target, int to_level, int to_x, int to_y, int to_z, int width, int height, int depth))

static struct {
  FUNCTIONS(MJC_POINTER)
} gl;

// drawn identifies a draw: a display list with its matrices.
typedef struct {
  unsigned list;
  float model[16], projection[16];
} drawn;

struct mjc_first {
  unsigned buffer[2], cache[2];  // MuJoCo's colour and depth renderbuffers, and copies of ours
  int width, height;
  int pending;             // the frame's first draw has not come yet
  int same;                // the parameter of mjc_first_begin
  drawn previous, cached;  // the first draw of the previous frame and the one in cache; list NONE: none
};

// The renderer that draws on this thread, if any.
static __thread mjc_first* drawing;

// copy copies both renderbuffers, all samples included.
static void copy(const mjc_first* f, const unsigned* from, const unsigned* to) {
  for (int i = 0; i < 2; i++) {
    gl.CopyImageSubData(from[i], GL_RENDERBUFFER, 0, 0, 0, 0, to[i], GL_RENDERBUFFER, 0, 0, 0, 0, f->width, f->height, 1);
  }
}

static void call_list(unsigned list) {
  mjc_first* f = drawing;
  if (!f || !f->pending) {
    gl.CallList(list);
    return;
  }
  f->pending = 0;
  drawn now = {.list = list};
  gl.GetFloatv(GL_MODELVIEW_MATRIX, now.model);
  gl.GetFloatv(GL_PROJECTION_MATRIX, now.projection);
  // MuJoCo draws an opaque geom lit and unblended. Shadow maps, the sky and transparent
  // geoms are drawn otherwise, and do not count: they depend on more than is compared, for
  // example on the order of transparent geoms. If one of them comes first, this frame has no
  // cached draw.
  int opaque = gl.IsEnabled(GL_LIGHTING) && !gl.IsEnabled(GL_BLEND);
  if (!f->same || !opaque) f->cached.list = f->previous.list = NONE;
  if (!opaque) {
    gl.CallList(list);
    return;
  }
  if (!memcmp(&now, &f->cached, sizeof now)) {
    copy(f, f->cache, f->buffer);
    return;
  }
  gl.CallList(list);
  // Fill the cache only when the same first draw came twice in a row, because it is then
  // likely to come again. With a moving camera the copies would be wasted.
  if (!memcmp(&now, &f->previous, sizeof now)) {
    copy(f, f->buffer, f->cache);
    f->cached = now;
  }
  f->previous = now;
}

mjc_procedure mjc_first_wrap(const char* name, mjc_procedure real) {
  static const mjc_wrapped ours = MJC_WRAPPED(CallList, call_list);
  return mjc_wrap(&ours, 1, name, real);
}

// The cache buffers get the format and the number of samples of MuJoCo's, as
// glCopyImageSubData requires. A trial copy detects drivers that cannot do it.
mjc_first* mjc_first_new(mjc_procedure (*proc)(const char*), unsigned colour, unsigned depth, int width, int height) {
  if (!gl.CallList) return NULL;  // MuJoCo found OpenGL by another way
  FUNCTIONS(MJC_FIND)
  mjc_first* f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->buffer[0] = colour, f->buffer[1] = depth, f->width = width, f->height = height;
  int bound;
  gl.GetIntegerv(GL_RENDERBUFFER_BINDING, &bound);
  gl.GenRenderbuffers(2, f->cache);
  for (int i = 0; i < 2; i++) {
    int format, samples;
    gl.BindRenderbuffer(GL_RENDERBUFFER, f->buffer[i]);
    gl.GetRenderbufferParameteriv(GL_RENDERBUFFER, GL_RENDERBUFFER_INTERNAL_FORMAT, &format);
    gl.GetRenderbufferParameteriv(GL_RENDERBUFFER, GL_RENDERBUFFER_SAMPLES, &samples);
    gl.BindRenderbuffer(GL_RENDERBUFFER, f->cache[i]);
    gl.RenderbufferStorageMultisample(GL_RENDERBUFFER, samples, (unsigned)format, width, height);
  }
  gl.BindRenderbuffer(GL_RENDERBUFFER, (unsigned)bound);
  copy(f, f->buffer, f->cache);
  if (gl.GetError() == GL_NO_ERROR) return f;
  mjc_first_free(f);
  return NULL;
}

void mjc_first_free(mjc_first* f) {
  drawing = NULL;
  if (f) gl.DeleteRenderbuffers(2, f->cache);
  free(f);
}

void mjc_first_begin(mjc_first* f, int same) {
  drawing = f;
  if (f) f->pending = 1, f->same = same;
}
