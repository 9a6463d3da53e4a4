// Display lists of which only the faces that can cover a sample are drawn.
//
// A robot's meshes have more triangles than its picture has pixels. Most lie between the
// samples, face away from the camera or are out of view. llvmpipe finds that out for each
// of them in every pass, after it has lit their vertices. The functions of this file are
// interposed between MuJoCo and OpenGL. They record the contents of each display list, and
// in place of glCallList they draw, in the list's order, only the faces that may cover a
// sample. The omitted faces would have written nothing, so the frame's bytes are the same.
//
// The test may keep a face that covers nothing, but must never omit one that covers a
// sample. It therefore allows each vertex to be FUZZ pixels away from where it computes
// it, which exceeds the driver's rounding to 1/256 pixel, and it keeps all faces near
// the camera's plane, where there is no such bound.
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

// The OpenGL functions called here: result, name, parameters.
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

// vertex is one vertex of a list. Its 32 bytes are also the layout of the vertex buffer.
typedef struct {
  float at[3], normal[3], tex[2];
} vertex;

// part is the range of vertices between a glBegin and its glEnd.
typedef struct {
  unsigned mode;
  int first, n;  // of the list's indices
} part;

// NORMAL and TEX are bits of list.attributes. Lists with more than MAX_PARTS parts, or more
// than MAX_SAMPLES samples per pixel, are drawn as they are; so are lists with fewer than
// MIN_VERTICES vertices, for which the test costs more than it saves.
enum { NORMAL = 1, TEX = 2, MAX_PARTS = 16, MAX_SAMPLES = 16, MIN_VERTICES = 300 };

// list is a recorded display list. supported says that it consists of triangles and quads
// only, with the attributes that this file can reproduce.
typedef struct {
  unsigned name, buffer;
  int supported, attributes;  // attributes: which of NORMAL and TEX its vertices have
  int nparts, nvertices, nindices;
  float extent;  // the largest absolute coordinate
  part parts[MAX_PARTS];
  vertex* vertices;   // distinct
  vertex last;        // the current normal and texture coordinates after the list
  uint32_t* indices;  // nindices into vertices, part after part
} list;

// visible is the result of the test for one list in one pass. A later pass of the frame with
// the same view reuses it. The members before first are the key, compared as bytes.
typedef struct {
  list* of;
  float model[16], projection[16];
  int view[4], culled, samples;  // viewport; raster.side; samples per pixel
  uint32_t first;                // of the visible faces, in mjc_faces.faces
  int touched[4];                // left, bottom, right, top of the pixels that it can write
  int n[MAX_PARTS];              // number of indices of visible faces per part
} visible;

struct mjc_faces {
  list* lists;              // sorted by name
  int nlists;
  list* recording;          // the list being compiled, or NULL
  int in_primitive, room;   // between glBegin and glEnd; capacity of recording->vertices
  vertex now;               // the current vertex attributes
  float* window;            // scratch: window x, y of a list's vertices; NaN near the camera's plane
  int nwindow;
  visible* visible;         // of this frame
  int nvisible, room_visible;
  int touched[4];           // by the draws since the last mjc_faces_touched
  uint32_t* faces;          // vertex indices of the visible faces
  size_t nfaces, room_faces;
};

// The renderer that draws on this thread, if any.
static __thread mjc_faces* drawing;

// grow ensures that the array *at, with capacity *room, has capacity for n elements of the
// given size. Returns 0 if there is no memory.
static int grow(void* at, size_t* room, size_t n, size_t size) {
  if (n <= *room) return 1;
  size_t more = n + n / 2 + 64;
  void* p = realloc(*(void**)at, more * size);
  if (!p) return 0;
  *(void**)at = p;
  *room = more;
  return 1;
}

// ---- Recording the contents of lists
//
// While MuJoCo compiles a list, each call is recorded and passed on. A call that this file
// does not expect clears supported; the list is then always drawn with glCallList.

