// MuJoCo's scene and renderer on an off-screen context, with the caches that speed up
// software rendering: shadow.c, faces.c and first.c.
#include "render.h"

#include "api.h"
#include "faces.h"
#include "first.h"

#ifdef MJC_BUILT

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GEOM = 10000 };  // the capacity of a scene, as in MuJoCo's Python renderer

struct mjc_renderer {
  mjModel* m;
  mjc_gl* gl;
  mjvScene scene;
  mjvOption option;
  mjrContext context;
  mjc_faces* faces;    // NULL: all faces are drawn
  mjc_shadow* shadow;  // NULL: shadow maps are redrawn completely
  mjc_first* first;    // NULL: the first draw is not cached
  mjvScene previous;   // the parts of the last frame's scene that same_first_draw compares
  int width, height;
  unsigned char* pixels;  // width x height x 3, bottom row first
};

// contexts serialises the creation and destruction of contexts, because MuJoCo counts them
// without a lock. broken is set after an error in mjr_makeContext: MuJoCo's OpenGL loader
// is C++ code that stays locked for ever if longjmp leaves it, so a second attempt would
// deadlock.
static pthread_mutex_t contexts = PTHREAD_MUTEX_INITIALIZER;
static int broken;

// in_software reports whether Mesa's software renderer draws in the current context.
static int in_software(void) { return strstr(mjc_gl_string(MJC_GL_RENDERER), "llvmpipe") != NULL; }

// make_context creates MuJoCo's context. faces must exist before, because mjr_makeContext
// compiles the display lists that it records.
static int make_context(mjc_renderer* r, int plain, char* text) {
  volatile int ok = 0;
  pthread_mutex_lock(&contexts);
  if (broken) {
    snprintf(text, MJC_TEXT, "an earlier attempt failed, and MuJoCo cannot retry in the same process");
  } else {
    if (!plain && in_software()) r->faces = mjc_faces_new(mjc_gl_proc);
    mjc_faces_begin(r->faces);
    MJC_TRY(text) {
      mjc.mjr_makeContext(r->m, &r->context, mjFONTSCALE_150);
      mjc.mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
      // Replace the model's buffer size by the frame size: equal pixels, less memory, and no
      // limit on the frame size.
      mjc.mjr_resizeOffscreen(r->width, r->height, &r->context);
      mjc.mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
      ok = 1;
    }
    MJC_CAUGHT { broken = 1; }
    mjc_faces_begin(NULL);
  }
  pthread_mutex_unlock(&contexts);
  // MuJoCo falls back to the window buffer, which does not exist here, without an error.
  if (ok && r->context.currentBuffer != mjFB_OFFSCREEN) {
    snprintf(text, MJC_TEXT, "OpenGL has no off-screen buffer of %d x %d pixels", r->width, r->height);
    return 0;
  }
  return ok;
}

// make_scene allocates the scene.
static int make_scene(mjc_renderer* r, char* text) {
  volatile int ok = 0;
  MJC_TRY(text) {
    mjc.mjv_makeScene(r->m, &r->scene, MAX_GEOM);
    ok = 1;
  }
  return ok;
}

// make_caches creates the caches of the shadow map and of the first draw, in software only:
// a graphics card redraws faster than it copies.
static void make_caches(mjc_renderer* r) {
  if (!in_software()) return;
  pthread_mutex_lock(&contexts);
  r->shadow = mjc_shadow_new(mjc_gl_proc, r->context.shadowFBO, r->context.shadowTex, r->context.shadowSize);
  r->first = mjc_first_new(mjc_gl_proc, r->context.offColor, r->context.offDepthStencil, r->width, r->height);
  pthread_mutex_unlock(&contexts);
}

// The members are created in the order GL context, MuJoCo context, scene. On failure,
// mjc_renderer_free undoes those that exist.
mjc_renderer* mjc_renderer_new(mjModel* m, int width, int height, int plain, char* text) {
  text[0] = 0;
  mjc_renderer* r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->m = m, r->width = width, r->height = height;
  mjc.mjv_defaultScene(&r->scene);
  mjc.mjv_defaultOption(&r->option);
  mjc.mjr_defaultContext(&r->context);
  r->pixels = malloc((size_t)width * (size_t)height * 3);
  if (r->pixels && (r->gl = mjc_gl_new(width, height, text)) && make_context(r, plain, text) && make_scene(r, text)) {
    if (!plain) make_caches(r);
    return r;
  }
  mjc_renderer_free(r);
  return NULL;
}

