// Display lists of which only the faces that can cover a sample are drawn.
//
// A robot's meshes have more triangles than its picture has pixels. Most lie between the samples, look away from the
// camera or are out of the view; llvmpipe finds that out for each of them, after it has lit their corners, in every
// pass. Functions of ours stand between MuJoCo and OpenGL: they write down what a list is made of, and in place of a
// list they draw, in the list's order, those faces that may cover a sample. What is left out would have written
// nothing, so the bytes are the same. The test must never leave out a face that covers one: it works on corners that
// may each be FUZZ pixels away from where it sees them, which is more than the driver's rounding to 1/256 pixel, and
// keeps what lies close to the camera's plane, where that cannot be said.
#define _GNU_SOURCE
#include "faces.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum {
  GL_TRIANGLES = 4, GL_QUADS = 7, GL_FRONT = 0x404, GL_BACK = 0x405, GL_CW = 0x900, GL_CULL_FACE = 0xB44, GL_CULL_FACE_MODE,
  GL_FRONT_FACE, GL_POLYGON_MODE = 0xB40, GL_FILL = 0x1B02, GL_MODELVIEW_MATRIX = 0xBA6, GL_PROJECTION_MATRIX, GL_VIEWPORT = 0xBA2,
  GL_FLOAT = 0x1406, GL_UNSIGNED_INT = 0x1405, GL_VERTEX_ARRAY = 0x8074, GL_NORMAL_ARRAY, GL_TEXTURE_COORD_ARRAY = 0x8078,
  GL_ARRAY_BUFFER = 0x8892, GL_STATIC_DRAW = 0x88E4, GL_SAMPLES = 0x80A9, GL_SAMPLE_POSITION = 0x8E50, GL_MULTISAMPLE = 0x809D,
};

// What is called here, of OpenGL: result, name, parameters. The first are wrapped.
#define FUNCTIONS(F)                                                                         \
  F(void, NewList, (unsigned list, unsigned mode))                                           \
  F(void, EndList, (void))                                                                   \
  F(void, CallList, (unsigned list))                                                         \
  F(void, Begin, (unsigned mode))                                                            \
  F(void, End, (void))                                                                       \
  F(void, Color4fv, (const float* v))                                                        \
  F(void, Vertex3fv, (const float* v))                                                       \
  F(void, Vertex3f, (float x, float y, float z))                                             \
  F(void, Vertex3d, (double x, double y, double z))                                          \
  F(void, Normal3fv, (const float* v))                                                       \
  F(void, Normal3f, (float x, float y, float z))                                             \
  F(void, Normal3d, (double x, double y, double z))                                          \
  F(void, TexCoord2f, (float s, float t))                                                    \
  F(void, TexCoord2d, (double s, double t))                                                  \
  F(void, TexCoord2fv, (const float* v))                                                     \
  F(void, DrawElements, (unsigned mode, int count, unsigned type, const void* indices))      \
  F(void, EnableClientState, (unsigned array))                                               \
  F(void, DisableClientState, (unsigned array))                                              \
  F(void, VertexPointer, (int size, unsigned type, int stride, const void* at))              \
  F(void, NormalPointer, (unsigned type, int stride, const void* at))                        \
  F(void, TexCoordPointer, (int size, unsigned type, int stride, const void* at))            \
  F(void, GenBuffers, (int n, unsigned* out))                                                \
  F(void, DeleteBuffers, (int n, const unsigned* names))                                     \
  F(void, BindBuffer, (unsigned target, unsigned name))                                      \
  F(void, BufferData, (unsigned target, ptrdiff_t size, const void* data, unsigned usage))   \
  F(void, GetFloatv, (unsigned name, float* out))                                            \
  F(void, GetIntegerv, (unsigned name, int* out))                                            \
  F(unsigned char, IsEnabled, (unsigned name))                                               \
  F(void, GetMultisamplefv, (unsigned name, unsigned index, float* out))

static struct {
  FUNCTIONS(MJC_POINTER)
} gl;

// vertex is what a list says of a corner.
typedef struct {
  float at[3], normal[3], tex[2];
} vertex;

// part is what stands between glBegin and glEnd.
typedef struct {
  unsigned mode;
  int first, n;  // of the list's indices
} part;