// find returns the list of a name by binary search, or NULL.
static list* find(mjc_faces* f, unsigned name) {
  int lo = 0, hi = f->nlists;
  while (lo < hi) {
    int m = (lo + hi) / 2;
    if (f->lists[m].name < name) lo = m + 1;
    else hi = m;
  }
  return lo < f->nlists && f->lists[lo].name == name ? &f->lists[lo] : NULL;
}

// empty frees the contents of a list.
static void empty(list* l) {
  free(l->vertices);
  free(l->indices);
  if (l->buffer) gl.DeleteBuffers(1, &l->buffer);
  memset(l, 0, sizeof *l);
}

// merge_equal merges equal vertices through a hash table with open addressing, and fills
// indices. A vertex that several faces share is then projected and lit once. Entries of the
// table are vertex numbers plus 1; 0 is empty. Returns 0 if there is no memory.
static int merge_equal(list* l) {
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

// A list may be compiled again under the same name. The visible faces of the frame are
// discarded, because they point into lists, which may move.
static void new_list(unsigned name, unsigned mode) {
  mjc_faces* f = drawing;
  if (f) {
    list* l = find(f, name);
    f->nvisible = 0;
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
      l->supported = 1;
    }
    f->recording = l;
    f->in_primitive = f->room = 0;
    memset(&f->now, 0, sizeof f->now);
  }
  gl.NewList(name, mode);
}