// The caches delete OpenGL objects and so must be freed while the context is current, that
// is before it is destroyed.
void mjc_renderer_free(mjc_renderer* r) {
  char text[MJC_TEXT];
  mjc_shadow_free(r->shadow);
  mjc_first_free(r->first);
  mjc_faces_free(r->faces);
  if (r->gl && !broken) {
    pthread_mutex_lock(&contexts);
    MJC_TRY(text) { mjc.mjr_freeContext(&r->context); }
    pthread_mutex_unlock(&contexts);
  }
  if (r->gl) mjc_gl_free(r->gl);
  mjc.mjv_freeScene(&r->scene);
  free(r->previous.geoms);
  free(r->pixels);
  free(r);
}

// same_first_draw reports whether the first draw of this frame depends on nothing that
// changed since the previous frame, apart from its display list and matrices, which
// first.c compares itself. It also stores this frame's scene for the next comparison.
//
// Positions and orientations of geoms may change, except those of planes: a plane is
// transparent from behind, so its position decides which geom is drawn first. A geom that
// reflects (a mirror) causes other draws before it, and decorative geom types may be drawn
// without a display list; both rule out caching.
static int same_first_draw(mjc_renderer* r) {
  mjvScene *was = &r->previous, *now = &r->scene;
  if (!was->geoms && !(was->geoms = calloc(MAX_GEOM, sizeof *was->geoms))) return 0;
  int equal = was->ngeom == now->ngeom && was->nlight == now->nlight && was->stereo == now->stereo &&
              !now->enabletransform && !memcmp(was->flags, now->flags, sizeof now->flags) &&
              !memcmp(was->lights, now->lights, sizeof now->lights) && !memcmp(was->camera, now->camera, sizeof now->camera);
  for (int i = 0; i < now->ngeom; i++) {
    mjvGeom g = now->geoms[i];
    if (g.type != mjGEOM_PLANE) {
      memset(g.pos, 0, sizeof g.pos);
      memset(g.mat, 0, sizeof g.mat);
    }
    g.camdist = 0, g.transparent = 0;
    equal = equal && g.type < mjNGEOMTYPES && g.reflectance == 0 && !memcmp(&g, &was->geoms[i], sizeof g);
    was->geoms[i] = g;
  }
  was->ngeom = now->ngeom, was->nlight = now->nlight, was->stereo = now->stereo;
  memcpy(was->flags, now->flags, sizeof now->flags);
  memcpy(was->lights, now->lights, sizeof now->lights);
  memcpy(was->camera, now->camera, sizeof now->camera);
  return equal;
}

// Draws one frame. The *_begin calls mark the beginning and end of the frame for each cache. If MuJoCo raises an
// error in between, a cache stays active on this thread until the next frame begins, which
// is harmless: the thread draws for this renderer only.
const unsigned char* mjc_renderer_draw(mjc_renderer* r, mjc_data* c, int camera, char* text) {
  const unsigned char* volatile out = NULL;
  mjrRect all = {0, 0, r->width, r->height};
  mjvCamera cam;
  MJC_TRY(text) {
    mjc.mjv_defaultCamera(&cam);
    cam.type = mjCAMERA_FIXED;
    cam.fixedcamid = camera;
    mjc.mjv_updateScene(r->m, c->d, &r->option, NULL, &cam, mjCAT_ALL, &r->scene);
    mjc_shadow_begin(r->shadow);
    mjc_faces_begin(r->faces);
    mjc_first_begin(r->first, r->first && same_first_draw(r));
    mjc.mjr_render(all, &r->scene, &r->context);
    mjc_first_begin(NULL, 0);
    mjc_faces_begin(NULL);
    mjc_shadow_begin(NULL);
    mjc.mjr_readPixels(r->pixels, NULL, all, &r->context);
    out = r->pixels;
  }
  // mjv_updateScene may have left the data's stack allocated, so the data needs a reset.
  MJC_CAUGHT { c->fatal = 1; }
  return out;
}

#endif