enum { NORMAL = 1, TEX = 2, MAX_PARTS = 16, MAX_SAMPLES = 16, FEW = 300 };

// list is a display list; known says that it is nothing but triangles and quads.
typedef struct {
  unsigned name, buffer;
  int known, given;  // given: which of NORMAL and TEX its vertices have
  int nparts, nvertices, nindices;
  float reach;  // the largest coordinate
  part parts[MAX_PARTS];
  vertex* vertices;
  vertex last;
  uint32_t* indices;
} list;

// seen is a list as one pass draws it; the next pass with the same view draws the same faces.
typedef struct {
  list* of;
  float model[16], projection[16];
  int view[4], culled, samples;
  uint32_t first;
  int touched[4];  // left, bottom, right, top of the points that it can write
  int n[MAX_PARTS];
} seen;

struct mjc_faces {
  list* lists;
  int nlists;
  list* open;         // the one that is being made
  int inside, room;   // between glBegin and glEnd; room for its vertices
  vertex now;
  float* window;      // x, y of a list's vertices, NaN for one too close to the camera's plane
  int nwindow;
  seen* seen;
  int nseen, room_seen;
  int touched[4];     // by the draws since mjc_faces_touched
  uint32_t* faces;    // of what was seen
  size_t nfaces, room_faces;
};

static __thread mjc_faces* drawing;

// grow gives room for n things of a size in *at, which has room for *room; 0 where there is no memory.
static int grow(void* at, size_t* room, size_t n, size_t size) {
  if (n <= *room) return 1;
  size_t more = n + n / 2 + 64;
  void* p = realloc(*(void**)at, more * size);
  if (!p) return 0;
  *(void**)at = p;
  *room = more;
  return 1;
}

// ---- what lists are made of

static list* find(mjc_faces* f, unsigned name) {
  int lo = 0, hi = f->nlists;
  while (lo < hi) {
    int m = (lo + hi) / 2;
    if (f->lists[m].name < name) lo = m + 1;
    else hi = m;
  }
  return lo < f->nlists && f->lists[lo].name == name ? &f->lists[lo] : NULL;
}

static void empty(list* l) {
  free(l->vertices);
  free(l->indices);
  if (l->buffer) gl.DeleteBuffers(1, &l->buffer);
  memset(l, 0, sizeof *l);
}

// share makes one vertex of equal ones.
static int share(list* l) {
  uint32_t size = 64, n = 0;
  while (size < 2u * (uint32_t)l->nvertices) size *= 2;
  uint32_t* table = calloc(size, sizeof *table);
  l->indices = malloc((size_t)l->nvertices * sizeof *l->indices);
  if (!table || !l->indices) {
    free(table);
    return 0;
  }
  for (int i = 0; i < l->nvertices; i++) {
    uint32_t words[8], h = 0;
    memcpy(words, &l->vertices[i], sizeof words);
    for (int k = 0; k < 8; k++) h = (h ^ words[k]) * 0x9E3779B1u, h ^= h >> 15;
    for (h &= size - 1; table[h] && memcmp(&l->vertices[table[h] - 1], words, sizeof words); h = (h + 1) & (size - 1)) {
    }
    if (!table[h]) {
      l->vertices[n] = l->vertices[i];
      table[h] = ++n;
    }
    l->indices[i] = table[h] - 1;
  }
  free(table);
  l->nindices = l->nvertices;
  l->nvertices = (int)n;
  return 1;
}

static void new_list(unsigned name, unsigned mode) {
  mjc_faces* f = drawing;
  if (f) {
    list* l = find(f, name);
    f->nseen = 0;
    f->nfaces = 0;
    if (!l) {
      size_t room = (size_t)f->nlists;
      list* p = realloc(f->lists, (room + 1) * sizeof *p);
      if (p) {
        f->lists = p;
        for (l = p + f->nlists++; l > p && l[-1].name > name; l--) *l = l[-1];
        memset(l, 0, sizeof *l);
      }
    }
    if (l) {
      empty(l);
      l->name = name;
      l->known = 1;
    }
    f->open = l;
    f->inside = f->room = 0;
    memset(&f->now, 0, sizeof f->now);
  }
  gl.NewList(name, mode);
}