// At the end of a list its distinct vertices go to a vertex buffer, which stays in OpenGL.
// If the list is unsupported, its contents are freed and only the name remains.
static void end_list(void) {
  mjc_faces* f = drawing;
  gl.EndList();
  if (!f || !f->recording) return;
  list* l = f->recording;
  f->recording = NULL;
  l->last = f->now;
  if (l->nvertices < MIN_VERTICES || f->in_primitive || !merge_equal(l)) l->supported = 0;
  for (int i = 0; i < l->nvertices; i++) {
    for (int k = 0; k < 3; k++) l->extent = MAX(l->extent, fabsf(l->vertices[i].at[k]));
  }
  if (l->supported && l->nvertices > f->nwindow) {
    float* w = realloc(f->window, (size_t)l->nvertices * 2 * sizeof *w);
    if (w) f->window = w, f->nwindow = l->nvertices;
    else l->supported = 0;
  }
  if (l->supported) {
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
  if (f && f->recording) {
    list* l = f->recording;
    if ((mode != GL_TRIANGLES && mode != GL_QUADS) || l->nparts == MAX_PARTS) l->supported = 0;
    if (l->supported) l->parts[l->nparts++] = (part){mode, l->nvertices, 0};
    f->in_primitive = 1;
  }
  gl.Begin(mode);
}

// A part must consist of complete faces: the loops of select_faces rely on it.
static void end(void) {
  mjc_faces* f = drawing;
  if (f && f->recording) {
    list* l = f->recording;
    f->in_primitive = 0;
    if (l->supported) {
      part* p = &l->parts[l->nparts - 1];
      p->n = l->nvertices - p->first;
      if (p->n % (p->mode == GL_QUADS ? 4 : 3)) l->supported = 0;
    }
  }
  gl.End();
}

// Colour changes inside a list are not reproduced.
static void color4fv(const float* v) {
  if (drawing && drawing->recording) drawing->recording->supported = 0;
  gl.Color4fv(v);
}

// record_attribute sets the current normal or texture coordinates. An attribute set outside
// glBegin and glEnd, or for the first time after the first vertex, would take its value for
// some vertices from the state before the list, which is unknown here.
static void record_attribute(int what, const float* v) {
  mjc_faces* f = drawing;
  if (!f || !f->recording) return;
  list* l = f->recording;
  if (!f->in_primitive || (!(l->attributes & what) && l->nvertices > 0)) l->supported = 0;
  l->attributes |= what;
  if (what == NORMAL) memcpy(f->now.normal, v, sizeof f->now.normal);
  else memcpy(f->now.tex, v, sizeof f->now.tex);
}

// record_vertex appends a vertex with the current attributes.
static void record_vertex(float x, float y, float z) {
  mjc_faces* f = drawing;
  if (!f || !f->recording) return;
  list* l = f->recording;
  size_t room = (size_t)f->room;
  if (!l->supported || !f->in_primitive || l->nvertices > 1 << 28 || !grow(&l->vertices, &room, (size_t)l->nvertices + 1, sizeof(vertex))) {
    l->supported = 0;
    return;
  }
  f->room = (int)room;
  f->now.at[0] = x, f->now.at[1] = y, f->now.at[2] = z;
  l->vertices[l->nvertices++] = f->now;
}

static void vertex3fv(const float* v) { record_vertex(v[0], v[1], v[2]); gl.Vertex3fv(v); }
static void vertex3f(float x, float y, float z) { record_vertex(x, y, z); gl.Vertex3f(x, y, z); }
static void vertex3d(double x, double y, double z) { record_vertex((float)x, (float)y, (float)z); gl.Vertex3d(x, y, z); }
static void normal3fv(const float* v) { record_attribute(NORMAL, v); gl.Normal3fv(v); }
static void normal3f(float x, float y, float z) { record_attribute(NORMAL, (float[]){x, y, z}); gl.Normal3f(x, y, z); }
static void normal3d(double x, double y, double z) { record_attribute(NORMAL, (float[]){(float)x, (float)y, (float)z}); gl.Normal3d(x, y, z); }
static void texcoord2f(float s, float t) { record_attribute(TEX, (float[]){s, t}); gl.TexCoord2f(s, t); }
static void texcoord2d(double s, double t) { record_attribute(TEX, (float[]){(float)s, (float)t}); gl.TexCoord2d(s, t); }
static void texcoord2fv(const float* v) { record_attribute(TEX, v); gl.TexCoord2fv(v); }

// ---- Which faces may cover a sample

// FUZZ is the maximum distance, in pixels along either axis, of a vertex from where the
// driver places it. The driver rounds to 1/256 pixel, which is up to 1/512; the rest
// covers the difference between its float arithmetic and ours.
#define FUZZ (1.0f / 128)

typedef float four __attribute__((vector_size(16)));
typedef int fours __attribute__((vector_size(16)));  // masks: 0 or -1

typedef struct {
  float lo[2], hi[2];  // of the viewport, with a margin of 1 pixel
  float side;          // which faces are culled: 1 counter-clockwise in the window, -1 clockwise, 0 none
  int n;               // groups of four samples
  four x[MAX_SAMPLES / 4], y[MAX_SAMPLES / 4];  // sample positions in a pixel, four at a time
} raster;

// project computes the window coordinates of the vertices of l under the matrix m (column
// major) into out, and the rectangle of pixels that they can touch.
//
// Error bound: the sums consist of terms of magnitude at most size, so each has an error of
// a few roundings of size, 2^-24 each. The window coordinate divides by w and multiplies by
// half the viewport. A vertex is trusted if w exceeds close, at which 16 such roundings
// (2^-20) amount to 1/256 pixel. Others become NaN, and all their faces are drawn.
static void project(const list* l, const float* m, const int* view, float* out, int* touched) {
  float size = 0;
  for (int r = 0; r < 4; r++) {
    if (r == 2) continue;
    size = MAX(size, (fabsf(m[r]) + fabsf(m[4 + r]) + fabsf(m[8 + r])) * l->extent + fabsf(m[12 + r]));
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
  // The rectangle has a margin of 2 pixels. If the list is entirely outside the viewport,
  // left exceeds right, or low exceeds high: the rectangle is empty.
  touched[0] = (int)(all ? MIN(MAX(left, lo[0]), hi[0] + 8) : lo[0]) - 2;
  touched[1] = (int)(all ? MIN(MAX(low, lo[1]), hi[1] + 8) : lo[1]) - 2;
  touched[2] = (int)(all ? MAX(MIN(right, hi[0]), lo[0] - 8) : hi[0]) + 3;
  touched[3] = (int)(all ? MAX(MIN(high, hi[1]), lo[1] - 8) : hi[1]) + 3;
}

// Bitwise operations on four floats: minimum, maximum and absolute value.
static fours bits(four v) { return (fours)v; }
static four vmin(four a, four b) { fours m = a < b; return (four)((m & bits(a)) | (~m & bits(b))); }
static four vmax(four a, four b) { fours m = a > b; return (four)((m & bits(a)) | (~m & bits(b))); }
static four vabs(four v) { return (four)(bits(v) & 0x7FFFFFFF); }

// covers_sample reports whether the triangle a, b, c, at most a few pixels large, may cover a
// sample. It evaluates the three edge functions at every sample of its bounding box.
// slack is the change of an edge function if a vertex moves by FUZZ in x and y.
static int covers_sample(const raster* r, const float* a, const float* b, const float* c) {
  float dx[3] = {b[0] - a[0], c[0] - b[0], a[0] - c[0]}, dy[3] = {b[1] - a[1], c[1] - b[1], a[1] - c[1]};
  float left = MIN(a[0], MIN(b[0], c[0])) - FUZZ, right = MAX(a[0], MAX(b[0], c[0])) + FUZZ;
  float low = MIN(a[1], MIN(b[1], c[1])) - FUZZ, high = MAX(a[1], MAX(b[1], c[1])) + FUZZ;
  float slack[3];
  for (int i = 0; i < 3; i++) slack[i] = FUZZ * (fabsf(dx[i]) + fabsf(dy[i]));
  float turn = dx[0] * dy[1] - dy[0] * dx[1] < 0 ? -1 : 1;
  for (int i = 0; i < 3; i++) dx[i] *= turn, dy[i] *= turn;
  // Rounding toward minus infinity by a cast, which truncates, of a positive number.
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

// may_cover returns, for four triangles, which may cover a sample. v holds the indices of
// their first, second and third vertices. Triangles with a NaN vertex may.
static fours may_cover(const raster* r, const float* w, const uint32_t v[3][4]) {
  four x[3], y[3], dx[2], dy[2];
  for (int i = 0; i < 3; i++) {
    x[i] = (four){w[2 * v[i][0]], w[2 * v[i][1]], w[2 * v[i][2]], w[2 * v[i][3]]};
    y[i] = (four){w[2 * v[i][0] + 1], w[2 * v[i][1] + 1], w[2 * v[i][2] + 1], w[2 * v[i][3] + 1]};
  }
  for (int i = 0; i < 2; i++) dx[i] = x[i + 1] - x[i], dy[i] = y[i + 1] - y[i];
  four area = dx[0] * dy[1] - dy[0] * dx[1];
  four left = vmin(x[0], vmin(x[1], x[2])) - FUZZ, right = vmax(x[0], vmax(x[1], x[2])) + FUZZ;
  four low = vmin(y[0], vmin(y[1], y[2])) - FUZZ, high = vmax(y[0], vmax(y[1], y[2])) + FUZZ;
  // False for NaN as well as for huge triangles.
  fours number = vabs(area) < 1e9f;
  fours out = (right < r->lo[0]) | (high < r->lo[1]) | (left > r->hi[0]) | (low > r->hi[1]);
  // At large coordinates, float rounding exceeds what FUZZ allows for. Triangles larger than two pixels are
  // assumed to cover something; testing their samples would cost more than drawing them.
  fours far = vabs(left) + vabs(right) + vabs(low) + vabs(high) >= 16384;
  // Facing away, by more than moving the vertices by FUZZ could change the area.
  fours back = area * r->side > 2 * FUZZ * (vabs(dx[0]) + vabs(dy[0]) + vabs(dx[1]) + vabs(dy[1])) + 8 * FUZZ * FUZZ;
  fours large = (right - left > 2) | (high - low > 2);
  fours yes = ~number | (~out & (far | (~back & large)));
  fours open = number & ~out & ~far & ~back & ~large;
  for (int i = 0; i < 4; i++) {
    if (open[i]) yes[i] = covers_sample(r, w + 2 * v[0][i], w + 2 * v[1][i], w + 2 * v[2][i]);
  }
  return yes;
}

// select_faces appends the faces of the list that may cover a sample to f->faces. Returns 0 if
// there is no memory. It writes each face first and then advances only if it is needed,
// which avoids unpredictable branches; hence the 12 extra elements.
static int select_faces(mjc_faces* f, visible* s, const raster* r) {
  list* l = s->of;
  size_t at = s->first;
  if (!grow(&f->faces, &f->room_faces, at + (size_t)l->nindices + 12, sizeof *f->faces)) return 0;
  for (int k = 0; k < l->nparts; k++) {
    const part* p = &l->parts[k];
    const uint32_t *v = l->indices + p->first, *end = v + p->n;
    size_t before = at;
    if (p->mode == GL_QUADS) {
      // A driver may split a quad along either diagonal, so all four triangles are tested.
      for (; v < end; v += 4) {
        uint32_t cut[3][4] = {{v[0], v[0], v[0], v[1]}, {v[1], v[2], v[1], v[2]}, {v[2], v[3], v[3], v[3]}};
        fours yes = may_cover(r, f->window, cut);
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
        fours yes = may_cover(r, f->window, corners);
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

// find_visible returns the visible faces of a list under the current OpenGL state, from an
// earlier pass of this frame if its key is the same. Returns NULL if the state is one that
// this file does not handle, or if there is no memory.
static visible* find_visible(mjc_faces* f, list* l) {
  visible now;
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
  for (int i = 0; i < f->nvisible; i++) {
    visible* s = &f->visible[i];
    if (!memcmp(s, &now, offsetof(visible, first))) return s;
  }
  // Four samples are processed at a time. Spare ones are at the centre of the pixel, which
  // can only keep more faces.
  raster r = {.side = (float)now.culled, .n = MAX(1, (now.samples + 3) / 4)};
  for (int i = 0; i < 4 * r.n; i++) {
    float at[2] = {0.5f, 0.5f};
    if (i < now.samples) gl.GetMultisamplefv(GL_SAMPLE_POSITION, (unsigned)i, at);
    r.x[i / 4][i % 4] = at[0], r.y[i / 4][i % 4] = at[1];
  }
  for (int k = 0; k < 2; k++) r.lo[k] = (float)now.view[k] - 1, r.hi[k] = (float)(now.view[k] + now.view[k + 2]) + 1;
  // m = projection * model, column-major as in OpenGL.
  float m[16];
  for (int c = 0; c < 4; c++) {
    for (int row = 0; row < 4; row++) {
      m[4 * c + row] = 0;
      for (int k = 0; k < 4; k++) m[4 * c + row] += now.projection[4 * k + row] * now.model[4 * c + k];
    }
  }
  project(l, m, now.view, f->window, now.touched);
  now.first = (uint32_t)f->nfaces;
  int empty = now.touched[0] >= now.touched[2] || now.touched[1] >= now.touched[3];
  if (!empty && !select_faces(f, &now, &r)) return NULL;
  size_t room = (size_t)f->room_visible;
  if (!grow(&f->visible, &room, (size_t)f->nvisible + 1, sizeof now)) return NULL;
  f->room_visible = (int)room;
  f->visible[f->nvisible] = now;
  return &f->visible[f->nvisible++];
}

// touch extends the touched rectangle by r.
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

// call_list draws the visible faces of a list from its vertex buffer, or the list itself if
// it was not recorded. The faces of each part are drawn in the list's order, since with
// blending or equal depths the order decides the bits.
static void call_list(unsigned name) {
  mjc_faces* f = drawing;
  list* l = f && !f->recording ? find(f, name) : NULL;
  visible* s = l && l->supported ? find_visible(f, l) : NULL;
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
  if (l->attributes & NORMAL) {
    gl.EnableClientState(GL_NORMAL_ARRAY);
    gl.NormalPointer(GL_FLOAT, sizeof(vertex), at + offsetof(vertex, normal));
  }
  if (l->attributes & TEX) {
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
  // A display list leaves its last normal and texture coordinates as the current ones.
  if (l->attributes & NORMAL) gl.Normal3fv(l->last.normal);
  if (l->attributes & TEX) gl.TexCoord2fv(l->last.tex);
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
  free(f->visible);
  free(f->faces);
  free(f);
}

void mjc_faces_begin(mjc_faces* f) {
  drawing = f;
  if (f) f->nvisible = 0, f->nfaces = 0;
}
