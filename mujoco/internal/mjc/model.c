// Models: compile, load, save, names.
#include "api.h"

#ifdef MJC_BUILT

#include <stdio.h>
#include <stdlib.h>

mjVFS* mjc_vfs_new(void) {
  mjVFS* v = malloc(sizeof(mjVFS));
  if (v) mjc.mj_defaultVFS(v);
  return v;
}

void mjc_vfs_free(mjVFS* v) {
  mjc.mj_deleteVFS(v);
  free(v);
}

int mjc_vfs_add(mjVFS* v, const char* name, const void* bytes, int n) {
  volatile int rc = -1;
  char text[MJC_TEXT];
  MJC_TRY(text) { rc = mjc.mj_addBufferVFS(v, name, bytes, n); }
  return rc;
}

// mjc_compile compiles xml, or file where xml is NULL. With a model, text holds
// the compiler's warning, "" if none.
mjModel* mjc_compile(const char* xml, const char* file, mjVFS* v, char* text) {
  mjSpec* volatile spec = NULL;
  mjModel* volatile m = NULL;
  text[0] = 0;
  MJC_TRY(text) {
    spec = xml ? mjc.mj_parseXMLString(xml, v, text, MJC_TEXT) : mjc.mj_parseXML(file, v, text, MJC_TEXT);
    if (spec) {
      m = mjc.mj_compile(spec, v);
      if (!m || mjc.mjs_isWarning(spec)) snprintf(text, MJC_TEXT, "%s", mjc.mjs_getError(spec));
      if (m && !text[0]) snprintf(text, MJC_TEXT, "%s", mjc_warned());
    }
  }
  if (spec) mjc.mj_deleteSpec(spec);
  return m;
}

mjModel* mjc_load(const void* bytes, int n, char* text) {
  mjModel* volatile m = NULL;
  text[0] = 0;
  MJC_TRY(text) {
    m = mjc.mj_loadModelBuffer(bytes, n);
    if (!m) snprintf(text, MJC_TEXT, "%s", mjc_warned());
  }
  return m;
}

mjModel* mjc_copy(const mjModel* src, char* text) {
  mjModel* volatile m = NULL;
  text[0] = 0;
  MJC_TRY(text) { m = mjc.mj_copyModel(NULL, src); }
  return m;
}

int64_t mjc_size(const mjModel* m) { return mjc.mj_sizeModel(m); }

int mjc_save(const mjModel* m, void* bytes, int n, char* text) {
  volatile int rc = -1;
  MJC_TRY(text) {
    mjc.mj_saveModel(m, NULL, bytes, n);
    rc = 0;
  }
  return rc;
}

void mjc_model_free(mjModel* m) { mjc.mj_deleteModel(m); }

int mjc_id(const mjModel* m, int type, const char* name) { return mjc.mj_name2id(m, type, name); }

const char* mjc_name(const mjModel* m, int type, int id) { return mjc.mj_id2name(m, type, id); }

// mjc_state_size is -1 for what is no specification.
int mjc_state_size(const mjModel* m, int spec) {
  volatile int n = -1;
  char text[MJC_TEXT];
  MJC_TRY(text) { n = mjc.mj_stateSize(m, spec); }
  return n;
}

void mjc_integrate(const mjModel* m, double* qpos, const double* qvel, double dt) {
  mjc.mj_integratePos(m, qpos, qvel, dt);
}

void mjc_differentiate(const mjModel* m, double* qvel, double dt, const double* from, const double* to) {
  mjc.mj_differentiatePos(m, qvel, dt, from, to);
}

#endif