static void end_list(void) {
  mjc_faces* f = drawing;
  gl.EndList();
  if (!f || !f->open) return;
  list* l = f->open;
  f->open = NULL;
  l->last = f->now;
  if (l->nvertices < FEW || f->inside || !share(l)) l->known = 0;
  for (int i = 0; i < l->nvertices; i++) {
    for (int k = 0; k < 3; k++) l->reach = MAX(l->reach, fabsf(l->vertices[i].at[k]));
  }
  if (l->known && l->nvertices > f->nwindow) {
    float* w = realloc(f->window, (size_t)l->nvertices * 2 * sizeof *w);
    if (w) f->window = w, f->nwindow = l->nvertices;
    else l->known = 0;
  }
  if (l->known) {
    vertex* fit = realloc(l->vertices, (size_t)l->nvertices * sizeof *fit);
    if (fit) l->vertices = fit;
    gl.GenBuffers(1, &l->buffer);
    gl.BindBuffer(GL_ARRAY_BUFFER, l->buffer);
    gl.BufferData(GL_ARRAY_BUFFER, (ptrdiff_t)l->nvertices * (ptrdiff_t)sizeof(vertex), l->vertices, GL_STATIC_DRAW);
    gl.BindBuffer(GL_ARRAY_BUFFER, 0);
  } else {
    unsigned name = l->name;
    empty(l);
    l->name = name;
  }
}

static void begin(unsigned mode) {
  mjc_faces* f = drawing;
  if (f && f->open) {
    list* l = f->open;
    if ((mode != GL_TRIANGLES && mode != GL_QUADS) || l->nparts == MAX_PARTS) l->known = 0;
    if (l->known) l->parts[l->nparts++] = (part){mode, l->nvertices, 0};
    f->inside = 1;
  }
  gl.Begin(mode);
}

static void end(void) {
  mjc_faces* f = drawing;
  if (f && f->open) {
    list* l = f->open;
    f->inside = 0;
    if (l->known) {
      part* p = &l->parts[l->nparts - 1];
      p->n = l->nvertices - p->first;
      if (p->n % (p->mode == GL_QUADS ? 4 : 3)) l->known = 0;
    }
  }
  gl.End();
}

static void color4fv(const float* v) {
  if (drawing && drawing->open) drawing->open->known = 0;
  gl.Color4fv(v);
}

// An attribute that comes outside a part, or not from the first vertex on, is more than this file knows about.
static void give(int what, const float* v) {
  mjc_faces* f = drawing;
  if (!f || !f->open) return;
  list* l = f->open;
  if (!f->inside || (!(l->given & what) && l->nvertices > 0)) l->known = 0;
  l->given |= what;
  if (what == NORMAL) memcpy(f->now.normal, v, sizeof f->now.normal);
  else memcpy(f->now.tex, v, sizeof f->now.tex);
}

static void put(float x, float y, float z) {
  mjc_faces* f = drawing;
  if (!f || !f->open) return;
  list* l = f->open;
  size_t room = (size_t)f->room;
  if (!l->known || !f->inside || l->nvertices > 1 << 28 || !grow(&l->vertices, &room, (size_t)l->nvertices + 1, sizeof(vertex))) {
    l->known = 0;
    return;
  }
  f->room = (int)room;
  f->now.at[0] = x, f->now.at[1] = y, f->now.at[2] = z;
  l->vertices[l->nvertices++] = f->now;
}

static void vertex3fv(const float* v) { put(v[0], v[1], v[2]); gl.Vertex3fv(v); }
static void vertex3f(float x, float y, float z) { put(x, y, z); gl.Vertex3f(x, y, z); }
static void vertex3d(double x, double y, double z) { put((float)x, (float)y, (float)z); gl.Vertex3d(x, y, z); }
static void normal3fv(const float* v) { give(NORMAL, v); gl.Normal3fv(v); }
static void normal3f(float x, float y, float z) { give(NORMAL, (float[]){x, y, z}); gl.Normal3f(x, y, z); }
static void normal3d(double x, double y, double z) { give(NORMAL, (float[]){(float)x, (float)y, (float)z}); gl.Normal3d(x, y, z); }
static void texcoord2f(float s, float t) { give(TEX, (float[]){s, t}); gl.TexCoord2f(s, t); }
static void texcoord2d(double s, double t) { give(TEX, (float[]){(float)s, (float)t}); gl.TexCoord2d(s, t); }
static void texcoord2fv(const float* v) { give(TEX, v); gl.TexCoord2fv(v); }

