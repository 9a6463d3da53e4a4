// Models: compilation, names and sizes.
#include "api.h"

#ifdef MJC_BUILT

#include <stdio.h>
#include <stdlib.h>

// mjVFS is allocated here because Go code does not know its size.
mjVFS* mjc_vfs_new(void) {
  mjVFS* v = malloc(sizeof(mjVFS));
  if (v) mjc.mj_defaultVFS(v);
  return v;
}

void mjc_vfs_free(mjVFS* v) {
  mjc.mj_deleteVFS(v);
  free(v);
}

// Returns 0, 2 for a repeated name, or another value on failure, as MuJoCo does.
int mjc_vfs_add(mjVFS* v, const char* name, const void* bytes, int n) {
  volatile int rc = -1;
  char text[MJC_TEXT];
  MJC_TRY(text) { rc = mjc.mj_addBufferVFS(v, name, bytes, n); }
  return rc;
}

// Parses and compiles. The two steps report errors in different places: the parser writes
// to text, the compiler to the spec. If an error is raised in between, spec is freed
// all the same, hence volatile.
mjModel* mjc_compile(const char* xml, mjVFS* v, char* text) {
  mjSpec* volatile spec = NULL;
  mjModel* volatile m = NULL;
  text[0] = 0;
  MJC_TRY(text) {
    spec = mjc.mj_parseXMLString(xml, v, text, MJC_TEXT);
    if (spec) {
      m = mjc.mj_compile(spec, v);
      if (!m) snprintf(text, MJC_TEXT, "%s", mjc.mjs_getError(spec));
    }
  }
  if (spec) mjc.mj_deleteSpec(spec);
  return m;
}

void mjc_model_free(mjModel* m) { mjc.mj_deleteModel(m); }

int mjc_id(const mjModel* m, int type, const char* name) { return mjc.mj_name2id(m, type, name); }

// mjc_state_size returns -1 if spec is invalid, for which MuJoCo raises an error.
int mjc_state_size(const mjModel* m, int spec) {
  volatile int n = -1;
  char text[MJC_TEXT];
  MJC_TRY(text) { n = mjc.mj_stateSize(m, spec); }
  return n;
}

#endif
