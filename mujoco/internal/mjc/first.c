// The first draw of a picture, which is mostly the floor, is kept as colours and depths while nothing of it changes:
// it is drawn into cleared buffers, and so leaves the same bits each time. Thousands of small faces with texture and
// lights cost more than a copy of the samples.
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

// drawn is a list with its place in the view.
typedef struct {
  unsigned list;
  float model[16], projection[16];
} drawn;

struct mjc_first {
  unsigned buffer[2], keep[2];
  int width, height;
  int waiting, same;  // for the frame's first draw
  drawn before, kept;  // the first draw of the frame before, and that in keep; NONE for none
};

static __thread mjc_first* drawing;

static void copy(const mjc_first* f, const unsigned* from, const unsigned* to) {
  for (int i = 0; i < 2; i++) {
    gl.CopyImageSubData(from[i], GL_RENDERBUFFER, 0, 0, 0, 0, to[i], GL_RENDERBUFFER, 0, 0, 0, 0, f->width, f->height, 1);
  }
}

static void call_list(unsigned list) {
  mjc_first* f = drawing;
  if (!f || !f->waiting) {
    gl.CallList(list);
    return;
  }
  f->waiting = 0;
  drawn now = {.list = list};
  gl.GetFloatv(GL_MODELVIEW_MATRIX, now.model);
  gl.GetFloatv(GL_PROJECTION_MATRIX, now.projection);
  // An opaque geom is drawn lit and not blended; a shadow map, the sky and transparent geoms, in whose order they come, are not.
  int opaque = gl.IsEnabled(GL_LIGHTING) && !gl.IsEnabled(GL_BLEND);
  if (!f->same || !opaque) f->kept.list = f->before.list = NONE;
  if (!opaque) {
    gl.CallList(list);
    return;
  }
  if (!memcmp(&now, &f->kept, sizeof now)) {
    copy(f, f->keep, f->buffer);
    return;
  }
  gl.CallList(list);
  // A first draw that came twice is likely to come again.
  if (!memcmp(&now, &f->before, sizeof now)) {
    copy(f, f->buffer, f->keep);
    f->kept = now;
  }
  f->before = now;
}

mjc_procedure mjc_first_wrap(const char* name, mjc_procedure real) {
  static const mjc_wrapped ours = MJC_WRAPPED(CallList, call_list);
  return mjc_wrap(&ours, 1, name, real);
}

mjc_first* mjc_first_new(mjc_procedure (*proc)(const char*), unsigned colour, unsigned depth, int width, int height) {
  if (!gl.CallList) return NULL;  // MuJoCo found OpenGL by another way
  FUNCTIONS(MJC_FIND)
  mjc_first* f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->buffer[0] = colour, f->buffer[1] = depth, f->width = width, f->height = height;
  int bound;
  gl.GetIntegerv(GL_RENDERBUFFER_BINDING, &bound);
  gl.GenRenderbuffers(2, f->keep);
  for (int i = 0; i < 2; i++) {
    int format, samples;
    gl.BindRenderbuffer(GL_RENDERBUFFER, f->buffer[i]);
    gl.GetRenderbufferParameteriv(GL_RENDERBUFFER, GL_RENDERBUFFER_INTERNAL_FORMAT, &format);
    gl.GetRenderbufferParameteriv(GL_RENDERBUFFER, GL_RENDERBUFFER_SAMPLES, &samples);
    gl.BindRenderbuffer(GL_RENDERBUFFER, f->keep[i]);
    gl.RenderbufferStorageMultisample(GL_RENDERBUFFER, samples, (unsigned)format, width, height);
  }
  gl.BindRenderbuffer(GL_RENDERBUFFER, (unsigned)bound);
  copy(f, f->buffer, f->keep);
  if (gl.GetError() == GL_NO_ERROR) return f;
  mjc_first_free(f);
  return NULL;
}

void mjc_first_free(mjc_first* f) {
  drawing = NULL;
  if (f) gl.DeleteRenderbuffers(2, f->keep);
  free(f);
}

void mjc_first_begin(mjc_first* f, int same) {
  drawing = f;
  if (f) f->waiting = 1, f->same = same;
}