// ---- which faces may cover a sample

// FUZZ is how far, in pixels and along either axis, a corner may be from where the driver has it: half of the driver's
// 1/256 by rounding, and as much again and more for the two ways to work it out in floats.
#define FUZZ (1.0f / 128)

typedef float four __attribute__((vector_size(16)));
typedef int fours __attribute__((vector_size(16)));

typedef struct {
  float lo[2], hi[2];  // of the viewport
  float side;          // of faces that are left out: 1 counter-clockwise in the window, -1 clockwise, 0 none
  int n;
  four x[MAX_SAMPLES / 4], y[MAX_SAMPLES / 4];  // the samples of a pixel, four at a time
} raster;

// place works out where the vertices are in the window, and the rectangle that they touch. It is float arithmetic on at most reach * 4 with rows whose
// sizes add up to size: an error of 16 roundings of that is more than the driver and this make.
static void place(const list* l, const float* m, const int* view, float* out, int* touched) {
  float size = 0;
  for (int r = 0; r < 4; r++) {
    if (r == 2) continue;
    size = MAX(size, (fabsf(m[r]) + fabsf(m[4 + r]) + fabsf(m[8 + r])) * l->reach + fabsf(m[12 + r]));
  }
  float half[2] = {0.5f * (float)view[2], 0.5f * (float)view[3]};
  float mid[2] = {(float)view[0] + half[0], (float)view[1] + half[1]};
  float close = size * 0x1p-20f * MAX(half[0], half[1]) * 256;
  float lo[2] = {(float)view[0], (float)view[1]}, hi[2] = {lo[0] + (float)view[2], lo[1] + (float)view[3]};
  float left = INFINITY, low = INFINITY, right = -INFINITY, high = -INFINITY;
  int all = 1;
  for (int i = 0; i < l->nvertices; i++) {
    const float* p = l->vertices[i].at;
    float x = m[0] * p[0] + m[4] * p[1] + m[8] * p[2] + m[12];
    float y = m[1] * p[0] + m[5] * p[1] + m[9] * p[2] + m[13];
    float w = m[3] * p[0] + m[7] * p[1] + m[11] * p[2] + m[15];
    float over = w > close ? 1 / w : NAN;
    all &= w > close;
    x = out[2 * i] = mid[0] + half[0] * x * over;
    y = out[2 * i + 1] = mid[1] + half[1] * y * over;
    left = MIN(x, left), low = MIN(y, low), right = MAX(x, right), high = MAX(y, high);
  }
  // With a margin, by which a list that lies outside of the viewport has left beyond right, or low beyond high.
  touched[0] = (int)(all ? MIN(MAX(left, lo[0]), hi[0] + 8) : lo[0]) - 2;
  touched[1] = (int)(all ? MIN(MAX(low, lo[1]), hi[1] + 8) : lo[1]) - 2;
  touched[2] = (int)(all ? MAX(MIN(right, hi[0]), lo[0] - 8) : hi[0]) + 3;
  touched[3] = (int)(all ? MAX(MIN(high, hi[1]), lo[1] - 8) : hi[1]) + 3;
}

static fours bits(four v) { return (fours)v; }
static four least(four a, four b) { fours m = a < b; return (four)((m & bits(a)) | (~m & bits(b))); }
static four most(four a, four b) { fours m = a > b; return (four)((m & bits(a)) | (~m & bits(b))); }
static four size(four v) { return (four)(bits(v) & 0x7FFFFFFF); }

