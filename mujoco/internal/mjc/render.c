// MuJoCo's scene and renderer on an off-screen context.
#include "render.h"

#include "api.h"
#include "faces.h"
#include "first.h"

#ifdef MJC_BUILT

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GEOM = 10000 };  // as MuJoCo's Python renderer

struct mjc_renderer {
  mjModel* m;
  mjc_gl* gl;
  mjvScene scene;
  mjvOption option;
  mjrContext context;
  mjc_faces* faces;    // NULL where all faces are drawn
  mjc_shadow* shadow;  // NULL where the whole map is drawn
  mjc_first* first;    // NULL where nothing of the picture is kept
  mjvScene before;     // what same compares
  int width, height;
  unsigned char* pixels;
};

// MuJoCo counts its contexts without a lock, and its loader of OpenGL, which is written
// in C++, is left locked for ever by an error in it.
static pthread_mutex_t contexts = PTHREAD_MUTEX_INITIALIZER;
static int broken;

static int in_software(void) { return strstr(mjc_gl_string(MJC_GL_RENDERER), "llvmpipe") != NULL; }

static int make_context(mjc_renderer* r, int plain, char* text) {
  volatile int ok = 0;
  pthread_mutex_lock(&contexts);
  if (broken) {
    snprintf(text, MJC_TEXT, "an earlier attempt failed, which MuJoCo does not recover from in one process");
  } else {
    if (!plain && in_software()) r->faces = mjc_faces_new(mjc_gl_proc);
    mjc_faces_begin(r->faces);
    MJC_TRY(text) {
      mjc.mjr_makeContext(r->m, &r->context, mjFONTSCALE_150);
      mjc.mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
      // The size of the image, not the model's: equal pixels, less memory, any size.
      mjc.mjr_resizeOffscreen(r->width, r->height, &r->context);
      mjc.mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
      ok = 1;
    }
    MJC_CAUGHT { broken = 1; }
    mjc_faces_begin(NULL);
  }
  pthread_mutex_unlock(&contexts);
  if (ok && r->context.currentBuffer != mjFB_OFFSCREEN) {
    snprintf(text, MJC_TEXT, "OpenGL has no off-screen buffer of %d x %d pixels", r->width, r->height);
    return 0;
  }
  return ok;
}

static int make_scene(mjc_renderer* r, char* text) {
  volatile int ok = 0;
  MJC_TRY(text) {
    mjc.mjv_makeScene(r->m, &r->scene, MAX_GEOM);
    ok = 1;
  }
  return ok;
}

// keep pays in software only: a graphics card fills a map faster than it copies one.
// The same holds for the first draw.
static void keep(mjc_renderer* r) {
  if (!in_software()) return;
  pthread_mutex_lock(&contexts);
  r->shadow = mjc_shadow_new(mjc_gl_proc, r->context.shadowFBO, r->context.shadowTex, r->context.shadowSize);
  r->first = mjc_first_new(mjc_gl_proc, r->context.offColor, r->context.offDepthStencil, r->width, r->height);
  pthread_mutex_unlock(&contexts);
}

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
    if (!plain) keep(r);
    return r;
  }
  mjc_renderer_free(r);
  return NULL;
}

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
  free(r->before.geoms);
  free(r->pixels);
  free(r);
}

// same says whether a frame's first draw depends on nothing else than that of the frame before, its list's place apart.
// A mirror makes other draws come first; planes are transparent from behind, so that their places say which geom is
// the first; and what is no usual geom may be drawn without a list.
static int same(mjc_renderer* r) {
  mjvScene *was = &r->before, *now = &r->scene;
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
    mjc_first_begin(r->first, r->first && same(r));
    mjc.mjr_render(all, &r->scene, &r->context);
    mjc_first_begin(NULL, 0);
    mjc_faces_begin(NULL);
    mjc_shadow_begin(NULL);
    mjc.mjr_readPixels(r->pixels, NULL, all, &r->context);
    out = r->pixels;
  }
  // The engine's stack in the data may have been left open.
  MJC_CAUGHT { c->fatal = 1; }
  return out;
}

#endif