// sampled says whether a triangle of a few pixels may cover a sample.
static int sampled(const raster* r, const float* a, const float* b, const float* c) {
  float dx[3] = {b[0] - a[0], c[0] - b[0], a[0] - c[0]}, dy[3] = {b[1] - a[1], c[1] - b[1], a[1] - c[1]};
  float left = MIN(a[0], MIN(b[0], c[0])) - FUZZ, right = MAX(a[0], MAX(b[0], c[0])) + FUZZ;
  float low = MIN(a[1], MIN(b[1], c[1])) - FUZZ, high = MAX(a[1], MAX(b[1], c[1])) + FUZZ;
  float slack[3];
  for (int i = 0; i < 3; i++) slack[i] = FUZZ * (fabsf(dx[i]) + fabsf(dy[i]));
  float turn = dx[0] * dy[1] - dy[0] * dx[1] < 0 ? -1 : 1;
  for (int i = 0; i < 3; i++) dx[i] *= turn, dy[i] *= turn;
  int x0 = (int)(left + 32768) - 32768, y0 = (int)(low + 32768) - 32768;
  for (int y = y0; (float)y <= high; y++) {
    for (int x = x0; (float)x <= right; x++) {
      for (int s = 0; s < r->n; s++) {
        four sx = r->x[s] + (float)x, sy = r->y[s] + (float)y;
        fours in = dx[0] * (sy - a[1]) - dy[0] * (sx - a[0]) >= -slack[0];
        in &= dx[1] * (sy - b[1]) - dy[1] * (sx - b[0]) >= -slack[1];
        in &= dx[2] * (sy - c[1]) - dy[2] * (sx - c[0]) >= -slack[2];
        if (in[0] | in[1] | in[2] | in[3]) return 1;
      }
    }
  }
  return 0;
}

// covers says which of four triangles may cover a sample, those with a corner that is not a number among them.
// They stand as four indices of first corners, of second, and of third.
static fours covers(const raster* r, const float* w, const uint32_t v[3][4]) {
  four x[3], y[3], dx[2], dy[2];
  for (int i = 0; i < 3; i++) {
    x[i] = (four){w[2 * v[i][0]], w[2 * v[i][1]], w[2 * v[i][2]], w[2 * v[i][3]]};
    y[i] = (four){w[2 * v[i][0] + 1], w[2 * v[i][1] + 1], w[2 * v[i][2] + 1], w[2 * v[i][3] + 1]};
  }
  for (int i = 0; i < 2; i++) dx[i] = x[i + 1] - x[i], dy[i] = y[i + 1] - y[i];
  four area = dx[0] * dy[1] - dy[0] * dx[1];
  four left = least(x[0], least(x[1], x[2])) - FUZZ, right = most(x[0], most(x[1], x[2])) + FUZZ;
  four low = least(y[0], least(y[1], y[2])) - FUZZ, high = most(y[0], most(y[1], y[2])) + FUZZ;
  fours number = size(area) < 1e9f;
  fours out = (right < r->lo[0]) | (high < r->lo[1]) | (left > r->hi[0]) | (low > r->hi[1]);
  // Far corners are known less well, and large faces cover something.
  fours far = size(left) + size(right) + size(low) + size(high) >= 16384;
  fours back = area * r->side > 2 * FUZZ * (size(dx[0]) + size(dy[0]) + size(dx[1]) + size(dy[1])) + 8 * FUZZ * FUZZ;
  fours large = (right - left > 2) | (high - low > 2);
  fours yes = ~number | (~out & (far | (~back & large)));
  fours open = number & ~out & ~far & ~back & ~large;
  for (int i = 0; i < 4; i++) {
    if (open[i]) yes[i] = sampled(r, w + 2 * v[0][i], w + 2 * v[1][i], w + 2 * v[2][i]);
  }
  return yes;
}

// choose lists the faces that may be seen.
static int choose(mjc_faces* f, seen* s, const raster* r) {
  list* l = s->of;
  size_t at = s->first;
  if (!grow(&f->faces, &f->room_faces, at + (size_t)l->nindices + 12, sizeof *f->faces)) return 0;
  for (int k = 0; k < l->nparts; k++) {
    const part* p = &l->parts[k];
    const uint32_t *v = l->indices + p->first, *end = v + p->n;
    size_t before = at;
    if (p->mode == GL_QUADS) {  // whichever way the driver cuts them
      for (; v < end; v += 4) {
        uint32_t cut[3][4] = {{v[0], v[0], v[0], v[1]}, {v[1], v[2], v[1], v[2]}, {v[2], v[3], v[3], v[3]}};
        fours yes = covers(r, f->window, cut);
        memcpy(f->faces + at, v, 4 * sizeof *v);
        at += yes[0] | yes[1] | yes[2] | yes[3] ? 4 : 0;
      }
    } else {
      for (; v < end; v += 12) {
        int n = MIN(4, (int)(end - v) / 3);
        uint32_t corners[3][4];
        for (int i = 0; i < 4; i++) {
          const uint32_t* t = v + 3 * MIN(i, n - 1);
          corners[0][i] = t[0], corners[1][i] = t[1], corners[2][i] = t[2];
        }
        fours yes = covers(r, f->window, corners);
        for (int i = 0; i < n; i++) {
          memcpy(f->faces + at, v + 3 * i, 3 * sizeof *v);
          at += yes[i] ? 3 : 0;
        }
      }
    }
    s->n[k] = (int)(at - before);
  }
  f->nfaces = at;
  return 1;
}

// look finds out what of a list is seen; NULL where that cannot be said.
static seen* look(mjc_faces* f, list* l) {
  seen now;
  memset(&now, 0, sizeof now);
  now.of = l;
  int polygon[2];
  gl.GetIntegerv(GL_POLYGON_MODE, polygon);
  if (polygon[0] != GL_FILL || polygon[1] != GL_FILL) return NULL;
  gl.GetFloatv(GL_MODELVIEW_MATRIX, now.model);
  gl.GetFloatv(GL_PROJECTION_MATRIX, now.projection);
  gl.GetIntegerv(GL_VIEWPORT, now.view);
  gl.GetIntegerv(GL_SAMPLES, &now.samples);
  if (now.samples > MAX_SAMPLES) return NULL;
  if (now.samples && !gl.IsEnabled(GL_MULTISAMPLE)) now.samples = 0;
  if (gl.IsEnabled(GL_CULL_FACE)) {
    int which, front;
    gl.GetIntegerv(GL_CULL_FACE_MODE, &which);
    gl.GetIntegerv(GL_FRONT_FACE, &front);
    if (which != GL_FRONT && which != GL_BACK) return NULL;
    now.culled = (which == GL_FRONT) == (front != GL_CW) ? 1 : -1;
  }
  for (int i = 0; i < f->nseen; i++) {
    seen* s = &f->seen[i];
    if (!memcmp(s, &now, offsetof(seen, first))) return s;
  }
  raster r = {.side = (float)now.culled, .n = MAX(1, (now.samples + 3) / 4)};
  for (int i = 0; i < 4 * r.n; i++) {
    float at[2] = {0.5f, 0.5f};
    if (i < now.samples) gl.GetMultisamplefv(GL_SAMPLE_POSITION, (unsigned)i, at);
    r.x[i / 4][i % 4] = at[0], r.y[i / 4][i % 4] = at[1];
  }
  for (int k = 0; k < 2; k++) r.lo[k] = (float)now.view[k] - 1, r.hi[k] = (float)(now.view[k] + now.view[k + 2]) + 1;
  float m[16];
  for (int c = 0; c < 4; c++) {
    for (int row = 0; row < 4; row++) {
      m[4 * c + row] = 0;
      for (int k = 0; k < 4; k++) m[4 * c + row] += now.projection[4 * k + row] * now.model[4 * c + k];
    }
  }
  place(l, m, now.view, f->window, now.touched);
  now.first = (uint32_t)f->nfaces;
  int empty = now.touched[0] >= now.touched[2] || now.touched[1] >= now.touched[3];
  if (!empty && !choose(f, &now, &r)) return NULL;
  size_t room = (size_t)f->room_seen;
  if (!grow(&f->seen, &room, (size_t)f->nseen + 1, sizeof now)) return NULL;
  f->room_seen = (int)room;
  f->seen[f->nseen] = now;
  return &f->seen[f->nseen++];
}

static void touch(mjc_faces* f, const int* r) {
  for (int k = 0; k < 2; k++) {
    f->touched[k] = MIN(f->touched[k], r[k]);
    f->touched[2 + k] = MAX(f->touched[2 + k], r[2 + k]);
  }
}

void mjc_faces_touched(int size, int* out) {
  int all[4] = {0, 0, size, size};
  mjc_faces* f = drawing;
  if (f) {
    memcpy(all, f->touched, sizeof all);
    memcpy(f->touched, (int[]){INT_MAX, INT_MAX, 0, 0}, sizeof f->touched);
  }
  out[0] = MAX(all[0], 0), out[1] = MAX(all[1], 0);
  out[2] = MAX(MIN(all[2], size), out[0]), out[3] = MAX(MIN(all[3], size), out[1]);
}

static void call_list(unsigned name) {
  mjc_faces* f = drawing;
  list* l = f && !f->open ? find(f, name) : NULL;
  seen* s = l && l->known ? look(f, l) : NULL;
  if (!s) {
    if (f) touch(f, (int[]){0, 0, INT_MAX, INT_MAX});
    gl.CallList(name);
    return;
  }
  touch(f, s->touched);
  const char* at = NULL;
  gl.BindBuffer(GL_ARRAY_BUFFER, l->buffer);
  gl.EnableClientState(GL_VERTEX_ARRAY);
  gl.VertexPointer(3, GL_FLOAT, sizeof(vertex), at);
  if (l->given & NORMAL) {
    gl.EnableClientState(GL_NORMAL_ARRAY);
    gl.NormalPointer(GL_FLOAT, sizeof(vertex), at + offsetof(vertex, normal));
  }
  if (l->given & TEX) {
    gl.EnableClientState(GL_TEXTURE_COORD_ARRAY);
    gl.TexCoordPointer(2, GL_FLOAT, sizeof(vertex), at + offsetof(vertex, tex));
  }
  const uint32_t* faces = f->faces + s->first;
  for (int i = 0; i < l->nparts; faces += s->n[i++]) {
    if (s->n[i] > 0) gl.DrawElements(l->parts[i].mode, s->n[i], GL_UNSIGNED_INT, faces);
  }
  gl.DisableClientState(GL_VERTEX_ARRAY);
  gl.DisableClientState(GL_NORMAL_ARRAY);
  gl.DisableClientState(GL_TEXTURE_COORD_ARRAY);
  gl.BindBuffer(GL_ARRAY_BUFFER, 0);
  // A list leaves its last values behind.
  if (l->given & NORMAL) gl.Normal3fv(l->last.normal);
  if (l->given & TEX) gl.TexCoord2fv(l->last.tex);
}

mjc_procedure mjc_faces_wrap(const char* name, mjc_procedure real) {
  static const mjc_wrapped ours[] = {
    MJC_WRAPPED(NewList, new_list), MJC_WRAPPED(EndList, end_list), MJC_WRAPPED(CallList, call_list),
    MJC_WRAPPED(Begin, begin), MJC_WRAPPED(End, end), MJC_WRAPPED(Color4fv, color4fv),
    MJC_WRAPPED(Vertex3fv, vertex3fv), MJC_WRAPPED(Vertex3f, vertex3f), MJC_WRAPPED(Vertex3d, vertex3d),
    MJC_WRAPPED(Normal3fv, normal3fv), MJC_WRAPPED(Normal3f, normal3f), MJC_WRAPPED(Normal3d, normal3d),
    MJC_WRAPPED(TexCoord2f, texcoord2f), MJC_WRAPPED(TexCoord2d, texcoord2d), MJC_WRAPPED(TexCoord2fv, texcoord2fv),
  };
  return mjc_wrap(ours, sizeof ours / sizeof *ours, name, real);
}

mjc_faces* mjc_faces_new(mjc_procedure (*proc)(const char*)) {
  FUNCTIONS(MJC_FIND)
  return calloc(1, sizeof(mjc_faces));
}

void mjc_faces_free(mjc_faces* f) {
  drawing = NULL;
  if (!f) return;
  for (int i = 0; i < f->nlists; i++) empty(&f->lists[i]);
  free(f->lists);
  free(f->window);
  free(f->seen);
  free(f->faces);
  free(f);
}

void mjc_faces_begin(mjc_faces* f) {
  drawing = f;
  if (f) f->nseen = 0, f->nfaces = 0;
}
